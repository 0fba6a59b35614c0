"""A round moves one step at a time, when something is due, and never over what people have in hand."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from round_manager.crowd.fair_pay import group_wages, owe_top_ups
from round_manager.errors import RoundError, WorkRefused
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
from tests.integration.rounds.conftest import BeginSeason
from tests.integration.rounds.season import DAY, OWNER, Season

MINUTE = timedelta(minutes=1)


def test_a_round_goes_forward_one_step_at_a_time_and_each_step_is_audited(season: Season) -> None:
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


def test_a_draft_is_not_closed_and_an_open_round_not_before_it_validates(season: Season) -> None:
    with pytest.raises(RoundError, match="is open, and only a validating one closes"):
        season.close()
    with season.store.write() as session:
        draft = draft_round(session, season.floor.task, now=season.floor.now)
    season.floor.round = draft
    for step in (season.validate, season.close):
        with pytest.raises(RoundError, match=r"round 2 of sentiment is a draft.*`outfox round open sentiment`"):
            step()
    assert season.status is RoundStatus.DRAFT
    assert "it is a draft" in str(season.waiting())


def test_a_step_taken_by_a_clock_that_is_behind_keeps_the_order_of_times(season: Season) -> None:
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
    assert (step.to, step.why) == (
        RoundStatus.VALIDATING,
        "its target is reached: 2 validated fooling examples of 2",
    )


def test_a_round_is_due_when_its_time_is_over(season: Season) -> None:
    season.floor.clock.advance(14 * DAY - MINUTE)
    assert season.due() is None
    season.floor.clock.advance(MINUTE)
    step = season.due()
    assert step is not None
    assert (step.to, step.why) == (RoundStatus.VALIDATING, "its time was over on 2027-03-15 12:00 UTC")


def test_a_round_is_due_when_nothing_more_can_be_posted_or_come(season: Season) -> None:
    (hit,) = season.post(1)
    with season.store.write() as session:
        # One cent less than another HIT to create with its validation needs.
        bound = figures(session, season.round)
        spent = bound.budget_cents - bound.released_cents
        session.get_one(Round, season.floor.round.id).budget_cents = spent + 246 - 1
    # What is bound in a HIT that stands may come back, and the HIT may bring an example.
    assert season.due() is None
    page = season.take(hit, "W1")
    season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.pay_day()
    step = season.due()
    assert step is not None
    assert step.to is RoundStatus.VALIDATING
    assert "its budget is used up" in step.why
    assert "costs $2.46" in step.why


def test_work_taken_before_the_round_validated_is_handed_in_checked_and_paid_until_its_deadline(
    begin: BeginSeason,
) -> None:
    season = begin(pay={"minimum_hourly_cents": 0})
    (hit,) = season.post(1, assignments=2)
    page = season.take(hit, "W1")
    season.floor.clock.advance(MINUTE)
    season.validate()
    season.crowd.expire(str(hit.external_id))
    season.collector.run()
    assert "work can come until" in str(season.waiting())
    with pytest.raises(WorkRefused, match="nothing new is written in it"):
        season.floor.open("W2", hit=hit)

    season.floor.clock.set(page.expires_at - timedelta(seconds=1))
    (example,) = season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.pay_day()
    assert season.floor.one(example).status is ExampleStatus.PENDING
    assert [reason.text for reason in season.waiting().reasons] == ["1 example waits for votes"]
    assert season.due() is None

    season.check_all("V1", "V2", label=str(example.label))
    assert season.due() is None
    season.pay_day()
    assert season.floor.one(example).status is ExampleStatus.VERIFIED
    paid = season.floor.rows(LedgerEntry, LedgerEntry.state == EntryState.CONFIRMED)
    assert sorted(entry.kind for entry in paid) == [EntryKind.BONUS] + [EntryKind.REWARD] * 3
    step = season.due()
    assert step is not None
    assert (step.to, step.why) == (RoundStatus.CLOSED, "nothing more can come")
    assert season.close().status is RoundStatus.CLOSED


def test_hits_to_create_that_were_never_sent_are_given_up_when_a_round_validates(season: Season) -> None:
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


def test_a_hit_on_its_way_is_waited_for_in_whatever_state_it_is(season: Season) -> None:
    (hit,) = season.post(1)
    season.validate()
    standing = f"1 HIT to create can still be taken until {season.floor.now + 7 * DAY:%Y-%m-%d %H:%M} UTC"
    assert str(season.waiting()).startswith(standing)
    season.floor.clock.advance(7 * DAY)
    assert "1 HIT to create not finished; work can come until" in str(season.waiting())
    season.floor.clock.advance(DAY)
    # Work may have come at the last second: nothing is closed before somebody has read the marketplace.
    assert "time is over; `outfox crowd status sentiment` reads what came" in str(season.waiting())
    with pytest.raises(RoundError, match="cannot be closed yet: 1 HIT to create not finished"):
        season.close(give_up=True)
    with season.store.write() as session:
        session.execute(update(Hit).where(Hit.id == hit.id).values(finished_at=season.floor.now))
    assert not season.waiting()

    (planned,) = season.plan(1, HitKind.VALIDATE)
    assert "1 HIT to validate planned and not sent; `outfox crowd post sentiment` sends it" in str(season.waiting())
    for values, told in (
        ({"sent_at": season.floor.now}, "1 HIT to validate may or may not be posted; `outfox crowd reconcile`"),
        ({"status": HitStatus.HELD}, "1 HIT to validate held for a person to decide"),
    ):
        with season.store.write() as session:
            session.execute(update(Hit).where(Hit.id == planned.id).values(**values))
        assert told in str(season.waiting())
    with season.store.write() as session:
        session.execute(update(Hit).where(Hit.id == planned.id).values(status=HitStatus.REFUSED))
    assert not season.waiting()


def test_hits_that_somebody_has_and_hits_that_nobody_has_are_told_in_one_line(season: Season) -> None:
    (taken, *_) = season.post(3)
    with season.store.write() as session:
        session.execute(update(Hit).where(Hit.id == taken.id).values(status=HitStatus.UNASSIGNABLE))
    season.validate()
    (reason,) = season.waiting().reasons
    assert reason.text.startswith("3 HITs to create can still be taken until")
    assert reason.text.endswith("--kind create --all` takes them down")


def test_hits_to_validate_are_for_what_is_pending_and_told_to_go_when_nothing_is(season: Season) -> None:
    example = season.floor.pending()
    season.post(1, HitKind.VALIDATE)
    season.validate()
    assert "1 HIT to validate not finished; work can come until" in str(season.waiting())
    with season.store.write() as session:
        row = session.get_one(Example, example.id)
        row.status, row.decided_at = ExampleStatus.WITHDRAWN, season.floor.now
    assert "`outfox crowd expire sentiment --kind validate --all` takes it down" in str(season.waiting())


def test_work_that_is_handed_in_and_money_that_is_owed_are_waited_for_whatever_the_owner_says(season: Season) -> None:
    (hit,) = season.post(1)
    page = season.take(hit, "W1")
    (example,) = season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.collector.run()
    season.validate()
    assert "1 piece of work is handed in and not decided; `outfox crowd approve sentiment --all`" in str(
        season.waiting()
    )
    season.pay_day()
    assert season.floor.rows(Assignment)[0].status == "approved"
    (entry,) = season.floor.rows(LedgerEntry, LedgerEntry.state == EntryState.CONFIRMED)
    (bonus,) = season.floor.rows(LedgerEntry, LedgerEntry.kind == EntryKind.BONUS)
    owed = {"assignment_id": entry.assignment_id, "worker_id": entry.worker_id, "owed_at": season.floor.now}
    steps = (
        ({"state": EntryState.OWED, "example_id": example.id, **owed}, "owed"),
        ({"state": EntryState.SENT, "sent_at": season.floor.now}, "sent and not confirmed"),
        ({"held_at": season.floor.now, "held_reason": "in doubt"}, "held for a person to decide"),
    )
    for values, told in steps:
        with season.store.write() as session:
            session.execute(update(LedgerEntry).where(LedgerEntry.id == bonus.id).values(**values))
        assert f"1 payment, $0.72, {told}" in str(season.waiting())
        with pytest.raises(RoundError, match=told):
            season.close(give_up=True)
    assert season.status is RoundStatus.VALIDATING


def test_closing_now_gives_up_votes_and_flags_and_frees_what_was_kept_for_them(season: Season) -> None:
    (hit,) = season.post(1)
    page = season.take(hit, "W1")
    (pending,) = season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.pay_day()
    flagged = season.floor.pending(status=ExampleStatus.FLAGGED)
    season.validate()
    assert [reason.can_be_given_up for reason in season.waiting().reasons] == [True, True]
    assert "1 flagged example waits for the owner; `outfox round flags sentiment`" in str(season.waiting())
    with pytest.raises(RoundError, match="1 example waits for votes; 1 flagged example waits"):
        season.close()
    season.close(give_up=True)
    assert season.floor.one(pending).status is ExampleStatus.PENDING
    assert season.floor.one(flagged).status is ExampleStatus.FLAGGED
    closed = season.round
    assert (closed.status, closed.reserved_cents, closed.owed_cents) == (RoundStatus.CLOSED, 0, 0)


def test_votes_that_were_given_are_decided_before_a_round_is_closed(season: Season) -> None:
    example = season.floor.pending()
    season.check_all("V1", "V2", label=str(example.label))
    season.pay_day(decide=False)
    season.validate()
    with pytest.raises(RoundError, match="votes came that nobody has settled yet"):
        season.close(give_up=True)
    season.pay_day()
    assert season.floor.one(example).status is ExampleStatus.VERIFIED
    assert season.close().status is RoundStatus.CLOSED


def test_a_round_closes_with_examples_that_nobody_can_vote_on_any_more(season: Season) -> None:
    season.floor.pending()
    season.validate()
    assert season.due() is None
    with season.store.write() as session:
        # A HIT to validate is 60 cents with its fee; nobody can be paid for one, and there is no Label Studio.
        session.get_one(Round, season.floor.round.id).budget_cents = 59
    step = season.due()
    assert step is not None
    assert step.to is RoundStatus.CLOSED
    season.close()


def test_a_round_whose_votes_are_not_paid_for_waits_for_nobody_where_no_label_studio_checks(begin: BeginSeason) -> None:
    season = begin(pay={"validate_cents": 0})
    season.floor.pending()
    season.validate()
    assert season.close().status is RoundStatus.CLOSED


@pytest.mark.parametrize("give_up", [False, True])
def test_nobody_closes_a_round_on_pay_below_the_minimum_for_an_hour(begin: BeginSeason, *, give_up: bool) -> None:
    season = begin(pay={"minimum_hourly_cents": 6_000}, work={"create_minutes": 60})
    (hit,) = season.post(1)
    page = season.take(hit, "W1")
    season.floor.clock.advance(15 * MINUTE)
    season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.pay_day()
    season.validate()
    if not give_up:
        with season.store.write() as session:
            session.execute(update(Example).values(status=ExampleStatus.UNCHECKED, votes_wanted=0))
    # 15 minutes are worth 1,500 cents, and the reward was 45.
    lacking = r"its workers lack \$14.55 to the minimum for an hour; `outfox crowd pay sentiment --top-up` pays it"
    with pytest.raises(RoundError, match=lacking):
        season.close(give_up=give_up)
    assert season.due() is None
    with season.store.write() as session:
        assert owe_top_ups(session, season.crowd, group_wages(session, season.floor.task), now=season.floor.now)
    season.pay_day()
    assert season.close(give_up=give_up).status is RoundStatus.CLOSED


def test_people_in_label_studio_hand_in_what_they_have_begun_before_a_round_closes(begin: BeginSeason) -> None:
    season = begin(work={"label_studio_minutes": 30})
    with season.store.write() as session:
        link = LabelStudioLink(task_id=season.floor.task.id, kind=ProjectKind.CREATE, url="http://ls", project=1)
        session.add(link)
    season.validate()
    assert season.due() is None
    assert [(one.text, one.can_be_given_up) for one in season.waiting().reasons] == [
        ("people in Label Studio can hand in what they have begun until 2027-03-01 12:30 UTC", True)
    ]
    season.floor.clock.advance(30 * MINUTE)
    # What came at the last minute is there only for who reads it.
    unread = "nobody has read Label Studio since 2027-03-01 12:30 UTC; `outfox labelstudio sync sentiment` does"
    assert str(season.waiting()) == unread
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
    assert season.close(give_up=bool(minutes)).status is RoundStatus.CLOSED
