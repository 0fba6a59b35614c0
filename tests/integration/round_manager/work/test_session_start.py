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
from round_manager.work.creation import skip
from round_manager.work.errors import AlreadySubmitted, HitNotAccepted, HitUnavailable, NothingToDo, WorkerBlocked
from round_manager.work.quizzes import take_quiz
from round_manager.work.session_start import open_session
from round_manager.work.sessions import find_session, record_active_time, sweep
from round_manager.work.validation_work import Judgement
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import MINUTE, Floor, judged_items, shown_items


def test_a_page_that_is_loaded_again_has_the_same_session_and_the_same_context(floor: Floor) -> None:
    hit = floor.hit()
    first = floor.open(hit=hit)
    before = floor.context(first).id
    floor.clock.advance(5 * MINUTE)
    again = floor.open(hit=hit)
    assert (again.id, again.expires_at, floor.context(again).id) == (first.id, first.expires_at, before)
    assert first.expires_at == first.started_at + timedelta(seconds=hit.assignment_seconds)
    with floor.write() as session:
        assert find_session(session, first.public_id).id == first.id


def test_another_worker_or_another_assignment_has_a_session_of_its_own(floor: Floor) -> None:
    hit = floor.hit()
    pages = [floor.open("W1", hit=hit), floor.open("W2", hit=hit), floor.open("W1", hit=hit, assignment="OTHER")]
    assert len({page.id for page in pages}) == 3


def test_a_blocked_worker_is_refused_also_on_a_page_that_was_open(floor: Floor) -> None:
    hit = floor.hit()
    work = floor.open("W1", hit=hit)
    with floor.write() as session:
        session.add(Block(worker_id=work.worker_id, reason="spam", blocked_by="owner", blocked_at=floor.now))
    with pytest.raises(WorkerBlocked):
        floor.open("W1", hit=hit)
    floor.open("W2", hit=floor.hit())


def test_a_hit_that_is_not_on_the_marketplace_is_not_opened(floor: Floor) -> None:
    unposted: dict[str, Any] = {"external_id": None, "posted_at": None}
    for changes in (
        {"status": HitStatus.PLANNED, **unposted},
        {"status": HitStatus.REFUSED, **unposted},
        {"status": HitStatus.DISPOSED},
        {"finished_at": floor.now},
    ):
        with pytest.raises(HitUnavailable):
            floor.open(hit=floor.hit(**changes))


def test_a_worker_who_arrives_before_the_posting_is_recorded_gets_their_page(floor: Floor) -> None:
    being_posted: dict[str, Any] = {
        "status": HitStatus.PLANNED,
        "external_id": None,
        "posted_at": None,
        "sent_at": floor.now,
    }
    assert floor.open(hit=floor.hit(**being_posted)).status is SessionStatus.OPEN


def test_a_closed_round_accepts_no_worker(floor: Floor) -> None:
    hit = floor.hit()
    floor.close_round()
    assert floor.one(floor.round).status is RoundStatus.CLOSED
    with pytest.raises(HitUnavailable):
        floor.open(hit=hit)


def test_invalid_marketplace_ids_are_refused(floor: Floor) -> None:
    hit = floor.hit()
    for name in ("", " ", "x" * 256, "A\x00B", "A\nB", "Ä1", "\u202eA1", "🦊"):
        for assignment, worker in ((name, "W1"), ("AS1", name)):
            with floor.write() as session, pytest.raises(HitNotAccepted):
                open_session(session, session.get_one(Hit, hit.id), assignment, worker, now=floor.now)
    assert floor.rows(Worker) == []


def test_work_already_collected_is_not_restarted(floor: Floor) -> None:
    hit = floor.hit()
    work = floor.open("W1", hit=hit)
    floor.confirm(work)
    with pytest.raises(AlreadySubmitted):
        floor.open("W2", hit=hit)
    assert floor.open("W1", hit=hit).status is SessionStatus.CONFIRMED


def test_active_time_is_never_more_than_has_passed_and_never_less_than_before(floor: Floor) -> None:
    work = floor.open()
    floor.clock.advance(MINUTE)
    with floor.write() as session:
        assert record_active_time(session, work, 30_000, now=floor.now) == 30_000
        assert record_active_time(session, work, 10_000, now=floor.now) == 30_000
        assert record_active_time(session, work, 10**30, now=floor.now) == 60_000
    floor.clock.advance(timedelta(days=1))
    with floor.write() as session:
        assert record_active_time(session, work, 10**12, now=floor.now) == 20 * 60_000


