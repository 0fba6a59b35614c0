"""A round advances one step at a time, when a step is due, and never discards work in progress."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from common.errors import Hint
from round_manager.crowd.fair_pay import group_wages, owe_top_ups
from round_manager.errors import RoundNotOpen, RoundNotReady
from round_manager.models import (
    Assignment,
    EntryKind,
    EntryState,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    HitStatus,
    LabelStudioLink,
    LedgerEntry,
    ProjectKind,
    Round,
    RoundStatus,
)
from round_manager.money.budget import figures
from round_manager.tasks.rounds import draft_round
from round_manager.work.errors import WorkRefused
from tests.integration.round_manager.conftest import BeginSeason
from tests.integration.round_manager.season import DAY, OWNER, Season

MINUTE = timedelta(minutes=1)
OPEN = Hint("open_round", task="sentiment")
STATUS = Hint("show_crowd_status", task="sentiment")


def hints(season: Season) -> list[Hint | None]:
    """Return the hints of everything that the round waits for."""
    return [reason.hint for reason in season.waiting()]


def test_a_round_advances_one_step_at_a_time_and_each_step_is_audited(season: Season) -> None:
    opened_at = season.round.opened_at
    season.floor.clock.advance(DAY)
    season.validate()
    season.floor.clock.advance(DAY)
    closed = season.close()
    assert (closed.status, closed.opened_at) == (RoundStatus.CLOSED, opened_at)
    assert (closed.validating_at, closed.closed_at) == (season.floor.now - DAY, season.floor.now)
    assert season.history()[1:] == [(OWNER, "began validating", "a test"), (OWNER, "closed", "a test")]


def test_the_same_step_again_changes_nothing(season: Season) -> None:
    season.validate()
    first = season.round
    season.floor.clock.advance(DAY)
    season.validate()
    assert season.round.validating_at == first.validating_at
    season.close()
    season.floor.clock.advance(DAY)
    season.close()
    season.validate()
    assert season.round.closed_at == season.floor.now - DAY
    assert len(season.history()) == 3


def test_neither_a_draft_nor_an_open_round_can_be_closed_before_validation(season: Season) -> None:
    with pytest.raises(RoundNotReady):
        season.close()
    with season.store.write() as session:
        draft = draft_round(session, season.floor.task, now=season.floor.now)
    season.floor.round = draft
    for step, error in ((season.validate, RoundNotOpen), (season.close, RoundNotReady)):
        with pytest.raises(error) as caught:
            step()
        assert caught.value.hint == OPEN
    assert season.status is RoundStatus.DRAFT
    assert hints(season) == [OPEN]


def test_a_step_with_a_slow_clock_keeps_timestamps_in_order(season: Season) -> None:
    season.floor.clock.advance(-MINUTE)
    season.validate()
    season.close()
    assert season.round.opened_at == season.round.validating_at == season.round.closed_at


def test_a_round_is_due_when_its_target_is_reached(begin: BeginSeason) -> None:
    season = begin(rounds={"target_fooling": 2})
    season.verified(1)
    season.verified(3, fooled=False)
    assert season.due() is None
    assert "1 more validated fooling example of 2, until 2027-03-15" in str(season.waiting())
    season.verified(1)
    step = season.due()
    assert step is not None
    assert step.to is RoundStatus.VALIDATING
    assert "2 validated fooling examples of 2" in step.reason


def test_a_round_is_due_at_its_end_time(season: Season) -> None:
    season.floor.clock.advance(14 * DAY - MINUTE)
    assert season.due() is None
    season.floor.clock.advance(MINUTE)
    step = season.due()
    assert step is not None
    assert step.to is RoundStatus.VALIDATING
    assert "2027-03-15 12:00 UTC" in step.reason


def test_a_round_is_due_when_no_more_work_can_be_posted_or_arrive(season: Season) -> None:
    (hit,) = season.post(1)
    with season.store.write() as session:
        # One cent less than another creation HIT and its validation cost.
        bound = figures(session, season.round)
        spent = bound.budget_cents - bound.released_cents
        session.get_one(Round, season.floor.round.id).budget_cents = spent + 246 - 1
    # Money reserved for a posted HIT may be released, and the HIT may bring an example.
    assert season.due() is None
    page = season.take(hit, "W1")
    season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.pay_day()
    step = season.due()
    assert step is not None
    assert step.to is RoundStatus.VALIDATING
    assert "$2.46" in step.reason


def test_work_accepted_before_validation_is_submitted_checked_and_paid_until_its_deadline(
    begin: BeginSeason,
) -> None:
    season = begin(pay={"minimum_hourly_cents": 0})
    (hit,) = season.post(1, assignments=2)
    page = season.take(hit, "W1")
    season.floor.clock.advance(MINUTE)
    season.validate()
    season.crowd.expire(str(hit.external_id))
    season.collector.run()
    assert hints(season) == [None]
    with pytest.raises(WorkRefused):
        season.floor.open("W2", hit=hit)

    season.floor.clock.set(page.expires_at - timedelta(seconds=1))
    (example,) = season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.pay_day()
    assert season.floor.one(example).status is ExampleStatus.PENDING
    (votes,) = season.waiting()
    assert votes.can_be_skipped
    assert season.due() is None

    season.check_all("V1", "V2", label=str(example.label))
    assert season.due() is None
    season.pay_day()
    assert season.floor.one(example).status is ExampleStatus.VERIFIED
    paid = season.floor.rows(LedgerEntry, LedgerEntry.state == EntryState.CONFIRMED)
    assert sorted(entry.kind for entry in paid) == [EntryKind.BONUS] + [EntryKind.REWARD] * 3
    step = season.due()
    assert step is not None
    assert step.to is RoundStatus.CLOSED
    assert season.close().status is RoundStatus.CLOSED


def test_unsent_creation_hits_are_given_up_when_validation_starts(season: Season) -> None:
    before = figures_of(season)
    season.plan(2)
    season.plan(1, HitKind.VALIDATE)
    season.validate()
    season.poster.run()
    kinds = {hit.kind: hit.status for hit in season.floor.rows(Hit)}
    assert kinds == {HitKind.CREATE: HitStatus.REFUSED, HitKind.VALIDATE: HitStatus.ASSIGNABLE}
    (validation,) = season.floor.rows(Hit, Hit.kind == HitKind.VALIDATE)
    season.crowd.expire(validation.external_id)
    season.collector.run()
    assert figures_of(season) == before


def figures_of(season: Season) -> int:
    with season.store.read() as session:
        return figures(session, season.round).released_cents


def test_a_round_waits_for_a_hit_in_flight_in_any_state(season: Season) -> None:
    (hit,) = season.post(1)
    season.validate()
    assert hints(season) == [Hint("expire_hits", task="sentiment", kind="create")]
    assert f"{season.floor.now + 7 * DAY:%Y-%m-%d %H:%M} UTC" in str(season.waiting())
    season.floor.clock.advance(7 * DAY)
    # Its workers have their time to submit.
    assert hints(season) == [None]
    season.floor.clock.advance(DAY)
    # Work may have been submitted in the last second: the marketplace must be read before the round closes.
    assert hints(season) == [STATUS]
    with pytest.raises(RoundNotReady) as caught:
        season.close(force=True)
    assert caught.value.hint == STATUS
    with season.store.write() as session:
        session.execute(update(Hit).where(Hit.id == hit.id).values(finished_at=season.floor.now))
    assert not season.waiting()

    (planned,) = season.plan(1, HitKind.VALIDATE)
    assert hints(season) == [Hint("post_hits", task="sentiment")]
    for values, hint in (
        ({"sent_at": season.floor.now}, Hint("reconcile_crowd")),
        ({"status": HitStatus.HELD}, STATUS),
    ):
        with season.store.write() as session:
            session.execute(update(Hit).where(Hit.id == planned.id).values(**values))
        assert hints(season) == [hint]
    with season.store.write() as session:
        session.execute(update(Hit).where(Hit.id == planned.id).values(status=HitStatus.REFUSED))
    assert not season.waiting()


def test_accepted_and_free_hits_are_one_reason_to_wait(season: Season) -> None:
    (taken, *_) = season.post(3)
    with season.store.write() as session:
        session.execute(update(Hit).where(Hit.id == taken.id).values(status=HitStatus.UNASSIGNABLE))
    season.validate()
    (reason,) = season.waiting()
    assert reason.text.startswith("3 HITs to create")
    assert reason.hint == Hint("expire_hits", task="sentiment", kind="create")


def test_validation_hits_expire_when_no_example_is_pending(season: Season) -> None:
    example = season.floor.pending()
    season.post(1, HitKind.VALIDATE)
    season.validate()
    assert hints(season) == [None, None]
    with season.store.write() as session:
        row = session.get_one(Example, example.id)
        row.status, row.decided_at = ExampleStatus.WITHDRAWN, season.floor.now
    assert hints(season) == [Hint("expire_hits", task="sentiment", kind="validate")]


def test_closing_always_waits_for_submitted_work_and_owed_money(season: Season) -> None:
    (hit,) = season.post(1)
    page = season.take(hit, "W1")
    (example,) = season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.collector.run()
    season.validate()
    assert Hint("approve_work", task="sentiment") in hints(season)
    season.pay_day()
    assert season.floor.rows(Assignment)[0].status == "approved"
    (entry,) = season.floor.rows(LedgerEntry, LedgerEntry.state == EntryState.CONFIRMED)
    (bonus,) = season.floor.rows(LedgerEntry, LedgerEntry.kind == EntryKind.BONUS)
    owed = {"assignment_id": entry.assignment_id, "worker_id": entry.worker_id, "owed_at": season.floor.now}
    steps = (
        ({"state": EntryState.OWED, "example_id": example.id, **owed}, Hint("pay_workers")),
        ({"state": EntryState.SENT, "sent_at": season.floor.now}, Hint("reconcile_crowd")),
        ({"held_at": season.floor.now, "held_reason": "in doubt"}, STATUS),
    )
    for values, hint in steps:
        with season.store.write() as session:
            session.execute(update(LedgerEntry).where(LedgerEntry.id == bonus.id).values(**values))
        assert "1 payment ($0.72)" in str(season.waiting())
        with pytest.raises(RoundNotReady) as caught:
            season.close(force=True)
        assert caught.value.hint == hint
    assert season.status is RoundStatus.VALIDATING


def test_closing_now_gives_up_votes_and_flags_and_releases_their_money(season: Season) -> None:
    (hit,) = season.post(1)
    page = season.take(hit, "W1")
    (pending,) = season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.pay_day()
    flagged = season.floor.pending(status=ExampleStatus.FLAGGED)
    season.validate()
    assert [reason.can_be_skipped for reason in season.waiting()] == [True, True]
    assert hints(season) == [None, Hint("list_flags", task="sentiment")]
    with pytest.raises(RoundNotReady):
        season.close()
    season.close(force=True)
    assert season.floor.one(pending).status is ExampleStatus.PENDING
    assert season.floor.one(flagged).status is ExampleStatus.FLAGGED
    closed = season.round
    assert (closed.status, closed.reserved_cents, closed.owed_cents) == (RoundStatus.CLOSED, 0, 0)


def test_cast_votes_are_counted_before_a_round_is_closed(season: Season) -> None:
    example = season.floor.pending()
    season.check_all("V1", "V2", label=str(example.label))
    season.pay_day(decide=False)
    season.validate()
    with pytest.raises(RoundNotReady) as caught:
        season.close(force=True)
    assert caught.value.hint == Hint("run_manager")
    season.pay_day()
    assert season.floor.one(example).status is ExampleStatus.VERIFIED
    assert season.close().status is RoundStatus.CLOSED


def test_a_round_closes_with_examples_that_can_get_no_more_votes(season: Season) -> None:
    season.floor.pending()
    season.validate()
    assert season.due() is None
    with season.store.write() as session:
        # A validation HIT costs 60 cents with its fee, beyond the budget, and Label Studio is not connected.
        session.get_one(Round, season.floor.round.id).budget_cents = 59
    step = season.due()
    assert step is not None
    assert step.to is RoundStatus.CLOSED
    season.close()


def test_without_paid_votes_or_label_studio_a_round_waits_for_no_validators(begin: BeginSeason) -> None:
    season = begin(pay={"validate_cents": 0})
    season.floor.pending()
    season.validate()
    assert season.close().status is RoundStatus.CLOSED


@pytest.mark.parametrize("force", [False, True])
def test_a_round_with_pay_below_the_hourly_minimum_cannot_be_closed(begin: BeginSeason, *, force: bool) -> None:
    season = begin(pay={"minimum_hourly_cents": 6_000}, work={"create_minutes": 60})
    (hit,) = season.post(1)
    page = season.take(hit, "W1")
    season.floor.clock.advance(15 * MINUTE)
    season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.pay_day()
    season.validate()
    if not force:
        with season.store.write() as session:
            session.execute(update(Example).values(status=ExampleStatus.UNCHECKED, votes_wanted=0))
    # 15 minutes are worth 1,500 cents, and the reward was 45.
    with pytest.raises(RoundNotReady, match=r"\$14.55") as caught:
        season.close(force=force)
    assert caught.value.hint == Hint("top_up_pay", task="sentiment")
    assert season.due() is None
    with season.store.write() as session:
        assert owe_top_ups(session, season.crowd, group_wages(session, season.floor.task), now=season.floor.now)
    season.pay_day()
    assert season.close(force=force).status is RoundStatus.CLOSED


def test_annotators_in_label_studio_get_time_to_submit_before_a_round_closes(begin: BeginSeason) -> None:
    season = begin(work={"label_studio_minutes": 30})
    with season.store.write() as session:
        link = LabelStudioLink(task_id=season.floor.task.id, kind=ProjectKind.CREATE, url="http://ls", project=1)
        session.add(link)
    season.validate()
    assert season.due() is None
    (reason,) = season.waiting()
    assert (reason.can_be_skipped, "2027-03-01 12:30 UTC" in reason.text) == (True, True)
    season.floor.clock.advance(30 * MINUTE)
    # Submissions of the last minute are known only after a sync.
    assert hints(season) == [Hint("sync_label_studio", task="sentiment")]
    with season.store.write() as session:
        session.get_one(LabelStudioLink, link.id).synced_at = season.floor.now
    assert season.close().status is RoundStatus.CLOSED


@pytest.mark.parametrize("minutes", [0, 30])
def test_closing_now_or_a_task_that_gives_no_time_does_not_wait_for_label_studio(
    begin: BeginSeason, minutes: int
) -> None:
    season = begin(work={"label_studio_minutes": minutes})
    with season.store.write() as session:
        session.add(LabelStudioLink(task_id=season.floor.task.id, kind=ProjectKind.CREATE, url="http://ls", project=1))
    season.validate()
    assert season.close(force=bool(minutes)).status is RoundStatus.CLOSED
