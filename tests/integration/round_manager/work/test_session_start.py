"""A page gets one session, which each reload finds again; workers who may not work get none."""

from datetime import timedelta
from typing import Any

import pytest

from round_manager.models import (
    Block,
    Context,
    Hit,
    HitKind,
    HitStatus,
    Lease,
    LeaseEnd,
    RoundStatus,
    SessionStatus,
    Worker,
    WorkItem,
    WorkSession,
)
from round_manager.work.active_time import record_active_time
from round_manager.work.creation import skip
from round_manager.work.errors import AlreadySubmitted, HitNotAccepted, HitUnavailable, NothingToDo, WorkerBlocked
from round_manager.work.quizzes import take_quiz
from round_manager.work.session_start import open_session
from round_manager.work.sessions import find_session, sweep
from round_manager.work.validation_work import Judgement
from tests.campaign import MINUTE, Campaign, NewCampaign
from tests.campaign.pages import items_to_judge, items_to_write


@pytest.mark.any_database
def test_a_page_that_is_loaded_again_has_the_same_session_and_the_same_context(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    first = campaign.open_page(hit=hit)
    before = campaign.context_of(first).id
    campaign.clock.advance(5 * MINUTE)
    again = campaign.open_page(hit=hit)
    assert (again.id, again.expires_at, campaign.context_of(again).id) == (first.id, first.expires_at, before)
    assert first.expires_at == first.started_at + timedelta(seconds=hit.assignment_seconds)
    with campaign.store.write() as session:
        assert find_session(session, first.public_id).id == first.id


@pytest.mark.any_database
def test_another_worker_or_another_assignment_has_a_session_of_its_own(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    pages = [
        campaign.open_page("W1", hit=hit),
        campaign.open_page("W2", hit=hit),
        campaign.open_page("W1", hit=hit, assignment="OTHER"),
    ]
    assert len({page.id for page in pages}) == 3


def test_a_blocked_worker_is_refused_also_on_a_page_that_was_open(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    work = campaign.open_page("W1", hit=hit)
    with campaign.store.write() as session:
        session.add(Block(worker_id=work.worker_id, reason="spam", blocked_by="owner", blocked_at=campaign.now))
    with pytest.raises(WorkerBlocked):
        campaign.open_page("W1", hit=hit)
    campaign.open_page("W2", hit=campaign.add_hit())


@pytest.mark.any_database
def test_a_hit_that_is_not_on_the_marketplace_is_not_opened(campaign: Campaign) -> None:
    unposted: dict[str, Any] = {"external_id": None, "posted_at": None}
    for changes in (
        {"status": HitStatus.PLANNED, **unposted},
        {"status": HitStatus.REFUSED, **unposted},
        {"status": HitStatus.DISPOSED},
        {"finished_at": campaign.now},
    ):
        with pytest.raises(HitUnavailable):
            campaign.open_page(hit=campaign.add_hit(**changes))


@pytest.mark.any_database
def test_a_worker_who_arrives_before_the_posting_is_recorded_gets_their_page(campaign: Campaign) -> None:
    being_posted: dict[str, Any] = {
        "status": HitStatus.PLANNED,
        "external_id": None,
        "posted_at": None,
        "sent_at": campaign.now,
    }
    assert campaign.open_page(hit=campaign.add_hit(**being_posted)).status is SessionStatus.OPEN


@pytest.mark.any_database
def test_a_closed_round_accepts_no_worker(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    campaign.mark_closed()
    assert campaign.reload(campaign.round).status is RoundStatus.CLOSED
    with pytest.raises(HitUnavailable):
        campaign.open_page(hit=hit)


def test_invalid_marketplace_ids_are_refused(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    for name in ("", " ", "x" * 256, "A\x00B", "A\nB", "Ä1", "\u202eA1", "🦊"):
        for assignment, worker in ((name, "W1"), ("AS1", name)):
            with campaign.store.write() as session, pytest.raises(HitNotAccepted):
                open_session(session, session.get_one(Hit, hit.id), assignment, worker, now=campaign.now)
    assert campaign.rows(Worker) == []


@pytest.mark.any_database
def test_work_already_collected_is_not_restarted(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    work = campaign.open_page("W1", hit=hit)
    campaign.confirm(work)
    with pytest.raises(AlreadySubmitted):
        campaign.open_page("W2", hit=hit)
    assert campaign.open_page("W1", hit=hit).status is SessionStatus.CONFIRMED


@pytest.mark.any_database
def test_active_time_is_never_more_than_has_passed_and_never_less_than_before(campaign: Campaign) -> None:
    work = campaign.open_page()
    campaign.clock.advance(MINUTE)
    with campaign.store.write() as session:
        assert record_active_time(session, work, 30_000, now=campaign.now) == 30_000
        assert record_active_time(session, work, 10_000, now=campaign.now) == 30_000
        assert record_active_time(session, work, 10**30, now=campaign.now) == 60_000
    campaign.clock.advance(timedelta(days=1))
    with campaign.store.write() as session:
        # A page that was silent for so long counts for the last minutes before its deadline.
        assert record_active_time(session, work, 10**12, now=campaign.now) == 60_000 + 5 * 60_000


def test_an_expired_page_ends_with_its_leases_and_blocks_nothing(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=1)
    hit = campaign.add_hit()
    work = campaign.open_page("W1", hit=hit)
    campaign.clock.advance(21 * MINUTE)
    with campaign.store.write() as session:
        assert sweep(session, now=campaign.now) == 1
        assert sweep(session, now=campaign.now) == 0
    assert campaign.reload(work).status is SessionStatus.EXPIRED
    assert campaign.context_of(campaign.open_page("W1")).id == campaign.context_of(work).id


@pytest.mark.any_database
def test_a_reassigned_assignment_restarts_and_keeps_submitted_examples(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=2, work={"examples_per_hit": 2})
    hit = campaign.add_hit()
    work = campaign.open_page("W1", hit=hit)
    text = campaign.page_text(work)
    campaign.ask_target(work, text)
    example = campaign.submit_example(work, text)
    other = campaign.context_of(work, 1).id
    campaign.clock.advance(60 * MINUTE)
    again = campaign.open_page("W1", hit=hit)
    assert (again.id, again.status, again.started_at) == (work.id, SessionStatus.OPEN, campaign.now)
    assert again.expires_at == campaign.now + timedelta(seconds=hit.assignment_seconds)
    with campaign.store.read() as session:
        items = items_to_write(session, again)
    assert [one.example.id if one.example else None for one in items] == [example.id, None]
    assert items[1].context.id == other
    assert [lease.context_id for lease in campaign.live_leases()] == [other]
    campaign.ask_target(again, campaign.page_text(again, 1), 1)
    campaign.submit_example(again, campaign.page_text(again, 1), 1)
    assert campaign.finish_page(again).status is SessionStatus.SUBMITTED


@pytest.mark.any_database
def test_expired_judgements_are_requested_again(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0})
    campaign.add_example(wanted=1)
    hit = campaign.add_hit(HitKind.VALIDATE)
    work = campaign.open_page("V1", hit=hit)
    campaign.judge_all(work, Judgement(label="positive"))
    campaign.clock.advance(60 * MINUTE)
    again = campaign.open_page("V1", hit=hit)
    with campaign.store.read() as session:
        assert [one.judgement for one in items_to_judge(session, again)] == [None]
    assert len(campaign.live_leases()) == 1
    campaign.clock.advance(60 * MINUTE)
    campaign.open_validation_page("V2")
    with pytest.raises(NothingToDo):
        campaign.open_page("V1", hit=hit)


@pytest.mark.any_database
def test_an_expired_page_does_not_restart_once_its_round_is_closed(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    work = campaign.open_page(hit=hit)
    campaign.clock.advance(60 * MINUTE)
    campaign.mark_closed()
    assert campaign.open_page(hit=hit).expires_at == work.expires_at


@pytest.mark.any_database
def test_a_quiz_answered_in_time_can_still_be_submitted(campaign: Campaign) -> None:
    hit = campaign.add_hit(HitKind.QUIZ)
    work = campaign.open_page(hit=hit)
    assert campaign.spec.quiz is not None
    wrong = [(one.answer + 1) % len(one.choices) for one in campaign.spec.quiz.questions]
    with campaign.store.write() as session:
        take_quiz(session, work, wrong, now=campaign.now)
    campaign.clock.advance(60 * MINUTE)
    assert campaign.finish_page(campaign.open_page(hit=hit)).status is SessionStatus.SUBMITTED


@pytest.mark.any_database
def test_submissions_unknown_to_the_marketplace_stay_unconfirmed_once_the_hit_is_finished(
    new_campaign: NewCampaign,
) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0})
    campaign.add_example()
    work = campaign.open_validation_page()
    campaign.judge_all(work, Judgement(label="positive"))
    campaign.finish_page(work)
    with campaign.store.write() as session:
        assert sweep(session, now=campaign.now + 30 * MINUTE) == 0
        session.get_one(Hit, work.hit_id).finished_at = campaign.now
        assert sweep(session, now=campaign.now) == 1
    assert campaign.reload(work).status is SessionStatus.UNCONFIRMED
    assert campaign.live_leases() == []
    assert campaign.votes() == []


def test_forged_pages_do_not_leave_a_worker_without_contexts(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=3)
    link = campaign.add_hit()
    forged = []
    for number in range(3):
        campaign.clock.advance(MINUTE)
        forged.append(campaign.open_page("W1", hit=link, assignment=f"FORGED{number}"))
    work = campaign.open_page("W1")
    # The longest held is taken over; of the two pages, the first to hand in has it.
    assert campaign.context_of(work).id == campaign.context_of(forged[0]).id
    assert campaign.reload(campaign.rows(Lease)[0]).outcome is LeaseEnd.RETURNED
    assert len(campaign.live_leases()) == 3
    campaign.write_examples(forged[0], "still ")
    with campaign.store.write() as session:
        assert skip(session, work, 0, now=campaign.now).context.id == campaign.context_of(forged[1]).id
    campaign.write_examples(work)
    campaign.finish_page(work)
    assert campaign.context_of(campaign.open_page("W1")).id == campaign.context_of(forged[2]).id


@pytest.mark.any_database
def test_free_contexts_precede_those_on_the_workers_other_pages(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=2, rounds={"context_strategy": "in_order"})
    first, second = campaign.rows(Context, Context.retired_at.is_(None))
    campaign.add_example("OTHERS", context_id=second.id)
    campaign.add_example("OTHERS", context_id=second.id)
    assert [campaign.context_of(campaign.open_page("W1")).id for _ in range(3)] == [first.id, second.id, first.id]


@pytest.mark.any_database
def test_a_page_that_lost_its_context_does_not_get_it_back_on_a_skip(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=1, work={"tries_before_skip": 0})
    first, second = campaign.open_page("W1"), campaign.open_page("W1")
    assert campaign.context_of(first).id == campaign.context_of(second).id
    with campaign.store.write() as session, pytest.raises(NothingToDo):
        skip(session, first, 0, now=campaign.now)


@pytest.mark.any_database
def test_a_context_reserved_in_label_studio_is_not_taken_over(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=1)
    (context,) = campaign.rows(Context, Context.retired_at.is_(None))
    worker = campaign.add_example("W1").author_id
    span: dict[str, Any] = {"leased_at": campaign.now, "expires_at": campaign.now + MINUTE}
    with campaign.store.write() as session:
        session.add(Lease(context_id=context.id, worker_id=worker, **span))
    with pytest.raises(NothingToDo):
        campaign.open_page("W1")


@pytest.mark.any_database
def test_a_link_opened_under_many_names_reserves_only_its_hits_votes(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0}, work={"validations_per_hit": 2})
    for _ in range(4):
        campaign.add_example(wanted=1)
    link = campaign.add_hit(HitKind.VALIDATE)
    honest = campaign.open_page("V1", hit=link)
    campaign.judge_all(honest, Judgement(label="positive"))
    campaign.finish_page(honest)
    for number in range(6):
        campaign.clock.advance(MINUTE)
        forged = campaign.open_page(f"FORGED{number}", hit=link, assignment=f"FORGED{number}")
        campaign.judge_all(forged, Judgement(label="negative"))
        campaign.finish_page(forged)
        assert {lease.session_id for lease in campaign.live_leases()} == {forged.id}
    assert len(judged(campaign, campaign.open_validation_page("V2"))) == 2
    campaign.confirm(honest)
    assert [vote.label for vote in campaign.votes()] == ["positive", "positive"]


@pytest.mark.any_database
def test_each_assignment_of_a_hit_reserves_its_own_votes(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0}, work={"validations_per_hit": 1})
    for _ in range(3):
        campaign.add_example(wanted=1)
    hit = campaign.add_hit(HitKind.VALIDATE, max_assignments=2)
    pages = []
    for number in range(2):
        pages.append(campaign.open_page(f"V{number}", hit=hit, assignment=f"AS{number}"))
        campaign.clock.advance(MINUTE)
    assert len(campaign.live_leases()) == 2
    # The marketplace assigns the first worker's place to another one, who gets the same contexts.
    again = campaign.open_page("V9", hit=hit, assignment="AS0")
    assert judged(campaign, again) == judged(campaign, pages[0])
    assert {lease.session_id for lease in campaign.live_leases()} == {pages[1].id, again.id}


def judged(campaign: Campaign, page: WorkSession) -> list[int]:
    """The examples that are on the page."""
    return [row.example_id for row in campaign.rows(WorkItem, WorkItem.session_id == page.id)]


@pytest.mark.any_database
def test_a_quiz_page_needs_no_round(campaign: Campaign) -> None:
    assert campaign.open_page(hit=campaign.add_hit(HitKind.QUIZ, round_id=None)).status is SessionStatus.OPEN


@pytest.mark.any_database
def test_a_page_is_finished_although_the_clock_was_set_back(campaign: Campaign) -> None:
    campaign.add_example()
    page = campaign.open_validation_page()
    campaign.clock.advance(-timedelta(hours=2))
    campaign.judge_all(page, Judgement(label="positive"))
    assert campaign.finish_page(page).status is SessionStatus.SUBMITTED


def test_a_hit_is_accepted_again_although_the_clock_was_set_back(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    pages = []
    for place in ("http://market.test/1", "http://market.test/2"):
        with campaign.store.write() as session:
            row = session.get_one(Hit, hit.id)
            pages.append(open_session(session, row, "AS-1", "W1", now=campaign.now, submit_to=place))
        campaign.clock.advance(-timedelta(hours=2))
    first, again = pages
    assert (again.id, again.status) == (first.id, SessionStatus.OPEN)
    assert campaign.write_examples(again)
