"""What an annotation says, on its own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from round_manager.labelstudio.annotations import content_sha256, read_judgement, read_submission, signature_of
from round_manager.labelstudio.port import UnreadableAnnotation
from templates import find_pack

QA, SENTIMENT, HATE = (find_pack(name).spec for name in ("qa", "sentiment", "hate_speech"))
PASSAGE = "🙂 The mill 🙂 burned down."


def result(name: str, **value: Any) -> dict[str, Any]:
    return {"from_name": name, "to_name": "x", "type": "any", "value": value}


def asked(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"result": [result("question", text=["What burned?"]), *spans]}


def test_offsets_can_be_in_utf16_or_in_code_points() -> None:
    ours = PASSAGE.index("burned")
    theirs = ours + 2  # two emoji before it
    for start in (ours, theirs):
        span = result("answer", start=start, end=start + 6, text="burned", labels=["Answer"])
        assert read_submission(QA, {"passage": PASSAGE}, None, asked(span)).answer == {
            "text": "burned",
            "start": ours,
            "end": ours + 6,
        }


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"start": 0, "end": 6, "text": "burned"}, "not at that place"),
        ({"start": 5, "end": 500, "text": None}, "not at that place"),
        ({"start": "5", "end": 9, "text": "mill"}, "not at that place"),
        ({"start": 9, "end": 5}, "not at that place"),
        ({}, "no answer is marked"),
    ],
)
def test_an_answer_that_is_not_in_the_passage_is_refused(value: dict[str, Any], says: str) -> None:
    with pytest.raises(UnreadableAnnotation, match=says):
        read_submission(QA, {"passage": PASSAGE}, None, asked(result("answer", **value)))


def test_no_answer_and_two_answers_are_refused() -> None:
    span = result("answer", start=PASSAGE.index("mill"), end=PASSAGE.index("mill") + 4, text="mill")
    with pytest.raises(UnreadableAnnotation, match="no answer is marked"):
        read_submission(QA, {"passage": PASSAGE}, None, asked())
    with pytest.raises(UnreadableAnnotation, match="2 answers"):
        read_submission(QA, {"passage": PASSAGE}, None, asked(span, span))


def test_a_label_on_a_result_without_offsets_marks_nothing() -> None:
    # Label Studio hangs the label that is selected on the verdict's own result too.
    span = result("answer", start=PASSAGE.index("mill"), end=PASSAGE.index("mill") + 4, text="mill")
    read = read_submission(QA, {"passage": PASSAGE}, None, asked(result("answer", labels=["Answer"]), span))
    assert read.answer is not None
    assert read.answer["text"] == "mill"


def test_choices_and_optional_fields_are_read() -> None:
    annotation = {
        "result": [
            result("text", text=["a post"]),
            result("hate_type", choices=["none"]),
            result("target_group", text="women"),
            result("why_right", text=["since"]),
        ]
    }
    written = read_submission(HATE, {"prompt": "p"}, "hateful", annotation)
    assert written.fields == {"text": "a post", "hate_type": "none", "target_group": "women"}
    assert (written.label, written.explanation) == ("hateful", {"why_right": "since"})


def test_a_label_in_the_annotation_does_not_replace_the_requested_one() -> None:
    annotation = {"result": [result("text", text=["a"]), result("label", choices=["neutral"])]}
    assert read_submission(SENTIMENT, {}, "positive", annotation).label == "positive"


def test_a_label_is_read_if_the_annotator_sets_it() -> None:
    chosen = SENTIMENT.model_copy(update={"target": SENTIMENT.target.model_copy(update={"set_by": "annotator"})})
    annotation = {"result": [result("text", text=["a"]), result("label", choices=["neutral"])]}
    assert read_submission(chosen, {}, "positive", annotation).label == "neutral"
    with pytest.raises(UnreadableAnnotation, match="no label"):
        read_submission(chosen, {}, "positive", {"result": annotation["result"][:1]})


def test_a_flag_overrides_a_label() -> None:
    annotation = {"result": [result("label", choices=["neutral"]), result("flag", choices=["It makes no sense"])]}
    judged = read_judgement(SENTIMENT, {}, annotation)
    assert (judged.label, judged.flag) == (None, "It makes no sense")


def test_a_judgement_needs_a_label_or_a_flag() -> None:
    with pytest.raises(UnreadableAnnotation, match="neither"):
        read_judgement(SENTIMENT, {}, {"result": [result("comment", text=["hm"])]})
    with pytest.raises(UnreadableAnnotation, match="neither"):
        read_judgement(QA, {"passage": PASSAGE}, {"result": []})


def test_a_user_is_named_by_number_or_as_an_object_or_not_at_all() -> None:
    at = "2026-11-16T08:56:24.425751Z"
    assert signature_of({"completed_by": 4, "updated_at": at}).user == 4
    assert signature_of({"completed_by": {"id": 5}, "created_at": at, "lead_time": 2.5}).active_ms == 2500
    with pytest.raises(UnreadableAnnotation, match="deleted"):
        signature_of({"completed_by": None, "updated_at": at})
    with pytest.raises(UnreadableAnnotation, match=r"user 5 .* user 4"):
        signature_of({"completed_by": 4, "updated_by": 5, "updated_at": at})
    with pytest.raises(UnreadableAnnotation, match="time"):
        signature_of({"completed_by": 4, "updated_at": "soon"})


Anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("text") | st.just("answer"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["from_name", "value", "text", "choices", "start", "end", "result", "id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(Anything)
def test_any_annotation_is_read_or_refused(value: Any) -> None:
    annotation = {"result": value if isinstance(value, list) else [value], "completed_by": value, "updated_at": value}
    content_sha256(annotation)
    for spec, fields in ((QA, {"passage": PASSAGE}), (SENTIMENT, {"prompt": "p"})):
        for read in (
            lambda spec=spec, fields=fields: read_submission(spec, fields, "positive", annotation),
            lambda spec=spec, fields=fields: read_judgement(spec, fields, annotation),
            lambda: signature_of(annotation),
        ):
            try:
                read()
            except UnreadableAnnotation:
                continue
