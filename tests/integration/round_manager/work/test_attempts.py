"""Attempts: each question is answered and counted once, with a verdict that only the model can give."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from ml_backend.serving.attempt_record import AttemptRecord
from round_manager.errors import StaleVerdict
from round_manager.examples.attempts import store_attempts
from round_manager.models import Attempt, HitKind, Source
from round_manager.work.attempts import PageInput
from round_manager.work.creation import skip
from round_manager.work.errors import (
    InvalidInput,
    MoreAttemptsNeeded,
    NoAttemptsLeft,
    PageUnknown,
    TextTooLong,
)
from round_manager.work.validation_work import Judgement, judge_item
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import Floor, shown_items


def test_an_attempt_is_stored_with_its_session_its_item_and_its_number(floor: Floor) -> None:
    work = floor.open()
    attempts = [floor.ask(work, text) for text in ("one", "two")]
    assert [(one.session_id, one.item, one.number, one.worker_id) for one in attempts] == [
        (work.id, 0, 1, work.worker_id),
        (work.id, 0, 2, work.worker_id),
    ]
    assert (attempts[0].source, attempts[0].latency_us > 0) == (Source.PAGES, True)
    assert attempts[0].fields == {**floor.context(work).fields, "text": "one"}


def test_the_same_text_asked_again_gives_the_same_verdict_and_uses_no_attempt(floor: Floor) -> None:
    work = floor.open()
    first = floor.ask(work, "one")
    floor.ask(work, "two")
    assert floor.ask(work, "one").id == first.id
    with floor.store.read() as session:
        (item,) = shown_items(session, work)
    assert (item.attempts_left, [one.number for one in item.attempts]) == (floor.spec.work.tries - 2, [1, 2])


def test_the_only_attempt_is_reported_as_one(lay: LayFloor) -> None:
    floor = lay(work={"tries": 1, "tries_before_skip": 1})
    work = floor.open()
    with floor.store.write() as session, pytest.raises(MoreAttemptsNeeded):
        skip(session, work, 0, now=floor.now)
    floor.ask(work, "one")
    with pytest.raises(NoAttemptsLeft):
        floor.ask(work, "two")


def test_no_attempt_is_allowed_after_the_last(lay: LayFloor) -> None:
    floor = lay(work={"tries": 2, "tries_before_skip": 2})
    work = floor.open()
    floor.ask(work, "one")
    floor.ask(work, "two")
    with pytest.raises(NoAttemptsLeft):
        floor.ask(work, "three")
    assert floor.ask(work, "two").number == 2
    assert len(floor.rows(Attempt)) == 2


def test_a_verdict_on_another_text_or_by_another_model_is_not_stored(floor: Floor) -> None:
    work = floor.open()
    written = floor.written(work, "mine")
    question = floor.request(work, written)
    right = floor.judge(question)
    said = replace(right.outputs[0], version="sentiment-ffffffffffff")
    wrong: list[Any] = [
        replace(right, inputs_hash="0" * 64),
        replace(right, target=None, fooled=None),
        replace(right, outputs=(said,)),
        replace(right, task="nli"),
    ]
    for verdict in wrong:
        with pytest.raises(StaleVerdict):
            floor.record(work, written, verdict)
    assert floor.rows(Attempt) == []


def test_a_verdict_that_a_sink_has_stored_without_a_worker_is_asked_for_again(floor: Floor) -> None:
    work = floor.open()
    written = floor.written(work, "mine")
    question = floor.request(work, written)
    verdict = floor.judge(question)
    with floor.write() as session:
        store_attempts(session, [AttemptRecord(verdict, question.fields, 1, 5, "pages", None, None)], now=floor.now)
    with pytest.raises(StaleVerdict):
        floor.record(work, written, verdict)
    assert floor.record(work, written, replace(verdict, id=uuid4())).number == 1


def test_unusual_texts_are_judged_or_refused_in_one_sentence(floor: Floor) -> None:
    work = floor.open()
    for text, error in (
        ("", InvalidInput),
        (" \n ", InvalidInput),
        ("x" * 200_000, TextTooLong),
        ("a\x00b", InvalidInput),
        ("half \ud83d", InvalidInput),
    ):
        with pytest.raises(error):
            floor.ask(work, text)
    for text in ("🦊🦊🦊", "\u202eקרא אותי", "<script>alert(1)</script>", "'; DROP TABLE attempt; --", "\\u0000"):
        attempt = floor.ask(work, text)
        assert floor.one(attempt).fields["text"] == text
        assert floor.ask(work, text).id == attempt.id


def test_a_page_cannot_set_the_context(lay: LayFloor) -> None:
    floor = lay("nli")
    work = floor.open()
    written = PageInput({"hypothesis": "Nobody sleeps.", "premise": "My own premise."})
    assert floor.ask(work, written).fields["premise"] == floor.context(work).fields["premise"]


def test_items_of_other_sessions_are_out_of_reach(floor: Floor) -> None:
    mine = floor.open("W1")
    for item in (-1, 1, 999, 2**63, 2**80):
        with pytest.raises(PageUnknown):
            floor.ask(mine, PageInput({"text": "x"}), item)
        with pytest.raises(PageUnknown):
            floor.hand_in(mine, PageInput({"text": "x"}), item)


def test_creation_and_validation_items_are_not_mixed_up(floor: Floor) -> None:
    floor.pending()
    writing, checking = floor.open("W1"), floor.open("W2", kind=HitKind.VALIDATE)
    with pytest.raises(PageUnknown):
        floor.ask(checking, PageInput({"text": "x"}))
    with floor.write() as session, pytest.raises(PageUnknown):
        judge_item(session, writing, 0, Judgement(label="positive"), now=floor.now)


def test_nothing_is_remembered_across_items_or_sessions(lay: LayFloor) -> None:
    floor = lay(work={"examples_per_hit": 2})
    work, other = floor.open("W1"), floor.open("W2")
    floor.ask(work, PageInput({"text": "x"}), 0)
    mine, next_one, others = floor.items(work)[0], floor.items(work)[1], floor.items(other)[0]
    text = PageInput({"text": "x"})
    assert mine.attempt_on(mine.input_of(text)) is not None
    assert next_one.attempt_on(next_one.input_of(text)) is None
    assert others.attempt_on(others.input_of(text)) is None
    assert mine.attempt_on(mine.input_of(PageInput({}))) is None
