"""Money for HITs is reserved before they are posted, and each is posted once."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select

from crowd.errors import CrowdAccessDenied, CrowdRefused, CrowdUnavailable, InsufficientFunds
from round_manager.crowd.hit_planning import HitRequest, cost_of
from round_manager.crowd.reconciliation import TIME_TO_ARRIVE
from round_manager.errors import BudgetError, CrowdWorkError
from round_manager.models import AuditEntry, EntryKind, Hit, HitKind, HitStatus, Round
from tests.campaign import DAY, OWNER, Campaign


@pytest.mark.any_database
def test_planning_reserves_rewards_bonuses_and_fees_for_every_assignment(campaign: Campaign) -> None:
    campaign.plan_hits(3, assignments=2)
    pay = campaign.round.spec["pay"]
    assert campaign.ledger_states() == {"reserved": 6}
    assert campaign.ledger_states(EntryKind.BONUS) == {"reserved": 6 * campaign.round.spec["work"]["examples_per_hit"]}
    with campaign.store.read() as session:
        round = session.get_one(Round, campaign.round_id)
        wish = HitRequest(HitKind.CREATE, 3, 2, campaign.now + DAY)
        cost = cost_of(session, round, wish, campaign.crowd)
    assert cost.total_cents == campaign.figures().reserved_cents
    assert cost.reward_cents == 6 * pay["create_cents"]
    assert cost.fee_cents > 0
    campaign.check_ledger()


@pytest.mark.any_database
def test_ten_assignments_reserve_the_doubled_fee(campaign: Campaign) -> None:
    with campaign.store.read() as session:
        round = session.get_one(Round, campaign.round_id)
        fees = [
            cost_of(
                session, round, HitRequest(HitKind.VALIDATE, 1, count, campaign.now + DAY), campaign.crowd
            ).fee_cents
            for count in (9, 10)
        ]
    each = campaign.crowd.price
    assert fees[1] > fees[0] * 10 // 9 * 1.9, each


def test_posting_past_the_budget_is_refused_with_the_figures_and_nothing_changes(campaign: Campaign) -> None:
    campaign.plan_hits(1)
    before = campaign.figures()
    with pytest.raises(BudgetError):
        campaign.plan_hits(100_000)
    assert campaign.figures() == before
    with campaign.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Hit)) == 1


def test_hits_are_posted_with_their_key_as_token_and_annotation(campaign: Campaign) -> None:
    hits = campaign.plan_hits(5)
    assert campaign.marketplace.poster.run().posted == 5
    assert {one.key for one in campaign.crowd.hits()} == {hit.key for hit in hits}
    with campaign.store.read() as session:
        rows = session.scalars(select(Hit)).all()
    assert {row.status for row in rows} == {HitStatus.ASSIGNABLE}
    assert campaign.marketplace.poster.run().posted == 0
    assert campaign.crowd_calls()["post"] == 5


@pytest.mark.parametrize("after", [False, True], ids=["before the effect", "after the effect"])
def test_a_hit_whose_response_was_lost_is_looked_up_and_never_posted_twice(campaign: Campaign, after: bool) -> None:
    campaign.plan_hits(3)
    campaign.crowd.fail(CrowdUnavailable("the line went dead"), call=2, after=after)
    sent = campaign.marketplace.poster.run()
    assert (sent.posted + sent.in_doubt, sent.problem) == (3, "the line went dead")
    done = campaign.marketplace.reconciler.run()
    # After the first unanswered call, the rest of the batch was not sent.
    assert done.found == (1 if after else 0)
    assert done.found + done.sent_again == sent.in_doubt
    assert len(list(campaign.crowd.hits())) == 3
    assert len(campaign.hit_ids()) == 3
    campaign.check_ledger()


def _lost(campaign: Campaign) -> None:
    """A creation HIT whose call never reached the marketplace."""
    campaign.plan_hits(1)
    campaign.crowd.fail(CrowdUnavailable("silence"))
    assert campaign.marketplace.poster.run().in_doubt == 1


@pytest.mark.any_database
@pytest.mark.parametrize("wait", [TIME_TO_ARRIVE, 2 * DAY], ids=["after minutes", "after the token's day"])
def test_an_unposted_hit_is_cancelled_when_its_round_no_longer_takes_it(campaign: Campaign, wait: timedelta) -> None:
    _lost(campaign)
    campaign.mark_validating()
    campaign.clock.advance(wait)
    done = campaign.marketplace.reconciler.run()
    assert (done.given_up, done.sent_again, done.held, done.in_doubt) == (1, 0, 0, 0)
    assert list(campaign.crowd.hits()) == []
    assert campaign.figures().reserved_cents == 0
    with campaign.store.read() as session:
        assert [hit.status for hit in session.scalars(select(Hit))] == [HitStatus.REFUSED]
        noted = session.scalars(select(AuditEntry).where(AuditEntry.action == "cancelled")).one()
    assert noted.actor == OWNER
    campaign.check_ledger()


@pytest.mark.any_database
def test_a_call_that_may_still_be_in_flight_is_not_given_up(campaign: Campaign) -> None:
    _lost(campaign)
    campaign.mark_validating()
    campaign.clock.advance(TIME_TO_ARRIVE - timedelta(seconds=1))
    done = campaign.marketplace.reconciler.run()
    assert (done.given_up, done.sent_again, done.in_doubt) == (0, 0, 1)
    assert campaign.ledger_states() == {"reserved": 1}


@pytest.mark.any_database
def test_a_posted_hit_is_found_even_if_its_round_no_longer_takes_it(campaign: Campaign) -> None:
    campaign.plan_hits(1)
    campaign.crowd.fail(CrowdUnavailable("the line went dead"), after=True)
    campaign.marketplace.poster.run()
    campaign.mark_validating()
    campaign.clock.advance(TIME_TO_ARRIVE)
    done = campaign.marketplace.reconciler.run()
    assert (done.found, done.given_up) == (1, 0)
    assert campaign.ledger_states() == {"reserved": 1}


@pytest.mark.any_database
def test_unposted_hits_wait_while_their_round_is_paused(campaign: Campaign) -> None:
    _lost(campaign)
    _pause(campaign, campaign.now)
    campaign.clock.advance(TIME_TO_ARRIVE)
    done = campaign.marketplace.reconciler.run()
    assert (done.sent_again, done.given_up, done.held, done.in_doubt) == (0, 0, 0, 0)
    assert campaign.marketplace.poster.run().posted == 0
    campaign.clock.advance(2 * DAY)
    _pause(campaign, None)
    assert campaign.marketplace.poster.run().posted == 1
    campaign.check_ledger()


def _pause(campaign: Campaign, at: datetime | None) -> None:
    with campaign.store.write() as session:
        session.get_one(Round, campaign.round_id).paused_at = at


def test_hits_in_doubt_after_their_token_expired_are_held_for_a_manual_decision(campaign: Campaign) -> None:
    campaign.plan_hits(1)
    campaign.crowd.fail(CrowdUnavailable("silence"))
    campaign.marketplace.poster.run()
    campaign.clock.advance(timedelta(hours=24))
    done = campaign.marketplace.reconciler.run()
    assert (done.held, done.sent_again, done.in_doubt) == (1, 0, 0)
    assert list(campaign.crowd.hits()) == []
    assert campaign.ledger_states() == {"reserved": 1}


@pytest.mark.parametrize("hours", [-2, 2])
def test_hits_in_doubt_are_posted_although_the_clock_jumped(campaign: Campaign, hours: int) -> None:
    campaign.plan_hits(1)
    campaign.crowd.fail(CrowdUnavailable("silence"))
    campaign.marketplace.poster.run()
    campaign.clock.advance(timedelta(hours=hours))
    done = campaign.marketplace.reconciler.run()
    assert (done.held, done.sent_again, done.in_doubt) == (0, 1, 0)
    assert len(list(campaign.crowd.hits())) == 1


@pytest.mark.any_database
def test_an_empty_account_leaves_hits_waiting_and_they_are_posted_once_it_is_filled(campaign: Campaign) -> None:
    campaign.plan_hits(4)
    campaign.crowd.deposit(-campaign.crowd.balance())
    sent = campaign.marketplace.poster.run()
    assert sent.posted == 0
    assert sent.waiting == 4
    assert sent.problem
    campaign.clock.advance(3 * DAY)
    campaign.crowd.deposit(1_000_000)
    assert campaign.marketplace.poster.run().posted == 4
    campaign.check_ledger()


def test_wrong_keys_leave_hits_waiting_with_their_money(campaign: Campaign) -> None:
    campaign.plan_hits(1)
    campaign.crowd.fail(CrowdAccessDenied("check the access key"))
    sent = campaign.marketplace.poster.run()
    assert (sent.refused, sent.waiting, sent.problem) == (0, 1, "check the access key")
    assert campaign.ledger_states() == {"reserved": 1}
    assert campaign.marketplace.poster.run().posted == 1
    campaign.check_ledger()


def test_a_marketplace_that_does_not_answer_is_not_called_again_for_the_whole_batch(campaign: Campaign) -> None:
    campaign.plan_hits(60)
    for call in range(1, 61):
        campaign.crowd.fail(CrowdUnavailable("silence"), call=call)
    assert campaign.marketplace.poster.run().in_doubt == 60
    assert campaign.crowd_calls()["post"] <= 8
    campaign.crowd.forgive()
    assert campaign.marketplace.reconciler.run().sent_again == 60
    assert len(list(campaign.crowd.hits())) == 60
    campaign.check_ledger()


@pytest.mark.any_database
def test_a_refused_hit_releases_its_money(campaign: Campaign) -> None:
    campaign.plan_hits(1)
    campaign.crowd.fail(CrowdRefused("the title is forbidden", "ParameterValidationError"))
    assert campaign.marketplace.poster.run().refused == 1
    assert campaign.figures().reserved_cents == 0
    campaign.check_ledger()


@pytest.mark.any_database
def test_hits_whose_time_is_over_before_they_are_sent_are_not_posted(campaign: Campaign) -> None:
    campaign.plan_hits(2)
    campaign.clock.advance(8 * DAY)
    assert campaign.marketplace.poster.run().refused == 2
    assert campaign.crowd_calls()["post"] == 0
    assert campaign.figures().reserved_cents == 0


@pytest.mark.any_database
def test_only_a_round_that_takes_work_takes_hits(campaign: Campaign) -> None:
    campaign.mark_validating()
    with campaign.store.write() as session:
        round = session.get_one(Round, campaign.round_id)
        round.status, round.closed_at = round.status.CLOSED, campaign.now
    with pytest.raises(CrowdWorkError):
        campaign.plan_hits(1)


def test_insufficient_funds_are_distinct_from_a_refusal() -> None:
    assert InsufficientFunds("x").retry
    assert not CrowdRefused("x").retry
