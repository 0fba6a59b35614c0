"""Calls as Label Studio sends them, with any pack's texts, in the format of recorded ones."""

import json
from pathlib import Path
from typing import Any

from templates.label_config import read_elements
from templates.pack import Pack
from templates.payloads import Span, Template, results, sample_task, template_xml

Json = dict[str, Any]

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "payloads"
PROJECT = "14.1794793298"


def recorded(name: str) -> Json:
    """Return the body of a recorded call."""
    body: Json = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))["json"]
    return body


def predict(
    pack: Pack,
    context: list[Json] | None = None,
    *,
    template: Template = "create",
    task: int = 17,
    data: Json | None = None,
) -> Json:
    """Return a predict call about one task; without a context, a bulk call."""
    own = {"id": task, "data": sample_task(pack, template)["data"] | (data or {}), "meta": {}, "annotations": []}
    return {
        "tasks": [{**own, "predictions": [], "project": 14, "updated_by": None}],
        "project": PROJECT,
        "label_config": template_xml(pack, template),
        "params": {"login": None, "password": None, "context": None if context is None else {"result": context}},
    }


def bulk(pack: Pack, count: int, **data: str) -> Json:
    """Return a predict call about many tasks."""
    call = predict(pack, data=data)
    call["tasks"] = [{**call["tasks"][0], "id": number} for number in range(count)]
    return call


def setup(pack: Pack, token: str = "0123456789abcdef0123456789abcdef01234567") -> Json:
    """Return a set-up call, which carries the owner's token."""
    host = "http://label-studio.example:8080"
    config = {"project": PROJECT, "schema": pack.create_xml, "hostname": host}
    return {**config, "access_token": token, "extra_params": None}


def writes(pack: Pack, text: str) -> list[Json]:
    """Return the context after an annotator wrote a text."""
    field = next(field.name for field in pack.spec.with_role("input"))
    return _results(pack, {field: text})


def selects(pack: Pack, passage: str, answer: str) -> list[Json]:
    """Return the context after an annotator selected an answer in the passage."""
    field = next(field.name for field in pack.spec.with_role("span"))
    return _results(pack, {field: Span(passage.index(answer), answer)})


def chooses(name: str, value: str) -> list[Json]:
    """Return the context after an annotator chose a value."""
    return [{"id": "x", "from_name": name, "to_name": "prompt", "type": "choices", "value": {"choices": [value]}}]


def shown(reply: Json) -> list[str]:
    """Return the sentences in a reply, one for each task that has one."""
    return [text for one in reply["results"] for result in one["result"] for text in result["value"]["text"]]


def _results(pack: Pack, values: dict[str, str | Span]) -> list[Json]:
    found = results(read_elements(pack.create_xml, "create.xml"), values)
    return [{**one, "id": "NgbSzepygX", "origin": "manual"} for one in found]
