import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ml_backend.errors import FooledRuleError, VerdictError, VerdictNotTrusted
from ml_backend.targets.target import LabelPrediction, SpanPrediction
from ml_backend.verdict import (
    Verdict,
    VerdictSigner,
    ensemble_fooled,
    exact_match,
    f1_score,
    find_rule,
    fooled_rule,
    judge,
)
from templates import TaskSpec, find_pack

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "0123456789abcdef" * 4
DAY = timedelta(days=1)


def label(name: str, sure: float = 0.8) -> LabelPrediction:
    names = ("positive", "negative", "neutral")
    return LabelPrediction(name, {each: sure if each == name else (1 - sure) / 2 for each in names})


def span(text: str) -> SpanPrediction:
    return SpanPrediction(text, 0, len(text), 0.5)


@pytest.fixture
def sentiment() -> TaskSpec:
    return find_pack("sentiment").spec


@pytest.fixture
def qa() -> TaskSpec:
    return find_pack("qa").spec


def test_a_model_is_fooled_when_its_label_is_not_the_target(sentiment: TaskSpec) -> None:
    verdict = judge(sentiment, {"text": "Well."}, [("m1", label("neutral"))], "negative", now=NOW)
    assert verdict.fooled is True
    assert verdict.shown.prediction == "neutral"
    assert verdict.sentence(sentiment) == ("You fooled the model! It says Neutral (80%); you were asked for Negative.")


def test_a_model_is_not_fooled_when_its_label_is_the_target(sentiment: TaskSpec) -> None:
    verdict = judge(sentiment, {"text": "Well."}, [("m1", label("negative"))], "negative", now=NOW)
    assert verdict.fooled is False


def test_without_a_right_answer_there_is_a_prediction_but_no_verdict_yet(qa: TaskSpec) -> None:
    fields = {"question": "Where?", "passage": "In Rome."}
    verdict = judge(qa, fields, [("m1", span("Rome"))], None, now=NOW)
    assert verdict.fooled is None
    assert '"Rome"' in verdict.sentence(qa)


@pytest.mark.parametrize(
    ("said", "truth", "f1"),
    [
        ("the Eiffel Tower", "Eiffel Tower", 1.0),
        ("in Paris, France", "Paris", 0.5),
        ("one two three", "three four five six seven", 0.25),
        ("!", "the", 1.0),
        ("", "Rome", 0.0),
    ],
)
def test_squad_f1_counts_words_without_articles_and_punctuation(said: str, truth: str, f1: float) -> None:
    assert f1_score(said, truth) == pytest.approx(f1)


def test_exact_match_forgives_case_and_articles() -> None:
    assert exact_match("The tower", "tower.")
    assert not exact_match("tower bridge", "bridge tower")


def test_an_f1_equal_to_the_limit_is_not_fooled(qa: TaskSpec) -> None:
    fields = {"question": "Where?", "passage": "one two three four five"}
    at_the_limit = judge(qa, fields, [("m1", span("one"))], "one two three four", now=NOW)
    below = judge(qa, fields, [("m1", span("one"))], "one two three four five", now=NOW)
    assert f1_score("one", "one two three four") == pytest.approx(0.4)
    assert at_the_limit.fooled is False
    assert below.fooled is True


@pytest.mark.parametrize(
    ("how", "cases", "fooled"),
    [
        ("any", [False, True], True),
        ("any", [False, False], False),
        ("all", [True, True], True),
        ("all", [True, False], False),
        ("majority", [True, True, False], True),
        ("majority", [True, False], False),
    ],
)
def test_ensembles_are_fooled_by_their_rule(how: str, cases: list[bool], fooled: bool) -> None:
    assert ensemble_fooled(how, cases) is fooled


def test_the_shown_output_agrees_with_the_overall_verdict(sentiment: TaskSpec) -> None:
    answers = [("m1", label("negative")), ("m2", label("positive"))]
    verdict = judge(sentiment, {"text": "Well."}, answers, "negative", now=NOW)
    assert verdict.fooled is True
    assert verdict.shown.version == "m2"
    assert [one.fooled for one in verdict.outputs] == [False, True]


def test_there_is_no_verdict_without_a_prediction(sentiment: TaskSpec) -> None:
    with pytest.raises(VerdictError):
        judge(sentiment, {"text": "Well."}, [], "negative", now=NOW)