def test_an_expired_page_ends_with_its_leases_and_blocks_nothing(lay: LayFloor) -> None:
    floor = lay(contexts=1)
    hit = floor.hit()
    work = floor.open("W1", hit=hit)
    floor.clock.advance(21 * MINUTE)
    with floor.write() as session:
        assert sweep(session, now=floor.now) == 1
        assert sweep(session, now=floor.now) == 0
    assert floor.one(work).status is SessionStatus.EXPIRED
    assert floor.context(floor.open("W1")).id == floor.context(work).id


def test_a_reassigned_assignment_restarts_and_keeps_submitted_examples(lay: LayFloor) -> None:
    floor = lay(contexts=2, work={"examples_per_hit": 2})
    hit = floor.hit()
    work = floor.open("W1", hit=hit)
    text = floor.fooling(work)
    floor.ask(work, text)
    example = floor.hand_in(work, text)
    other = floor.context(work, 1).id
    floor.clock.advance(60 * MINUTE)
    again = floor.open("W1", hit=hit)
    assert (again.id, again.status, again.started_at) == (work.id, SessionStatus.OPEN, floor.now)
    assert again.expires_at == floor.now + timedelta(seconds=hit.assignment_seconds)
    with floor.store.read() as session:
        items = shown_items(session, again)
    assert [one.example.id if one.example else None for one in items] == [example.id, None]
    assert items[1].context.id == other
    assert [lease.context_id for lease in floor.live_leases()] == [other]
    floor.ask(again, floor.fooling(again, 1), 1)
    floor.hand_in(again, floor.fooling(again, 1), 1)
    assert floor.finish(again).status is SessionStatus.SUBMITTED


def test_expired_judgements_are_requested_again(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.0})
    floor.pending(wanted=1)
    hit = floor.hit(HitKind.VALIDATE)
    work = floor.open("V1", hit=hit)
    floor.judge_all(work, Judgement(label="positive"))
    floor.clock.advance(60 * MINUTE)
    again = floor.open("V1", hit=hit)
    with floor.store.read() as session:
        assert [one.judgement for one in judged_items(session, again)] == [None]
    assert len(floor.live_leases()) == 1
    floor.clock.advance(60 * MINUTE)
    floor.validating("V2")
    with pytest.raises(NothingToDo):
        floor.open("V1", hit=hit)


def test_an_expired_page_does_not_restart_once_its_round_is_closed(floor: Floor) -> None:
    hit = floor.hit()
    work = floor.open(hit=hit)
    floor.clock.advance(60 * MINUTE)
    floor.close_round()
    assert floor.open(hit=hit).expires_at == work.expires_at


def test_a_quiz_answered_in_time_can_still_be_submitted(floor: Floor) -> None:
    hit = floor.hit(HitKind.QUIZ)
    work = floor.open(hit=hit)
    assert floor.spec.quiz is not None
    wrong = [(one.answer + 1) % len(one.choices) for one in floor.spec.quiz.questions]
    with floor.write() as session:
        take_quiz(session, work, wrong, now=floor.now)
    floor.clock.advance(60 * MINUTE)
    assert floor.finish(floor.open(hit=hit)).status is SessionStatus.SUBMITTED


def test_submissions_unknown_to_the_marketplace_stay_unconfirmed_once_the_hit_is_finished(
    lay: LayFloor,
) -> None:
    floor = lay(validation={"gold_rate": 0.0})
    floor.pending()
    work = floor.validating()
    floor.judge_all(work, Judgement(label="positive"))
    floor.finish(work)
    with floor.write() as session:
        assert sweep(session, now=floor.now + 30 * MINUTE) == 0
        session.get_one(Hit, work.hit_id).finished_at = floor.now
        assert sweep(session, now=floor.now) == 1
    assert floor.one(work).status is SessionStatus.UNCONFIRMED
    assert floor.live_leases() == []
    assert floor.votes() == []


