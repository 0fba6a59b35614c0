"""From a call to the sentence that an annotator reads, with predictable models."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from ml_backend.errors import AnswerTimeout, BackendError, UnknownTask
from ml_backend.serving.limiter import ConcurrencyLimiter
from ml_backend.serving.service import ROWS_PER_SLOT, VerdictService
from ml_backend.targets.target import Prediction, Row
from templates import Pack
from templates.payloads import sample_task
from tests.fakes import calls
from tests.fakes.calls import Json
from tests.fakes.model_provider import NotThere
from tests.fakes.target import FakeTarget
from tests.unit.ml_backend.serving.conftest import ServiceSetup, find_pack

PASSAGE = "Marie Curie discovered polonium and radium in Paris in 1898."


def ask(setup: ServiceSetup, task: str, body: Json, round_number: int | None = None) -> Json:
    return setup.service.predict(task, round_number, body, time.monotonic())


def written(setup: ServiceSetup, task: str, text: str, **data: str) -> Json:
    pack = setup.packs[task]
    return ask(setup, task, calls.predict(pack, calls.writes(pack, text), data=data))


def asked_question(setup: ServiceSetup, text: str, task: int = 17) -> str:
    pack = setup.packs["qa"]
    body = calls.predict(pack, calls.writes(pack, text), task=task, data={"passage": PASSAGE})
    return " ".join(calls.shown(ask(setup, "qa", body)))


def selected(setup: ServiceSetup, answer: str, task: int = 17) -> str:
    pack = setup.packs["qa"]
    body = calls.predict(pack, calls.selects(pack, PASSAGE, answer), task=task, data={"passage": PASSAGE})
    return " ".join(calls.shown(ask(setup, "qa", body)))


@pytest.mark.parametrize("task", ["sentiment", "nli", "hate_speech"])
def test_a_verdict_is_shown_in_the_packs_words(setup: ServiceSetup, task: str) -> None:
    spec = setup.packs[task].spec
    target, other = spec.label_names[0], spec.label_names[1]
    fooling, not_fooling = (written(setup, task, f"It looks {name}.", target=target) for name in (other, target))
    slots = {"prediction": spec.label_title(other), "confidence": "75%", "target": spec.label_title(target)}
    note = f"\n(attempt 1 of 10: “It looks {other}.”)"
    assert calls.shown(fooling) == [spec.messages.fooled.format(**slots) + note]
    slots["prediction"] = spec.label_title(target)
    note = f" (attempt 2 of 10: “It looks {target}.”)"
    assert calls.shown(not_fooling) == [spec.messages.not_fooled.format(**slots) + note]


def test_a_reply_has_label_studios_format_and_no_ids(setup: ServiceSetup, pack: Pack) -> None:
    body = calls.predict(pack, calls.writes(pack, "A text."))
    reply = ask(setup, pack.spec.name, body)
    (answer,) = reply["results"]
    (result,) = answer["result"]
    assert reply.keys() == {"results", "model_version"}
    assert (reply["model_version"], answer["model_version"], answer["score"]) == ("v1", "v1", 0.75)
    assert result.keys() == {"from_name", "to_name", "type", "value"}
    assert (result["from_name"], result["type"]) == ("feedback", "textarea")
    assert f'toName="{result["to_name"]}"' in pack.create_xml


def test_without_a_target_the_answer_is_shown_and_nothing_is_fooled(setup: ServiceSetup) -> None:
    pack = setup.packs["sentiment"]
    body = calls.predict(pack, calls.writes(pack, "It looks negative."))
    del body["tasks"][0]["data"]["target"]
    assert calls.shown(ask(setup, "sentiment", body)) == [
        "The model says Negative (75%). (attempt 1 of 10: “It looks negative.”)"
    ]
    assert setup.sink.attempts[0].verdict.fooled is None


@pytest.mark.parametrize("context", [[], [{"from_name": "nobody", "value": {"text": ["x"]}}]])
def test_an_unfinished_context_gets_an_empty_valid_answer(setup: ServiceSetup, pack: Pack, context: list[Json]) -> None:
    reply = ask(setup, pack.spec.name, calls.predict(pack, context))
    assert reply == {"results": [{"model_version": "v1", "score": 0.0, "result": []}], "model_version": "v1"}
    assert setup.sink.attempts == []


def test_a_question_is_answered_and_the_selection_brings_the_verdict(setup: ServiceSetup) -> None:
    assert asked_question(setup, "What about radium ?").startswith('The model answers "radium" (75%).')
    assert selected(setup, "polonium").startswith('You fooled the model! It answers "radium" (75%)')
    assert [one.verdict.fooled for one in setup.sink.attempts] == [None, True]


def test_a_text_that_is_too_long_gets_a_message_instead_of_a_verdict(setup: ServiceSetup, pack: Pack) -> None:
    spec = pack.spec
    (field,) = spec.with_role("input")
    texts = ["x" * (field.max_chars + 1), "x" * field.max_chars]
    long, longest = (ask(setup, spec.name, calls.predict(pack, calls.writes(pack, text))) for text in texts)
    most = f"{field.title} has {field.max_chars + 1} characters, and at most {field.max_chars} are accepted"
    assert [most in line for line in calls.shown(long)] == [True]
    # No model was asked, and no attempt was counted.
    assert ["attempt 1 of 10" in line for line in calls.shown(longest)] == [True]
    assert len(setup.sink.attempts) == 1


@pytest.mark.parametrize(
    ("text", "advice"), [("?! 123", "no_words"), ("Das ist aber gar nicht positive.", "other_language")]
)
def test_advice_comes_before_the_verdict_and_the_attempt_counts(setup: ServiceSetup, text: str, advice: str) -> None:
    (shown,) = calls.shown(written(setup, "sentiment", text, target="negative"))
    messages = setup.packs["sentiment"].spec.messages
    first, _, verdict = shown.split("\n")
    assert first == getattr(messages, advice)
    assert verdict.startswith("You fooled the model!")
    assert "attempt 1 of 10" in verdict
    assert len(setup.sink.attempts) == 1


def test_a_question_that_is_too_long_is_reported_again_with_the_selection(setup: ServiceSetup) -> None:
    (field,) = setup.packs["qa"].spec.with_role("input")
    assert asked_question(setup, "?" * (field.max_chars + 1)).startswith("Too long: ")
    assert selected(setup, "polonium").startswith("Too long: ")
    assert asked_question(setup, "What about radium ?").startswith("You fooled the model!")


def test_a_selection_that_is_too_long_is_reported(setup: ServiceSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    span = setup.packs["qa"].spec.with_role("span")[0]
    asked_question(setup, "What about radium ?")
    passage = PASSAGE + " And" * span.max_chars
    monkeypatch.setattr("tests.unit.ml_backend.serving.test_service.PASSAGE", passage)
    assert selected(setup, passage[: span.max_chars + 1]).startswith(f"Too long: {span.title} has")


def test_invisible_characters_are_not_text(setup: ServiceSetup) -> None:
    (shown,) = calls.shown(written(setup, "sentiment", "\u200b\u2060 ", target="positive"))
    assert shown.strip() == setup.packs["sentiment"].spec.messages.emptied
    assert setup.sink.attempts == []


def test_a_selection_waits_for_its_question(setup: ServiceSetup) -> None:
    assert selected(setup, "radium") == ""
    assert asked_question(setup, "What about radium ?").startswith('Not fooled: the model answers "radium"')


def test_the_question_of_another_task_is_not_joined(setup: ServiceSetup) -> None:
    asked_question(setup, "What about radium ?", task=18)
    assert selected(setup, "polonium", task=17) == ""


def test_a_partial_call_expires_after_some_minutes(setup: ServiceSetup) -> None:
    asked_question(setup, "What about radium ?")
    setup.clock.advance(timedelta(minutes=11))
    assert selected(setup, "polonium") == ""


def test_a_deleted_question_is_not_remembered(setup: ServiceSetup) -> None:
    asked_question(setup, "What about radium ?")
    assert asked_question(setup, " ").strip() == setup.packs["qa"].spec.messages.emptied
    assert selected(setup, "polonium") == ""


def test_a_remembered_selection_that_left_the_passage_is_ignored(setup: ServiceSetup) -> None:
    selected(setup, "polonium")
    pack = setup.packs["qa"]
    body = calls.predict(pack, calls.writes(pack, "Which one ?"), data={"passage": "Another passage altogether."})
    assert calls.shown(ask(setup, "qa", body))[0].startswith("The model answers")


def test_repeating_a_text_does_not_count_again(setup: ServiceSetup) -> None:
    said = [written(setup, "sentiment", text) for text in ("One.", "One.", "Two.", "One.")]
    assert all(f"attempt {number} of 10" in calls.shown(one)[0] for one, number in zip(said, (1, 1, 2, 3), strict=True))


def test_attempts_of_two_tasks_are_counted_separately(setup: ServiceSetup) -> None:
    pack = setup.packs["sentiment"]
    for task in (1, 2):
        (said,) = calls.shown(ask(setup, "sentiment", calls.predict(pack, calls.writes(pack, "A text."), task=task)))
        assert "attempt 1 of 10" in said


def test_every_verdict_goes_to_the_sink_with_its_fields(setup: ServiceSetup) -> None:
    ask(setup, "nli", calls.predict(setup.packs["nli"], calls.writes(setup.packs["nli"], "It rains.")), 3)
    (attempt,) = setup.sink.attempts
    assert attempt.fields["hypothesis"] == "It rains."
    assert attempt.verdict.is_about(setup.packs["nli"].spec, attempt.fields, attempt.verdict.target)
    assert (attempt.round, attempt.source) == (3, "label_studio")
    assert (attempt.label_studio_project, attempt.label_studio_task) == (14, 17)
    assert attempt.verdict.judged_at == setup.clock.now()
    assert attempt.latency_us >= 0


def test_a_round_is_answered_by_its_own_version(setup: ServiceSetup) -> None:
    spec = setup.packs["nli"].spec
    setup.models.place("nli", FakeTarget(spec, "old"), round=1)
    body = calls.predict(setup.packs["nli"], calls.writes(setup.packs["nli"], "It rains."))
    assert ask(setup, "nli", body, 1)["model_version"] == "old"
    assert ask(setup, "nli", body)["model_version"] == "v1"
    assert setup.service.versions("nli", 1) == ["old"]


def test_several_versions_answer_one_question_and_are_all_named(setup: ServiceSetup) -> None:
    spec = setup.packs["sentiment"].spec
    setup.models.place("sentiment", FakeTarget(spec, "a"), FakeTarget(spec, "b"))
    reply = written(setup, "sentiment", "It looks negative.", target="positive")
    assert reply["model_version"] == reply["results"][0]["model_version"] == "a+b"
    assert [one.version for one in setup.sink.attempts[0].verdict.outputs] == ["a", "b"]


def test_a_call_that_waited_is_answered_by_the_new_version(setup: ServiceSetup) -> None:
    spec = setup.packs["sentiment"].spec

    def take_over() -> None:
        setup.models.place("sentiment", FakeTarget(spec, "new"))

    class LateGate(ConcurrencyLimiter):
        def acquire(self, deadline: float) -> None:
            take_over()
            super().acquire(deadline)

    service = VerdictService(setup.packs, setup.models, setup.sink, setup.clock, limiter=LateGate(1, 1))
    body = calls.predict(setup.packs["sentiment"], calls.writes(setup.packs["sentiment"], "A text."))
    assert service.predict("sentiment", None, body, time.monotonic())["model_version"] == "new"


def test_unwritten_tasks_get_empty_answers_in_bulk(setup: ServiceSetup, pack: Pack) -> None:
    reply = ask(setup, pack.spec.name, calls.bulk(pack, 250))
    assert reply["results"] == [{"model_version": "v1", "score": 0.0, "result": []}] * 250
    assert setup.sink.attempts == []


def test_tasks_with_a_text_get_verdicts_in_bulk_in_order(setup: ServiceSetup) -> None:
    pack = setup.packs["sentiment"]
    body = calls.bulk(pack, ROWS_PER_SLOT * 2 + 5)
    names = [pack.spec.label_names[task["id"] % 3] for task in body["tasks"]]
    for task, name in zip(body["tasks"], names, strict=True):
        task["data"] = {"text": f"It looks {name}."} if task["id"] % 5 else {"prompt": "Write."}
    reply = ask(setup, "sentiment", body)
    for one, name, task in zip(reply["results"], names, body["tasks"], strict=True):
        said = [result["value"]["text"][0] for result in one["result"]]
        assert said == ([f"The model says {pack.spec.label_title(name)} (75%)."] if task["id"] % 5 else [])
    assert setup.sink.attempts == []


def test_validators_never_see_the_models_answer(setup: ServiceSetup, pack: Pack) -> None:
    body = calls.predict(pack, template="validate")
    assert calls.shown(ask(setup, pack.spec.name, body)) == []
    interactive = calls.predict(pack, calls.writes(pack, "A text."), template="validate")
    assert calls.shown(ask(setup, pack.spec.name, interactive)) == []


def test_an_unknown_task_is_refused_by_name(setup: ServiceSetup) -> None:
    with pytest.raises(UnknownTask, match="poetry") as caught:
        ask(setup, "poetry", {})
    assert caught.value.status == 404


def test_while_nothing_is_loaded_calls_can_be_retried(setup: ServiceSetup, pack: Pack) -> None:
    setup.models.clear()
    with pytest.raises(NotThere):
        ask(setup, pack.spec.name, calls.predict(pack, []))


def test_a_bulk_call_times_out_at_its_deadline(setup: ServiceSetup) -> None:
    pack, arrived, timeout = setup.packs["sentiment"], time.monotonic(), 0.05
    predictor = FakeTarget(pack.spec, before=lambda: _wait_until(arrived + timeout))
    setup.models.place("sentiment", predictor)
    service = VerdictService(setup.packs, setup.models, setup.sink, setup.clock, bulk_timeout=timeout)
    with pytest.raises(AnswerTimeout):
        service.predict("sentiment", None, calls.bulk(pack, ROWS_PER_SLOT * 3, text="A text."), arrived)
    assert len(predictor.asked) == ROWS_PER_SLOT


def _wait_until(when: float) -> None:
    while time.monotonic() < when:
        time.sleep(0.001)


def test_a_failing_model_releases_its_slot(setup: ServiceSetup) -> None:
    def breaks() -> None:
        raise BackendError("the weights give no numbers")

    setup.models.place("sentiment", FakeTarget(setup.packs["sentiment"].spec, before=breaks))
    with pytest.raises(BackendError, match="no numbers"):
        written(setup, "sentiment", "A text.")
    assert setup.service.limiter.load().busy == 0


def test_a_call_without_a_project_is_answered_without_counting_attempts(setup: ServiceSetup) -> None:
    pack = find_pack("sentiment")
    task = {"data": sample_task(pack, "create")["data"]}
    body = {"tasks": [task], "params": {"context": {"result": calls.writes(pack, "It looks negative.")}}}
    (said,) = calls.shown(ask(setup, "sentiment", body))
    assert "attempt" not in said


def test_bulk_rows_are_split_by_the_targets_batch_size(setup: ServiceSetup) -> None:
    pack, sizes = setup.packs["sentiment"], list[int]()

    class SmallBatches(FakeTarget):
        def predict(self, rows: Sequence[Row]) -> list[Prediction]:
            sizes.append(len(rows))
            return super().predict(rows)

    target = SmallBatches(pack.spec)
    target.capabilities = replace(target.capabilities, batch_size=2)
    setup.models.place("sentiment", target)
    ask(setup, "sentiment", calls.bulk(pack, 5, text="A text."))
    assert sizes == [2, 2, 1]


def test_a_target_elsewhere_does_not_wait_for_this_machines_processors(setup: ServiceSetup) -> None:
    target = FakeTarget(setup.packs["sentiment"].spec)
    target.capabilities = replace(target.capabilities, concurrency=1, cost_per_call=1)
    setup.models.place("sentiment", target)
    setup.service.limiter.acquire(float("inf"))  # the only slot of the processors is taken
    assert written(setup, "sentiment", "It looks negative.", target="positive")["results"]


def test_a_target_elsewhere_gets_no_more_calls_at_a_time_than_it_allows(setup: ServiceSetup) -> None:
    spec, release, entered = setup.packs["sentiment"].spec, threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        assert release.wait(20)

    target = FakeTarget(spec, before=hold)
    target.capabilities = replace(target.capabilities, concurrency=1, cost_per_call=1)
    setup.models.place("sentiment", target)
    service = VerdictService(setup.packs, setup.models, setup.sink, setup.clock, timeout=0.1)
    body = calls.predict(setup.packs["sentiment"], calls.writes(setup.packs["sentiment"], "A text."))
    first = threading.Thread(target=service.predict, args=("sentiment", None, body, time.monotonic()))
    first.start()
    try:
        assert entered.wait(20)
        with pytest.raises(AnswerTimeout):
            service.predict("sentiment", None, body, time.monotonic())
    finally:
        release.set()
        first.join()
