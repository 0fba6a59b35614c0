"""Crowd work as Label Studio imports it: a task with what the worker was shown, and their work as its annotation."""

from collections.abc import Mapping
from typing import Any

from ml_backend.verdict import Verdict
from plugin.labelstudio.reading import FEEDBACK
from plugin.labelstudio.studio import KEY, WORKER, Json
from round_manager.labelstudio.crowd import Piece
from round_manager.models import Example, Vote
from templates import TaskSpec
from templates.payloads import Span, creation_task, results, validation_task
from templates.rows import Context
from templates.xml_lines import Element

Values = dict[str, str | Span]


def crowd_task(piece: Piece, elements: list[Element]) -> Json:
    """One piece as a task that nobody is asked to do, for a project with this template.

    The worker stands in its data under their pseudonym; Label Studio's own user is whoever imports it.
    """
    spec, example, vote = piece.spec, piece.example, piece.vote
    if vote is None:
        task, values, active_ms = _shown_to_author(piece), _written(spec, example), example.active_ms
    else:
        task, values, active_ms = validation_task(spec, _texts(example)), _judged(spec, vote), vote.active_ms
    annotation = {
        "result": results(elements, values),
        # Without a word about it Label Studio takes what is imported for ground truth.
        "ground_truth": False,
        "lead_time": None if active_ms is None else active_ms / 1000,
    }
    at = example.submitted_at if vote is None else vote.voted_at
    meta = {"example": str(example.public_id), "round": piece.round, "at": at.isoformat(), KEY: piece.key}
    return {
        "data": {**task["data"], WORKER: piece.worker},
        "meta": {**task.get("meta", {}), **meta},
        "annotations": [annotation],
    }


def _shown_to_author(piece: Piece) -> Json:
    texts = _texts(piece.example)
    shown = {field.name: texts.get(field.name, "") for field in piece.spec.with_role("context")}
    target = piece.example.label if piece.spec.target.set_by == "task" else None
    return creation_task(piece.spec, Context(piece.context or "", shown, (), {}), target)


def _written(spec: TaskSpec, example: Example) -> Values:
    texts = {**_texts(example), **(example.explanation or {})}
    own_id = example.verdict_id or example.public_id
    verdict = Verdict.from_record(example.verdict, verdict_id=own_id, task=spec.name, fooled=example.fooled)
    values: Values = {FEEDBACK: verdict.sentence(spec)}
    values |= {
        field.name: str(texts[field.name])
        for field in spec.fields
        if field.role not in ("context", "span") and texts.get(field.name)
    }
    return values | _target(spec, example.label if spec.target.set_by == "annotator" else None, example.answer)


def _judged(spec: TaskSpec, vote: Vote) -> Values:
    said: Values = {name: text for name, text in (("flag", vote.flag), ("comment", vote.comment)) if text}
    return said | _target(spec, vote.label, vote.answer)


def _target(spec: TaskSpec, label: str | None, answer: Mapping[str, Any] | None) -> Values:
    if answer is not None:
        return {spec.with_role("span")[0].name: Span(int(answer["start"]), str(answer["text"]))}
    return {} if label is None else {"label": label}


def _texts(example: Example) -> dict[str, str]:
    return {name: str(text) for name, text in example.fields.items()}
