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
from tests.campaign import Campaign, NewCampaign
from tests.campaign.pages import items_to_write


@pytest.mark.any_database
def test_an_attempt_is_stored_with_its_session_its_item_and_its_number(campaign: Campaign) -> None:
    work = campaign.open_page()
    attempts = [campaign.ask_target(work, text) for text in ("one", "two")]
    assert [(one.session_id, one.item, one.number, one.worker_id) for one in attempts] == [
        (work.id, 0, 1, work.worker_id),
        (work.id, 0, 2, work.worker_id),
    ]
    assert (attempts[0].source, attempts[0].latency_us > 0) == (Source.PAGES, True)
    assert attempts[0].fields == {**campaign.context_of(work).fields, "text": "one"}


@pytest.mark.any_database
def test_the_same_text_asked_again_gives_the_same_verdict_and_uses_no_attempt(campaign: Campaign) -> None:
    work = campaign.open_page()
    first = campaign.ask_target(work, "one")
    campaign.ask_target(work, "two")
    assert campaign.ask_target(work, "one").id == first.id
    with campaign.store.read() as session:
        (item,) = items_to_write(session, work)
    assert (item.attempts_left, [one.number for one in item.attempts]) == (campaign.spec.work.tries - 2, [1, 2])


@pytest.mark.any_database
def test_the_only_attempt_is_reported_as_one(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"tries": 1, "tries_before_skip": 1})
    work = campaign.open_page()
    with campaign.store.write() as session, pytest.raises(MoreAttemptsNeeded):
        skip(session, work, 0, now=campaign.now)
    campaign.ask_target(work, "one")
    with pytest.raises(NoAttemptsLeft):
        campaign.ask_target(work, "two")


@pytest.mark.any_database
def test_no_attempt_is_allowed_after_the_last(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"tries": 2, "tries_before_skip": 2})
    work = campaign.open_page()
    campaign.ask_target(work, "one")
    campaign.ask_target(work, "two")
    with pytest.raises(NoAttemptsLeft):
        campaign.ask_target(work, "three")
    assert campaign.ask_target(work, "two").number == 2
    assert len(campaign.rows(Attempt)) == 2


@pytest.mark.any_database
def test_a_verdict_on_another_text_or_by_another_model_is_not_stored(campaign: Campaign) -> None:
    work = campaign.open_page()
    written = campaign.page_input(work, "mine")
    question = campaign.judge_request(work, written)
    right = campaign.judge(question)
    said = replace(right.outputs[0], version="sentiment-ffffffffffff")
    wrong: list[Any] = [
        replace(right, inputs_hash="0" * 64),
        replace(right, target=None, fooled=None),
        replace(right, outputs=(said,)),
        replace(right, task="nli"),
    ]
    for verdict in wrong:
        with pytest.raises(StaleVerdict):
            campaign.record_attempt(work, written, verdict)
    assert campaign.rows(Attempt) == []


@pytest.mark.any_database
def test_a_verdict_that_a_sink_has_stored_without_a_worker_is_asked_for_again(campaign: Campaign) -> None:
    work = campaign.open_page()
    written = campaign.page_input(work, "mine")
    question = campaign.judge_request(work, written)
    verdict = campaign.judge(question)
    with campaign.store.write() as session:
        store_attempts(session, [AttemptRecord(verdict, question.fields, 1, 5, "pages", None, None)], now=campaign.now)
    with pytest.raises(StaleVerdict):
        campaign.record_attempt(work, written, verdict)
    assert campaign.record_attempt(work, written, replace(verdict, id=uuid4())).number == 1


def test_unusual_texts_are_judged_or_refused_in_one_sentence(campaign: Campaign) -> None:
    work = campaign.open_page()
    for text, error in (
        ("", InvalidInput),
        (" \n ", InvalidInput),
        ("x" * 200_000, TextTooLong),
        ("a\x00b", InvalidInput),
        ("half \ud83d", InvalidInput),
    ):
        with pytest.raises(error):
            campaign.ask_target(work, text)
    for text in ("🦊🦊🦊", "\u202eקרא אותי", "<script>alert(1)</script>", "'; DROP TABLE attempt; --", "\\u0000"):
        attempt = campaign.ask_target(work, text)
        assert campaign.reload(attempt).fields["text"] == text
        assert campaign.ask_target(work, text).id == attempt.id


@pytest.mark.any_database
def test_a_page_cannot_set_the_context(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("nli")
    work = campaign.open_page()
    written = PageInput({"hypothesis": "Nobody sleeps.", "premise": "My own premise."})
    assert campaign.ask_target(work, written).fields["premise"] == campaign.context_of(work).fields["premise"]


@pytest.mark.any_database
def test_items_of_other_sessions_are_out_of_reach(campaign: Campaign) -> None:
    mine = campaign.open_page("W1")
    for item in (-1, 1, 999, 2**63, 2**80):
        with pytest.raises(PageUnknown):
            campaign.ask_target(mine, PageInput({"text": "x"}), item)
        with pytest.raises(PageUnknown):
            campaign.submit_example(mine, PageInput({"text": "x"}), item)


@pytest.mark.any_database
def test_creation_and_validation_items_are_not_mixed_up(campaign: Campaign) -> None:
    campaign.add_example()
    writing, checking = campaign.open_page("W1"), campaign.open_page("W2", kind=HitKind.VALIDATE)
    with pytest.raises(PageUnknown):
        campaign.ask_target(checking, PageInput({"text": "x"}))
    with campaign.store.write() as session, pytest.raises(PageUnknown):
        judge_item(session, writing, 0, Judgement(label="positive"), now=campaign.now)


@pytest.mark.any_database
def test_nothing_is_remembered_across_items_or_sessions(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 2})
    work, other = campaign.open_page("W1"), campaign.open_page("W2")
    campaign.ask_target(work, PageInput({"text": "x"}), 0)
    mine, next_one, others = campaign.items(work)[0], campaign.items(work)[1], campaign.items(other)[0]
    text = PageInput({"text": "x"})
    assert mine.attempt_on(mine.input_of(text)) is not None
    assert next_one.attempt_on(next_one.input_of(text)) is None
    assert others.attempt_on(others.input_of(text)) is None
    assert mine.attempt_on(mine.input_of(PageInput({}))) is None
