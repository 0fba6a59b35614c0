"""Money for HITs is reserved before they are posted, and each is posted once."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select

from crowd.errors import CrowdAccessDenied, CrowdRefused, CrowdUnavailable, InsufficientFunds
from round_manager.crowd.hit_planning import HitRequest, cost_of
from round_manager.crowd.reconciliation import TIME_TO_ARRIVE
from round_manager.errors import BudgetError, CrowdWorkError
from round_manager.models import AuditEntry, EntryKind, Hit, HitKind, HitStatus, Round
from tests.integration.round_manager.crowd.counter import DAY, OWNER, Counter


def test_planning_reserves_rewards_bonuses_and_fees_for_every_assignment(counter: Counter) -> None:
    counter.plan(3, assignments=2)
    pay = counter.round.spec["pay"]
    assert counter.states() == {"reserved": 6}
    assert counter.states(EntryKind.BONUS) == {"reserved": 6 * counter.round.spec["work"]["examples_per_hit"]}
    with counter.store.read() as session:
        round = session.get_one(Round, counter.round.id)
        wish = HitRequest(HitKind.CREATE, 3, 2, counter.clock.now() + DAY)
        cost = cost_of(session, round, wish, counter.crowd)
    assert cost.total_cents == counter.figures().reserved_cents
    assert cost.reward_cents == 6 * pay["create_cents"]
    assert cost.fee_cents > 0
    counter.check()


def test_ten_assignments_reserve_the_doubled_fee(counter: Counter) -> None:
    with counter.store.read() as session:
        round = session.get_one(Round, counter.round.id)
        fees = [
            cost_of(
                session, round, HitRequest(HitKind.VALIDATE, 1, count, counter.clock.now() + DAY), counter.crowd
            ).fee_cents
            for count in (9, 10)
        ]
    each = counter.crowd.price
    assert fees[1] > fees[0] * 10 // 9 * 1.9, each


def test_posting_past_the_budget_is_refused_with_the_figures_and_nothing_changes(counter: Counter) -> None:
    counter.plan(1)
    before = counter.figures()
    with pytest.raises(BudgetError):
        counter.plan(100_000)
    assert counter.figures() == before
    with counter.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Hit)) == 1


def test_hits_are_posted_with_their_key_as_token_and_annotation(counter: Counter) -> None:
    hits = counter.plan(5)
    assert counter.poster.run().posted == 5
    assert {one.key for one in counter.crowd.hits()} == {hit.key for hit in hits}
    with counter.store.read() as session:
        rows = session.scalars(select(Hit)).all()
    assert {row.status for row in rows} == {HitStatus.ASSIGNABLE}
    assert counter.poster.run().posted == 0
    assert counter.calls()["post"] == 5


@pytest.mark.parametrize("after", [False, True], ids=["before the effect", "after the effect"])
def test_a_hit_whose_response_was_lost_is_looked_up_and_never_posted_twice(counter: Counter, after: bool) -> None:
    counter.plan(3)
    counter.crowd.fail(CrowdUnavailable("the line went dead"), call=2, after=after)
    sent = counter.poster.run()
    assert (sent.posted + sent.in_doubt, sent.problem) == (3, "the line went dead")
    done = counter.reconciler.run()
    # After the first unanswered call, the rest of the batch was not sent.
    assert done.found == (1 if after else 0)
    assert done.found + done.sent_again == sent.in_doubt
    assert len(list(counter.crowd.hits())) == 3
    assert len(counter.posted()) == 3
    counter.check()


def _lost(counter: Counter) -> None:
    """A creation HIT whose call never reached the marketplace."""
    counter.plan(1)
    counter.crowd.fail(CrowdUnavailable("silence"))
    assert counter.poster.run().in_doubt == 1


@pytest.mark.parametrize("wait", [TIME_TO_ARRIVE, 2 * DAY], ids=["after minutes", "after the token's day"])
def test_an_unposted_hit_is_cancelled_when_its_round_no_longer_takes_it(counter: Counter, wait: timedelta) -> None:
    _lost(counter)
    counter.validate()
    counter.clock.advance(wait)
    done = counter.reconciler.run()
    assert (done.given_up, done.sent_again, done.held, done.in_doubt) == (1, 0, 0, 0)
    assert list(counter.crowd.hits()) == []
    assert counter.figures().reserved_cents == 0
    with counter.store.read() as session:
        assert [hit.status for hit in session.scalars(select(Hit))] == [HitStatus.REFUSED]
        noted = session.scalars(select(AuditEntry).where(AuditEntry.action == "cancelled")).one()
    assert noted.actor == OWNER
    counter.check()


def test_a_call_that_may_still_be_in_flight_is_not_given_up(counter: Counter) -> None:
    _lost(counter)
    counter.validate()
    counter.clock.advance(TIME_TO_ARRIVE - timedelta(seconds=1))
    done = counter.reconciler.run()
    assert (done.given_up, done.sent_again, done.in_doubt) == (0, 0, 1)
    assert counter.states() == {"reserved": 1}


def test_a_posted_hit_is_found_even_if_its_round_no_longer_takes_it(counter: Counter) -> None:
    counter.plan(1)
    counter.crowd.fail(CrowdUnavailable("the line went dead"), after=True)
    counter.poster.run()
    counter.validate()
    counter.clock.advance(TIME_TO_ARRIVE)
    done = counter.reconciler.run()
    assert (done.found, done.given_up) == (1, 0)
    assert counter.states() == {"reserved": 1}


def test_unposted_hits_wait_while_their_round_is_paused(counter: Counter) -> None:
    _lost(counter)
    _pause(counter, counter.clock.now())
    counter.clock.advance(TIME_TO_ARRIVE)
    done = counter.reconciler.run()
    assert (done.sent_again, done.given_up, done.held, done.in_doubt) == (0, 0, 0, 0)
    assert counter.poster.run().posted == 0
    counter.clock.advance(2 * DAY)
    _pause(counter, None)
    assert counter.poster.run().posted == 1
    counter.check()


def _pause(counter: Counter, at: datetime | None) -> None:
    with counter.store.write() as session:
        session.get_one(Round, counter.round.id).paused_at = at


def test_hits_in_doubt_after_their_token_expired_are_held_for_a_manual_decision(counter: Counter) -> None:
    counter.plan(1)
    counter.crowd.fail(CrowdUnavailable("silence"))
    counter.poster.run()
    counter.clock.advance(timedelta(hours=24))
    done = counter.reconciler.run()
    assert (done.held, done.sent_again, done.in_doubt) == (1, 0, 0)
    assert list(counter.crowd.hits()) == []
    assert counter.states() == {"reserved": 1}


def test_an_empty_account_leaves_hits_waiting_and_they_are_posted_once_it_is_filled(counter: Counter) -> None:
    counter.plan(4)
    counter.crowd.deposit(-counter.crowd.balance())
    sent = counter.poster.run()
    assert sent.posted == 0
    assert sent.waiting == 4
    assert sent.problem
    counter.clock.advance(3 * DAY)
    counter.crowd.deposit(1_000_000)
    assert counter.poster.run().posted == 4
    counter.check()


def test_wrong_keys_leave_hits_waiting_with_their_money(counter: Counter) -> None:
    counter.plan(1)
    counter.crowd.fail(CrowdAccessDenied("check the access key"))
    sent = counter.poster.run()
    assert (sent.refused, sent.waiting, sent.problem) == (0, 1, "check the access key")
    assert counter.states() == {"reserved": 1}
    assert counter.poster.run().posted == 1
    counter.check()


def test_a_marketplace_that_does_not_answer_is_not_called_again_for_the_whole_batch(counter: Counter) -> None:
    counter.plan(60)
    for call in range(1, 61):
        counter.crowd.fail(CrowdUnavailable("silence"), call=call)
    assert counter.poster.run().in_doubt == 60
    assert counter.calls()["post"] <= 8
    counter.crowd.forgive()
    assert counter.reconciler.run().sent_again == 60
    assert len(list(counter.crowd.hits())) == 60
    counter.check()


def test_a_refused_hit_releases_its_money(counter: Counter) -> None:
    counter.plan(1)
    counter.crowd.fail(CrowdRefused("the title is forbidden", "ParameterValidationError"))
    assert counter.poster.run().refused == 1
    assert counter.figures().reserved_cents == 0
    counter.check()


def test_hits_whose_time_is_over_before_they_are_sent_are_not_posted(counter: Counter) -> None:
    counter.plan(2)
    counter.clock.advance(8 * DAY)
    assert counter.poster.run().refused == 2
    assert counter.calls()["post"] == 0
    assert counter.figures().reserved_cents == 0


def test_only_a_round_that_takes_work_takes_hits(counter: Counter) -> None:
    counter.validate()
    with counter.store.write() as session:
        round = session.get_one(Round, counter.round.id)
        round.status, round.closed_at = round.status.CLOSED, counter.clock.now()
    with pytest.raises(CrowdWorkError):
        counter.plan(1)


def test_insufficient_funds_are_distinct_from_a_refusal() -> None:
    assert InsufficientFunds("x").retry
    assert not CrowdRefused("x").retry
