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
from tests.campaign import DAY, OWNER, Campaign, NewCampaign

MINUTE = timedelta(minutes=1)
OPEN = Hint("open_round", task="sentiment")
STATUS = Hint("show_crowd_status", task="sentiment")


def hints(campaign: Campaign) -> list[Hint | None]:
    """Return the hints of everything that the round waits for."""
    return [reason.hint for reason in campaign.waiting()]


@pytest.mark.any_database
def test_a_round_advances_one_step_at_a_time_and_each_step_is_audited(campaign: Campaign) -> None:
    opened_at = campaign.round.opened_at
    campaign.clock.advance(DAY)
    campaign.begin_validating()
    campaign.clock.advance(DAY)
    closed = campaign.close_round()
    assert (closed.status, closed.opened_at) == (RoundStatus.CLOSED, opened_at)
    assert (closed.validating_at, closed.closed_at) == (campaign.now - DAY, campaign.now)
    assert campaign.round_history()[1:] == [(OWNER, "began validating", "a test"), (OWNER, "closed", "a test")]


@pytest.mark.any_database
def test_the_same_step_again_changes_nothing(campaign: Campaign) -> None:
    campaign.begin_validating()
    first = campaign.round
    campaign.clock.advance(DAY)
    campaign.begin_validating()
    assert campaign.round.validating_at == first.validating_at
    campaign.close_round()
    campaign.clock.advance(DAY)
    campaign.close_round()
    campaign.begin_validating()
    assert campaign.round.closed_at == campaign.now - DAY
    assert len(campaign.round_history()) == 3


def test_neither_a_draft_nor_an_open_round_can_be_closed_before_validation(campaign: Campaign) -> None:
    with pytest.raises(RoundNotReady):
        campaign.close_round()
    with campaign.store.write() as session:
        draft = draft_round(session, campaign.task, now=campaign.now)
    campaign.round_id = draft.id
    for step, error in ((campaign.begin_validating, RoundNotOpen), (campaign.close_round, RoundNotReady)):
        with pytest.raises(error) as caught:
            step()
        assert caught.value.hint == OPEN
    assert campaign.status is RoundStatus.DRAFT
    assert hints(campaign) == [OPEN]


def test_a_step_with_a_slow_clock_keeps_timestamps_in_order(campaign: Campaign) -> None:
    campaign.clock.advance(-MINUTE)
    campaign.begin_validating()
    campaign.close_round()
    assert campaign.round.opened_at == campaign.round.validating_at == campaign.round.closed_at