def test_a_target_outside_the_labels_is_refused(sentiment: TaskSpec) -> None:
    with pytest.raises(VerdictError):
        judge(sentiment, {"text": "Well."}, [("m1", label("neutral"))], "angry", now=NOW)


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(FooledRuleError):
        find_rule("nothing_like_it")


def test_a_rule_cannot_be_registered_twice() -> None:
    with pytest.raises(FooledRuleError):
        fooled_rule("squad_f1")(lambda answer, target, settings: True)


def test_a_registered_rule_decides(sentiment: TaskSpec) -> None:
    fooled_rule("test_unsure")(lambda answer, target, settings: answer.confidence < 0.5)
    unsure = sentiment.model_copy(update={"fooled": sentiment.fooled.model_copy(update={"rule": "test_unsure"})})
    verdict = judge(unsure, {"text": "Well."}, [("m1", label("negative", 0.4))], "negative", now=NOW)
    assert verdict.fooled is True


def test_a_verdict_is_about_its_own_inputs_and_target_only(sentiment: TaskSpec) -> None:
    verdict = judge(sentiment, {"text": "Well."}, [("m1", label("neutral"))], "negative", now=NOW)
    assert verdict.is_about(sentiment, {"text": "Well.", "prompt": "ignored"}, "negative")
    assert not verdict.is_about(sentiment, {"text": "Well!"}, "negative")
    assert not verdict.is_about(sentiment, {"text": "Well."}, "positive")
    assert not verdict.is_about(find_pack("hate_speech").spec, {"text": "Well."}, "negative")


def test_a_signed_verdict_survives_the_round_trip(sentiment: TaskSpec) -> None:
    signer = VerdictSigner([SECRET])
    verdict = judge(sentiment, {"text": "Well \ud83d"}, [("m1", label("neutral"))], "negative", now=NOW)
    token = signer.sign(verdict, "assignment-1")
    assert signer.read(token, "assignment-1", now=NOW, max_age=DAY) == verdict


def test_a_forged_copied_or_expired_verdict_is_not_trusted(sentiment: TaskSpec) -> None:
    signer = VerdictSigner([SECRET])
    verdict = judge(sentiment, {"text": "Well."}, [("m1", label("neutral"))], "neutral", now=NOW)
    token = signer.sign(verdict, "assignment-1")
    forged = VerdictSigner(["f" * 64]).sign(replace(verdict, fooled=True), "assignment-1")
    with pytest.raises(VerdictNotTrusted):
        signer.read(forged, "assignment-1", now=NOW, max_age=DAY)
    with pytest.raises(VerdictNotTrusted):
        signer.read(token[:-2], "assignment-1", now=NOW, max_age=DAY)
    with pytest.raises(VerdictNotTrusted):
        signer.read(token, "assignment-2", now=NOW, max_age=DAY)
    with pytest.raises(VerdictNotTrusted):
        signer.read(token, "assignment-1", now=NOW + DAY * 2, max_age=DAY)


def test_a_verdict_signed_with_an_older_secret_is_trusted(sentiment: TaskSpec) -> None:
    verdict = judge(sentiment, {"text": "Well."}, [("m1", label("neutral"))], "neutral", now=NOW)
    token = VerdictSigner([SECRET]).sign(verdict, "a")
    assert VerdictSigner([SECRET, "n" * 64]).read(token, "a", now=NOW, max_age=DAY) == verdict


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(VerdictError):
        VerdictSigner(["short"])


def test_a_verdict_survives_json_and_a_database_record(sentiment: TaskSpec) -> None:
    verdict = judge(sentiment, {"text": "Well."}, [("m1", label("neutral"))], "negative", now=NOW)
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    record = json.loads(json.dumps(verdict.to_record()))
    assert set(record) == {"inputs_hash", "target", "said", "judged_at"}
    assert Verdict.from_record(record, verdict_id=verdict.id, task=verdict.task, fooled=verdict.fooled) == verdict


@pytest.mark.parametrize("value", [None, [], "x", {}, {"id": "x"}])
def test_other_json_is_not_a_verdict(value: object) -> None:
    with pytest.raises(VerdictError):
        Verdict.from_json(value)