def test_forged_pages_do_not_leave_a_worker_without_contexts(lay: LayFloor) -> None:
    floor = lay(contexts=3)
    link = floor.hit()
    forged = []
    for number in range(3):
        floor.clock.advance(MINUTE)
        forged.append(floor.open("W1", hit=link, assignment=f"FORGED{number}"))
    work = floor.open("W1")
    # The longest held is taken over; of the two pages, the first to hand in has it.
    assert floor.context(work).id == floor.context(forged[0]).id
    assert floor.one(floor.rows(Lease)[0]).outcome is LeaseEnd.RETURNED
    assert len(floor.live_leases()) == 3
    floor.write_all(forged[0], "still ")
    with floor.write() as session:
        assert skip(session, work, 0, now=floor.now).context.id == floor.context(forged[1]).id
    floor.write_all(work)
    floor.finish(work)
    assert floor.context(floor.open("W1")).id == floor.context(forged[2]).id


def test_free_contexts_precede_those_on_the_workers_other_pages(lay: LayFloor) -> None:
    floor = lay(contexts=2, rounds={"context_strategy": "in_order"})
    first, second = floor.rows(Context, Context.retired_at.is_(None))
    floor.pending("OTHERS", context_id=second.id)
    floor.pending("OTHERS", context_id=second.id)
    assert [floor.context(floor.open("W1")).id for _ in range(3)] == [first.id, second.id, first.id]


def test_a_page_that_lost_its_context_does_not_get_it_back_on_a_skip(lay: LayFloor) -> None:
    floor = lay(contexts=1, work={"tries_before_skip": 0})
    first, second = floor.open("W1"), floor.open("W1")
    assert floor.context(first).id == floor.context(second).id
    with floor.write() as session, pytest.raises(NothingToDo):
        skip(session, first, 0, now=floor.now)


def test_a_context_reserved_in_label_studio_is_not_taken_over(lay: LayFloor) -> None:
    floor = lay(contexts=1)
    (context,) = floor.rows(Context, Context.retired_at.is_(None))
    worker = floor.pending("W1").author_id
    span: dict[str, Any] = {"leased_at": floor.now, "expires_at": floor.now + MINUTE}
    with floor.write() as session:
        session.add(Lease(context_id=context.id, worker_id=worker, **span))
    with pytest.raises(NothingToDo):
        floor.open("W1")


def test_a_link_opened_under_many_names_reserves_only_its_hits_votes(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.0}, work={"validations_per_hit": 2})
    for _ in range(4):
        floor.pending(wanted=1)
    link = floor.hit(HitKind.VALIDATE)
    honest = floor.open("V1", hit=link)
    floor.judge_all(honest, Judgement(label="positive"))
    floor.finish(honest)
    for number in range(6):
        floor.clock.advance(MINUTE)
        forged = floor.open(f"FORGED{number}", hit=link, assignment=f"FORGED{number}")
        floor.judge_all(forged, Judgement(label="negative"))
        floor.finish(forged)
        assert {lease.session_id for lease in floor.live_leases()} == {forged.id}
    assert len(judged(floor, floor.validating("V2"))) == 2
    floor.confirm(honest)
    assert [vote.label for vote in floor.votes()] == ["positive", "positive"]


def test_each_assignment_of_a_hit_reserves_its_own_votes(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.0}, work={"validations_per_hit": 1})
    for _ in range(3):
        floor.pending(wanted=1)
    hit = floor.hit(HitKind.VALIDATE, max_assignments=2)
    pages = []
    for number in range(2):
        pages.append(floor.open(f"V{number}", hit=hit, assignment=f"AS{number}"))
        floor.clock.advance(MINUTE)
    assert len(floor.live_leases()) == 2
    # The marketplace assigns the first worker's place to another one, who gets the same contexts.
    again = floor.open("V9", hit=hit, assignment="AS0")
    assert judged(floor, again) == judged(floor, pages[0])
    assert {lease.session_id for lease in floor.live_leases()} == {pages[1].id, again.id}


def judged(floor: Floor, page: WorkSession) -> list[int]:
    """The examples that are on the page."""
    return [row.example_id for row in floor.rows(WorkItem, WorkItem.session_id == page.id)]


def test_a_quiz_page_needs_no_round(floor: Floor) -> None:
    assert floor.open(hit=floor.hit(HitKind.QUIZ, round_id=None)).status is SessionStatus.OPEN