@pytest.mark.any_database
def test_a_round_is_due_when_its_target_is_reached(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(rounds={"target_fooling": 2})
    campaign.add_verified(1)
    campaign.add_verified(3, fooled=False)
    assert campaign.due() is None
    assert "1 more validated fooling example of 2, until 2027-03-15" in str(campaign.waiting())
    campaign.add_verified(1)
    step = campaign.due()
    assert step is not None
    assert step.to is RoundStatus.VALIDATING
    assert "2 validated fooling examples of 2" in step.reason


@pytest.mark.any_database
def test_a_round_is_due_at_its_end_time(campaign: Campaign) -> None:
    campaign.clock.advance(14 * DAY - MINUTE)
    assert campaign.due() is None
    campaign.clock.advance(MINUTE)
    step = campaign.due()
    assert step is not None
    assert step.to is RoundStatus.VALIDATING
    assert "2027-03-15 12:00 UTC" in step.reason


@pytest.mark.any_database
def test_a_round_is_due_when_no_more_work_can_be_posted_or_arrive(campaign: Campaign) -> None:
    (hit,) = campaign.post_hits(1)
    with campaign.store.write() as session:
        # One cent less than another creation HIT and its validation cost.
        bound = figures(session, campaign.round)
        spent = bound.budget_cents - bound.released_cents
        session.get_one(Round, campaign.round_id).budget_cents = spent + 246 - 1
    # Money reserved for a posted HIT may be released, and the HIT may bring an example.
    assert campaign.due() is None
    page = campaign.accept_hit(hit, "W1")
    campaign.write_examples(page)
    campaign.submit_hit(hit, "W1", page)
    campaign.collect_and_pay()
    step = campaign.due()
    assert step is not None
    assert step.to is RoundStatus.VALIDATING
    assert "$2.46" in step.reason


@pytest.mark.any_database
def test_work_accepted_before_validation_is_submitted_checked_and_paid_until_its_deadline(
    new_campaign: NewCampaign,
) -> None:
    campaign = new_campaign(pay={"minimum_hourly_cents": 0})
    (hit,) = campaign.post_hits(1, assignments=2)
    page = campaign.accept_hit(hit, "W1")
    campaign.clock.advance(MINUTE)
    campaign.begin_validating()
    campaign.crowd.expire(str(hit.external_id))
    campaign.marketplace.collector.run()
    assert hints(campaign) == [None]
    with pytest.raises(WorkRefused):
        campaign.open_page("W2", hit=hit)

    campaign.clock.set(page.expires_at - timedelta(seconds=1))
    (example,) = campaign.write_examples(page)
    campaign.submit_hit(hit, "W1", page)
    campaign.collect_and_pay()
    assert campaign.reload(example).status is ExampleStatus.PENDING
    (votes,) = campaign.waiting()
    assert votes.can_be_skipped
    assert campaign.due() is None

    campaign.validate_all("V1", "V2", label=str(example.label))
    assert campaign.due() is None
    campaign.collect_and_pay()
    assert campaign.reload(example).status is ExampleStatus.VERIFIED
    paid = campaign.rows(LedgerEntry, LedgerEntry.state == EntryState.CONFIRMED)
    assert sorted(entry.kind for entry in paid) == [EntryKind.BONUS] + [EntryKind.REWARD] * 3
    step = campaign.due()
    assert step is not None
    assert step.to is RoundStatus.CLOSED
    assert campaign.close_round().status is RoundStatus.CLOSED


def test_unsent_creation_hits_are_given_up_when_validation_starts(campaign: Campaign) -> None:
    before = figures_of(campaign)
    campaign.plan_hits(2)
    campaign.plan_hits(1, HitKind.VALIDATE)
    campaign.begin_validating()
    campaign.marketplace.poster.run()
    kinds = {hit.kind: hit.status for hit in campaign.rows(Hit)}
    assert kinds == {HitKind.CREATE: HitStatus.REFUSED, HitKind.VALIDATE: HitStatus.ASSIGNABLE}
    (validation,) = campaign.rows(Hit, Hit.kind == HitKind.VALIDATE)
    campaign.crowd.expire(validation.external_id)
    campaign.marketplace.collector.run()
    assert figures_of(campaign) == before


def figures_of(campaign: Campaign) -> int:
    with campaign.store.read() as session:
        return figures(session, campaign.round).released_cents


@pytest.mark.any_database
def test_a_round_waits_for_a_hit_in_flight_in_any_state(campaign: Campaign) -> None:
    (hit,) = campaign.post_hits(1)
    campaign.begin_validating()
    assert hints(campaign) == [Hint("expire_hits", task="sentiment", kind="create")]
    assert f"{campaign.now + 7 * DAY:%Y-%m-%d %H:%M} UTC" in str(campaign.waiting())
    campaign.clock.advance(7 * DAY)
    # Its workers have their time to submit.
    assert hints(campaign) == [None]
    campaign.clock.advance(DAY)
    # Work may have been submitted in the last second: the marketplace must be read before the round closes.
    assert hints(campaign) == [STATUS]
    with pytest.raises(RoundNotReady) as caught:
        campaign.close_round(force=True)
    assert caught.value.hint == STATUS
    with campaign.store.write() as session:
        session.execute(update(Hit).where(Hit.id == hit.id).values(finished_at=campaign.now))
    assert not campaign.waiting()

    (planned,) = campaign.plan_hits(1, HitKind.VALIDATE)
    assert hints(campaign) == [Hint("post_hits", task="sentiment")]
    for values, hint in (
        ({"sent_at": campaign.now}, Hint("reconcile_crowd")),
        ({"status": HitStatus.HELD}, STATUS),
    ):
        with campaign.store.write() as session:
            session.execute(update(Hit).where(Hit.id == planned.id).values(**values))
        assert hints(campaign) == [hint]
    with campaign.store.write() as session:
        session.execute(update(Hit).where(Hit.id == planned.id).values(status=HitStatus.REFUSED))
    assert not campaign.waiting()


@pytest.mark.any_database
def test_accepted_and_free_hits_are_one_reason_to_wait(campaign: Campaign) -> None:
    (taken, *_) = campaign.post_hits(3)
    with campaign.store.write() as session:
        session.execute(update(Hit).where(Hit.id == taken.id).values(status=HitStatus.UNASSIGNABLE))
    campaign.begin_validating()
    (reason,) = campaign.waiting()
    assert reason.text.startswith("3 HITs to create")
    assert reason.hint == Hint("expire_hits", task="sentiment", kind="create")


@pytest.mark.any_database
def test_validation_hits_expire_when_no_example_is_pending(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.post_hits(1, HitKind.VALIDATE)
    campaign.begin_validating()
    assert hints(campaign) == [None, None]
    with campaign.store.write() as session:
        row = session.get_one(Example, example.id)
        row.status, row.decided_at = ExampleStatus.WITHDRAWN, campaign.now
    assert hints(campaign) == [Hint("expire_hits", task="sentiment", kind="validate")]


def test_closing_always_waits_for_submitted_work_and_owed_money(campaign: Campaign) -> None:
    (hit,) = campaign.post_hits(1)
    page = campaign.accept_hit(hit, "W1")
    (example,) = campaign.write_examples(page)
    campaign.submit_hit(hit, "W1", page)
    campaign.marketplace.collector.run()
    campaign.begin_validating()
    assert Hint("approve_work", task="sentiment") in hints(campaign)
    campaign.collect_and_pay()
    assert campaign.rows(Assignment)[0].status == "approved"
    (entry,) = campaign.rows(LedgerEntry, LedgerEntry.state == EntryState.CONFIRMED)
    (bonus,) = campaign.rows(LedgerEntry, LedgerEntry.kind == EntryKind.BONUS)
    owed = {"assignment_id": entry.assignment_id, "worker_id": entry.worker_id, "owed_at": campaign.now}
    steps = (
        ({"state": EntryState.OWED, "example_id": example.id, **owed}, Hint("pay_workers")),
        ({"state": EntryState.SENT, "sent_at": campaign.now}, Hint("reconcile_crowd")),
        ({"held_at": campaign.now, "held_reason": "in doubt"}, STATUS),
    )
    for values, hint in steps:
        with campaign.store.write() as session:
            session.execute(update(LedgerEntry).where(LedgerEntry.id == bonus.id).values(**values))
        assert "1 payment ($0.72)" in str(campaign.waiting())
        with pytest.raises(RoundNotReady) as caught:
            campaign.close_round(force=True)
        assert caught.value.hint == hint
    assert campaign.status is RoundStatus.VALIDATING


@pytest.mark.any_database
def test_closing_now_gives_up_votes_and_flags_and_releases_their_money(campaign: Campaign) -> None:
    (hit,) = campaign.post_hits(1)
    page = campaign.accept_hit(hit, "W1")
    (pending,) = campaign.write_examples(page)
    campaign.submit_hit(hit, "W1", page)
    campaign.collect_and_pay()
    flagged = campaign.add_example(status=ExampleStatus.FLAGGED)
    campaign.begin_validating()
    assert [reason.can_be_skipped for reason in campaign.waiting()] == [True, True]
    assert hints(campaign) == [None, Hint("list_flags", task="sentiment")]
    with pytest.raises(RoundNotReady):
        campaign.close_round()
    campaign.close_round(force=True)
    assert campaign.reload(pending).status is ExampleStatus.PENDING
    assert campaign.reload(flagged).status is ExampleStatus.FLAGGED
    closed = campaign.round
    assert (closed.status, closed.reserved_cents, closed.owed_cents) == (RoundStatus.CLOSED, 0, 0)


@pytest.mark.any_database
def test_cast_votes_are_counted_before_a_round_is_closed(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.validate_all("V1", "V2", label=str(example.label))
    campaign.collect_and_pay(decide=False)
    campaign.begin_validating()
    with pytest.raises(RoundNotReady) as caught:
        campaign.close_round(force=True)
    assert caught.value.hint == Hint("run_manager")
    campaign.collect_and_pay()
    assert campaign.reload(example).status is ExampleStatus.VERIFIED
    assert campaign.close_round().status is RoundStatus.CLOSED


@pytest.mark.any_database
def test_a_round_closes_with_examples_that_can_get_no_more_votes(campaign: Campaign) -> None:
    campaign.add_example()
    campaign.begin_validating()
    assert campaign.due() is None
    with campaign.store.write() as session:
        # A validation HIT costs 60 cents with its fee, beyond the budget, and Label Studio is not connected.
        session.get_one(Round, campaign.round_id).budget_cents = 59
    step = campaign.due()
    assert step is not None
    assert step.to is RoundStatus.CLOSED
    campaign.close_round()


@pytest.mark.any_database
def test_without_paid_votes_or_label_studio_a_round_waits_for_no_validators(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(pay={"validate_cents": 0})
    campaign.add_example()
    campaign.begin_validating()
    assert campaign.close_round().status is RoundStatus.CLOSED


@pytest.mark.parametrize("force", [False, True])
def test_a_round_with_pay_below_the_hourly_minimum_cannot_be_closed(new_campaign: NewCampaign, *, force: bool) -> None:
    campaign = new_campaign(pay={"minimum_hourly_cents": 6_000}, work={"create_minutes": 60})
    (hit,) = campaign.post_hits(1)
    page = campaign.accept_hit(hit, "W1")
    campaign.clock.advance(15 * MINUTE)
    campaign.write_examples(page)
    campaign.submit_hit(hit, "W1", page)
    campaign.collect_and_pay()
    campaign.begin_validating()
    if not force:
        with campaign.store.write() as session:
            session.execute(update(Example).values(status=ExampleStatus.UNCHECKED, votes_wanted=0))
    # 15 minutes are worth 1,500 cents, and the reward was 45.
    with pytest.raises(RoundNotReady, match=r"\$14.55") as caught:
        campaign.close_round(force=force)
    assert caught.value.hint == Hint("top_up_pay", task="sentiment")
    assert campaign.due() is None
    with campaign.store.write() as session:
        wages = group_wages(session, campaign.task)
        assert owe_top_ups(session, campaign.crowd, wages, actor="owner", reason="", now=campaign.now)
    campaign.collect_and_pay()
    assert campaign.close_round(force=force).status is RoundStatus.CLOSED


def test_annotators_in_label_studio_get_time_to_submit_before_a_round_closes(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"label_studio_minutes": 30})
    with campaign.store.write() as session:
        link = LabelStudioLink(task_id=campaign.task.id, kind=ProjectKind.CREATE, url="http://ls", project=1)
        session.add(link)
    campaign.begin_validating()
    assert campaign.due() is None
    (reason,) = campaign.waiting()
    assert (reason.can_be_skipped, "2027-03-01 12:30 UTC" in reason.text) == (True, True)
    campaign.clock.advance(30 * MINUTE)
    # Submissions of the last minute are known only after a sync.
    assert hints(campaign) == [Hint("sync_label_studio", task="sentiment")]
    with campaign.store.write() as session:
        session.get_one(LabelStudioLink, link.id).synced_at = campaign.now
    assert campaign.close_round().status is RoundStatus.CLOSED


@pytest.mark.any_database
@pytest.mark.parametrize("minutes", [0, 30])
def test_closing_now_or_a_task_that_gives_no_time_does_not_wait_for_label_studio(
    new_campaign: NewCampaign, minutes: int
) -> None:
    campaign = new_campaign(work={"label_studio_minutes": minutes})
    with campaign.store.write() as session:
        session.add(LabelStudioLink(task_id=campaign.task.id, kind=ProjectKind.CREATE, url="http://ls", project=1))
    campaign.begin_validating()
    assert campaign.close_round(force=bool(minutes)).status is RoundStatus.CLOSED
