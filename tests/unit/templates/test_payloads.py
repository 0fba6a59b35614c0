"""Sample payloads and tasks from a pack's own rows."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from templates import find_pack, load_pack
from templates.payloads import (
    TEMPLATES,
    Template,
    outcome_values,
    sample_annotation,
    sample_flag,
    sample_prediction,
    sample_task,
    validation_task,
)
from tests.conftest import PACKS, replace_in
from tests.fakes.creation_tasks import creation_tasks


def given(payload: dict[str, list[dict[str, object]]]) -> dict[object, object]:
    return {result["from_name"]: result["value"] for result in payload["result"]}


@pytest.mark.parametrize("name", PACKS)
def test_an_authors_sample_fills_in_every_field_except_contexts(name: str) -> None:
    pack = find_pack(name)
    asked = {field.name for field in pack.spec.fields if field.role != "context"}
    assert set(given(sample_annotation(pack, "create"))) == asked | {"feedback"}


@pytest.mark.parametrize("name", PACKS)
def test_a_validator_sees_neither_the_target_nor_a_prompt(name: str) -> None:
    pack = find_pack(name)
    assert set(sample_task(pack, "validate")["data"]) == set(pack.spec.model_input)


def test_labels_are_stored_by_name_not_by_title() -> None:
    pack = find_pack("nli")
    assert given(sample_annotation(pack, "validate"))["label"] == {"choices": ["entailment"]}
    assert sample_task(pack, "create")["data"]["target_title"] == "Definitely correct"


def test_a_span_is_the_text_at_its_position() -> None:
    pack = find_pack("qa")
    passage = sample_task(pack, "create")["data"]["passage"]
    span = given(sample_annotation(pack, "create"))["answer"]
    assert isinstance(span, dict)
    assert passage[span["start"] : span["end"]] == span["text"]
    assert span["labels"] == ["Answer"]


def test_a_flag_has_no_label() -> None:
    assert set(given(sample_flag(find_pack("sentiment")))) == {"flag", "comment"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_prediction_only_fills_in_the_models_fields(template: Template) -> None:
    filled_in = set(given(sample_prediction(find_pack("sentiment"), template)))
    assert filled_in == ({"feedback"} if template == "create" else {"label"})


def test_targets_are_balanced() -> None:
    pack = find_pack("sentiment")
    asked = Counter(task["data"]["target"] for task in creation_tasks(pack.spec, pack.contexts))
    assert set(asked) == set(pack.spec.label_names)
    assert max(asked.values()) - min(asked.values()) <= 1


def test_a_context_only_gets_targets_that_it_allows() -> None:
    pack = find_pack("sentiment")
    contexts = [replace(context, targets=("negative",)) for context in pack.contexts[:3]]
    assert {task["data"]["target"] for task in creation_tasks(pack.spec, contexts)} == {"negative"}


def test_a_task_has_no_target_if_the_annotator_chooses() -> None:
    pack = find_pack("qa")
    assert all("target" not in task["data"] for task in creation_tasks(pack.spec, pack.contexts))


def test_a_task_names_its_context() -> None:
    pack = find_pack("qa")
    ids = [task["meta"]["context"] for task in creation_tasks(pack.spec, pack.contexts)]
    assert ids == [context.id for context in pack.contexts]


def test_a_validators_task_only_has_what_the_model_read() -> None:
    fields = {"prompt": "a", "text": "b", "why_right": "c"}
    assert validation_task(find_pack("sentiment").spec, fields) == {"data": {"text": "b"}}


def test_samples_use_renamed_fields(copy_of: Callable[[str], Path]) -> None:
    folder = copy_of("sentiment")
    for file, old, new in (
        ("task.yaml", "{name: why_wrong,", "{name: trick,"),
        ("create.xml", 'name="why_wrong"', 'name="trick"'),
    ):
        replace_in(folder / file, old, new)
    assert "trick" in given(sample_annotation(load_pack(folder), "create"))


def test_a_field_of_the_task_is_no_column_of_the_outcome() -> None:
    spec = find_pack("sentiment").spec
    fields = [field.model_copy(update={"name": "reason"}) if field.role == "reason" else field for field in spec.fields]
    own = spec.model_copy(update={"fields": tuple(fields)})
    assert set(outcome_values(spec, {})) - set(outcome_values(own, {})) == {"reason"}
