"""Sample payloads and tasks made of a pack's own rows."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from templates import find_pack, load_pack
from templates.payloads import validation_task
from templates.samples import TEMPLATES, Template, sample_annotation, sample_flag, sample_prediction, sample_task
from tests.conftest import PACKS, replace_in
from tests.fakes.creation_tasks import creation_tasks


def given(payload: dict[str, list[dict[str, object]]]) -> dict[object, object]:
    return {result["from_name"]: result["value"] for result in payload["result"]}


@pytest.mark.parametrize("name", PACKS)
def test_an_author_fills_in_every_field_that_is_not_shown(name: str) -> None:
    pack = find_pack(name)
    asked = {field.name for field in pack.spec.fields if field.role != "context"}
    assert set(given(sample_annotation(pack, "create"))) == asked | {"feedback"}


@pytest.mark.parametrize("name", PACKS)
def test_a_checker_sees_neither_the_target_nor_a_prompt_that_hints_at_it(name: str) -> None:
    pack = find_pack(name)
    assert set(sample_task(pack, "validate")["data"]) == set(pack.spec.model_input)


def test_labels_are_stored_by_name_not_by_title() -> None:
    pack = find_pack("nli")
    assert given(sample_annotation(pack, "validate"))["label"] == {"choices": ["entailment"]}
    assert sample_task(pack, "create")["data"]["target_title"] == "Definitely correct"


def test_a_span_is_the_text_at_its_place() -> None:
    pack = find_pack("qa")
    passage = sample_task(pack, "create")["data"]["passage"]
    span = given(sample_annotation(pack, "create"))["answer"]
    assert isinstance(span, dict)
    assert passage[span["start"] : span["end"]] == span["text"]
    assert span["labels"] == ["Answer"]


def test_a_flag_stands_without_a_label() -> None:
    assert set(given(sample_flag(find_pack("sentiment")))) == {"flag", "comment"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_prediction_never_fills_in_what_people_write(template: Template) -> None:
    said = set(given(sample_prediction(find_pack("sentiment"), template)))
    assert said == ({"feedback"} if template == "create" else {"label"})


def test_targets_are_asked_for_equally_often() -> None:
    pack = find_pack("sentiment")
    asked = Counter(task["data"]["target"] for task in creation_tasks(pack.spec, pack.contexts))
    assert set(asked) == set(pack.spec.label_names)
    assert max(asked.values()) - min(asked.values()) <= 1


def test_a_context_is_only_asked_for_labels_that_it_allows() -> None:
    pack = find_pack("sentiment")
    contexts = [replace(context, targets=("negative",)) for context in pack.contexts[:3]]
    assert {task["data"]["target"] for task in creation_tasks(pack.spec, contexts)} == {"negative"}


def test_an_annotator_who_chooses_gets_no_target() -> None:
    pack = find_pack("qa")
    assert all("target" not in task["data"] for task in creation_tasks(pack.spec, pack.contexts))


def test_a_task_says_which_context_it_shows() -> None:
    pack = find_pack("qa")
    ids = [task["meta"]["context"] for task in creation_tasks(pack.spec, pack.contexts)]
    assert ids == [context.id for context in pack.contexts]


def test_a_checkers_task_leaves_out_what_the_model_did_not_read() -> None:
    fields = {"prompt": "a", "text": "b", "why_right": "c"}
    assert validation_task(find_pack("sentiment").spec, fields) == {"data": {"text": "b"}}


def test_a_renamed_field_reaches_the_samples(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("sentiment")
    for file, old, new in (
        ("task.yaml", "{name: why_wrong,", "{name: trick,"),
        ("create.xml", 'name="why_wrong"', 'name="trick"'),
    ):
        replace_in(folder / file, old, new)
    assert "trick" in given(sample_annotation(load_pack(folder), "create"))
