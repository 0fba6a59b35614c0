"""Predict calls are parsed by the task's pack, whatever their body contains."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_backend.errors import LabellingConfigMismatch, RequestRefused
from ml_backend.serving.questions import MAX_TASKS, MAX_TEXT_CHARS, QuestionReader, project_id
from templates import Pack, TaskSpec
from templates.spec import TargetLabel
from tests.conftest import PACKS
from tests.fakes import calls
from tests.unit.ml_backend.serving.conftest import find_pack

PASSAGE = "Marie Curie discovered polonium and radium in Paris in 1898."


def question(pack: Pack, body: object) -> Any:
    (found,) = QuestionReader(pack.spec).read(body).questions
    return found


def refused(pack: Pack, body: object) -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        QuestionReader(pack.spec).read(body)
    assert "\n" not in str(caught.value)
    return caught.value


def chosen_by_annotator(name: str) -> TaskSpec:
    return find_pack(name).spec.model_copy(update={"target": TargetLabel(set_by="annotator")})


def test_the_written_text_and_the_tasks_target_are_found(pack: Pack) -> None:
    found = question(pack, calls.predict(pack, calls.writes(pack, "A text.")))
    data = calls.predict(pack)["tasks"][0]["data"]
    written = next(field.name for field in pack.spec.with_role("input"))
    assert found.inputs == {written: "A text."}
    assert found.context == {field.name: data[field.name] for field in pack.spec.with_role("context")}
    assert found.target == data.get("target")
    assert found.task == 17


def test_several_submissions_are_one_text_of_several_lines() -> None:
    pack = find_pack("sentiment")
    context = calls.writes(pack, "One.")
    context[0]["value"]["text"] = ["One.", "Two."]
    assert question(pack, calls.predict(pack, context)).inputs == {"text": "One.\nTwo."}


def test_a_text_in_the_tasks_data_is_predicted_in_bulk() -> None:
    pack = find_pack("nli")
    found = question(pack, calls.predict(pack, data={"hypothesis": "It is so."}))
    assert found.inputs == {"hypothesis": "It is so."}


def test_the_written_text_overrides_the_tasks_data() -> None:
    pack = find_pack("nli")
    body = calls.predict(pack, calls.writes(pack, "New."), data={"hypothesis": "Old."})
    assert question(pack, body).inputs == {"hypothesis": "New."}


def test_a_label_that_the_annotator_chooses_is_the_target() -> None:
    spec = chosen_by_annotator("sentiment")
    body = calls.predict(find_pack("sentiment"), calls.chooses("label", "neutral"), data={"target": "positive"})
    assert QuestionReader(spec).read(body).questions[0].target == "neutral"


def test_a_choice_that_is_not_a_label_is_ignored() -> None:
    spec = chosen_by_annotator("sentiment")
    body = calls.predict(find_pack("sentiment"), calls.chooses("label", "sour"))
    assert QuestionReader(spec).read(body).questions[0].target is None


def test_a_selected_answer_is_the_target() -> None:
    pack = find_pack("qa")
    body = calls.predict(pack, calls.selects(pack, PASSAGE, "polonium"), data={"passage": PASSAGE})
    assert question(pack, body).target == "polonium"


@pytest.mark.parametrize(
    "value",
    [
        {"start": 23, "end": 30, "text": "polonium"},
        {"start": 22, "end": 30, "text": "polonium"},
        {"start": 31, "end": 23, "text": "polonium"},
        {"start": -8, "end": -1, "text": "in 1898"},
        {"start": 23, "end": 10**12, "text": "polonium"},
        {"start": "23", "end": 31, "text": "polonium"},
        {"start": True, "end": 31, "text": PASSAGE[1:31]},
        {"start": 5, "end": 6, "text": " "},
        {"start": 23, "end": 31, "text": ["polonium"]},
        {},
        None,
    ],
)
def test_a_selection_that_does_not_match_the_passage_is_ignored(value: Any) -> None:
    pack = find_pack("qa")
    context = [{"from_name": "answer", "to_name": "passage", "type": "labels", "value": value}]
    assert question(pack, calls.predict(pack, context, data={"passage": PASSAGE})).target is None


def test_selection_offsets_count_utf16_units() -> None:
    pack = find_pack("qa")
    passage = f"🦊🦊 {PASSAGE}"
    start = passage.index("polonium") + 2
    value = {"start": start, "end": start + 8, "text": "polonium", "labels": ["Answer"]}
    context = [{"from_name": "answer", "to_name": "passage", "type": "labels", "value": value}]
    assert question(pack, calls.predict(pack, context, data={"passage": passage})).target == "polonium"


@pytest.mark.parametrize(
    "context",
    [[], [{}], [{"from_name": "text"}], [{"from_name": "text", "value": {"text": [1]}}], [None, 3], {"x": 1}, "x", 5],
)
def test_an_unknown_or_unfinished_context_leaves_the_question_incomplete(context: Any) -> None:
    pack = find_pack("sentiment")
    body = calls.predict(pack, [])
    body["params"]["context"] = context if not isinstance(context, list) else {"result": context}
    found = question(pack, body)
    assert found.inputs == {}
    assert not QuestionReader(pack.spec).is_complete(found.inputs, found.context)


def test_a_blank_text_is_not_a_question() -> None:
    pack = find_pack("sentiment")
    found = question(pack, calls.predict(pack, calls.writes(pack, " \n\t")))
    assert not QuestionReader(pack.spec).is_complete(found.inputs, found.context)


@pytest.mark.parametrize("body", [None, [], "tasks", 4, {}, {"tasks": None}, {"tasks": {"id": 1}}])
def test_a_body_without_tasks_is_refused(body: object) -> None:
    assert refused(find_pack("qa"), body).status == 400


@pytest.mark.parametrize("task", [None, 5, "x", [], {}, {"data": None}, {"data": []}])
def test_a_task_without_data_is_refused(task: object) -> None:
    assert refused(find_pack("qa"), {"tasks": [task]}).status == 400


def test_the_number_of_tasks_is_limited() -> None:
    pack = find_pack("sentiment")
    assert len(QuestionReader(pack.spec).read(calls.bulk(pack, MAX_TASKS)).questions) == MAX_TASKS
    assert refused(pack, calls.bulk(pack, MAX_TASKS + 1)).status == 413


def test_an_interactive_call_about_several_tasks_is_refused() -> None:
    pack = find_pack("sentiment")
    body = {**calls.bulk(pack, 2), "params": {"context": {"result": calls.writes(pack, "A text.")}}}
    assert refused(pack, body).status == 400


def test_a_text_that_is_too_long_is_refused_by_name(pack: Pack) -> None:
    found = refused(pack, calls.predict(pack, calls.writes(pack, "x" * (MAX_TEXT_CHARS + 1))))
    assert found.status == 413
    assert pack.spec.with_role("input")[0].name in str(found)


def test_a_missing_context_that_the_model_reads_is_refused_by_name() -> None:
    pack = find_pack("qa")
    body = calls.predict(pack, calls.writes(pack, "Who?"))
    del body["tasks"][0]["data"]["passage"]
    found = refused(pack, body)
    assert found.status == 422
    assert "`passage`" in str(found)


def test_a_target_that_is_not_a_label_is_refused_in_an_interactive_call() -> None:
    pack = find_pack("sentiment")
    assert refused(pack, calls.predict(pack, calls.writes(pack, "A text."), data={"target": "sour"})).status == 422


@pytest.mark.parametrize(("asked", "config_of"), [("qa", "nli"), ("nli", "qa"), ("sentiment", "qa")])
def test_a_project_of_another_task_is_refused(asked: str, config_of: str) -> None:
    pack, other = find_pack(asked), find_pack(config_of)
    body = calls.predict(pack, calls.writes(pack, "A text.")) | {"label_config": other.create_xml}
    for _ in range(2):
        found = refused(pack, body)
        assert isinstance(found, LabellingConfigMismatch)


@pytest.mark.parametrize("config", ["<View", "", "<!DOCTYPE x><View/>", 5, ["<View/>"], "x" * 300_000])
def test_an_invalid_labelling_config_is_refused(config: object) -> None:
    assert refused(find_pack("qa"), {"tasks": [], "label_config": config}).status == 422


def test_only_a_project_with_a_feedback_field_gets_verdicts(pack: Pack) -> None:
    reader = QuestionReader(pack.spec)
    assert reader.read(calls.predict(pack)).shows_feedback
    assert not reader.read(calls.predict(pack, template="validate")).shows_feedback


@pytest.mark.parametrize("value", ["x", "1e3", "-1.5", "", 1.5, True, [], {}, "9" * 30, "١٢"])
def test_an_invalid_project_is_refused(value: object) -> None:
    with pytest.raises(RequestRefused) as caught:
        project_id(value)
    assert caught.value.status == 400


@pytest.mark.parametrize(("value", "number"), [("14.1794793298", 14), ("14", 14), (14, 14), (None, None)])
def test_a_project_is_identified_by_its_number(value: object, number: int | None) -> None:
    assert project_id(value) == number


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PACKS), ANY_JSON, ANY_JSON, ANY_JSON)
def test_any_json_is_parsed_or_refused(name: str, data: object, results: object, rest: object) -> None:
    reader = QuestionReader(find_pack(name).spec)
    for body in (
        rest,
        {"tasks": [{"id": rest, "data": data}], "params": {"context": {"result": results}}},
        {"tasks": data, "project": rest, "params": results},
        {"tasks": [{"data": {}}], "label_config": rest, "params": {"context": data}},
    ):
        try:
            read = json.dumps([vars(one) for one in reader.read(body).questions])
        except RequestRefused as error:
            read = f"refused with {error.status}"
        assert read.startswith(("[", "refused with 4"))


@pytest.mark.parametrize(
    ("name", "interactive"),
    [("predict_bulk", False), ("predict_interactive_qa_labels", True), ("predict_interactive_qa_textarea", True)],
)
def test_our_calls_have_the_shape_of_recorded_ones(name: str, interactive: bool) -> None:
    if not calls.RECORDED.is_dir():
        pytest.skip(f"the recorded calls are not in {calls.RECORDED}")
    body, pack = calls.recorded(name), find_pack("qa")
    made = calls.predict(pack, calls.writes(pack, "Who?") if interactive else None)
    assert made.keys() == body.keys()
    assert made["params"].keys() == body["params"].keys()
    assert made["tasks"][0].keys() <= body["tasks"][0].keys() | {"annotations"}
    if interactive:
        (result,), (own,) = body["params"]["context"]["result"], made["params"]["context"]["result"]
        assert own.keys() == result.keys()
