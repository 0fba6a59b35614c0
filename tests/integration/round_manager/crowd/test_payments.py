"""Debts are paid exactly once, whatever fails."""

from datetime import timedelta

import pytest

from crowd.errors import CrowdAccessDenied, CrowdBusy, CrowdUnavailable, NotOnCrowd
from crowd.port import AssignmentState
from round_manager.crowd.reconciliation import resolve_payment
from round_manager.errors import (
    AssignmentStateError,
    BudgetError,
    CrowdWorkError,
    NothingHeld,
    ReasonRequired,
    WrongCrowdAccount,
)
from round_manager.models import EntryKind
from tests.integration.round_manager.crowd.counter import OWNER, Counter


def test_approved_work_is_paid_and_its_hit_is_finished(counter: Counter) -> None:
    done = counter.collected(3)
    assert counter.approve(done) == 3
    paid = counter.payments.run()
    assert (paid.rewards, paid.cents) == (3, 3 * counter.round.spec["pay"]["create_cents"])
    assert counter.states() == {"confirmed": 3}
    assert {counter.crowd.assignment(one).state for one in done} == {AssignmentState.APPROVED}
    before = counter.calls()
    assert counter.collector.run().looked == 0
    assert counter.calls() == before
    counter.check()


def test_approving_and_paying_again_changes_nothing(counter: Counter) -> None:
    done = counter.collected()
    counter.approve(done)
    counter.payments.run()
    before = counter.calls()
    assert counter.approve(done) == 0
    assert counter.payments.run().rewards == 0
    assert counter.calls() == before
    counter.check()


@pytest.mark.parametrize("after", [False, True], ids=["before the effect", "after the effect"])
def test_a_bonus_whose_response_was_lost_is_paid_once(counter: Counter, after: bool) -> None:
    (done,) = counter.collected()
    key = counter.bonus(done, 75)
    counter.crowd.fail(CrowdUnavailable("the line went dead"), call=3, after=after)  # after the account and its balance
    paid = counter.payments.run()
    assert (paid.bonuses, paid.in_doubt) == (0, 1)
    settled = counter.reconciler.run()
    assert (settled.found, settled.sent_again) == ((1, 0) if after else (0, 1))
    assert [(bonus.key, bonus.cents) for bonus in counter.crowd.bonuses(assignment_id=done)] == [(key, 75)]
    assert counter.states(EntryKind.EXTRA) == {"confirmed": 1}
    counter.check()


@pytest.mark.parametrize("after", [False, True], ids=["before the effect", "after the effect"])
def test_an_approval_whose_response_was_lost_is_made_once(counter: Counter, after: bool) -> None:
    done = counter.collected(2)
    counter.approve(done)
    counter.crowd.fail(CrowdUnavailable("the line went dead"), call=2, after=after)
    paid = counter.payments.run()
    assert (paid.rewards + paid.in_doubt, paid.problem) == (2, "the line went dead")
    counter.clock.advance(timedelta(days=2))  # an approval needs no token: its state protects it for ever
    counter.reconciler.run()
    assert counter.states() == {"confirmed": 2}
    counter.check()


def test_a_bonus_with_an_expired_token_is_held_until_it_is_settled_manually(counter: Counter) -> None:
    (done,) = counter.collected()
    key = counter.bonus(done)
    counter.crowd.fail(CrowdUnavailable("silence"), call=3)
    counter.payments.run()
    counter.clock.advance(timedelta(hours=24))
    assert counter.reconciler.run().held == 1
    assert counter.reconciler.run().held == 0
    assert list(counter.crowd.bonuses(assignment_id=done)) == []
    new = resolve_payment(
        counter.store, key, paid=False, actor=OWNER, reason="I looked: nothing there", now=counter.clock.now()
    )
    assert new != key
    assert counter.payments.run().bonuses == 1
    assert [bonus.key for bonus in counter.crowd.bonuses(assignment_id=done)] == [new]
    with pytest.raises(NothingHeld):
        resolve_payment(counter.store, key, paid=True, actor=OWNER, reason="", now=counter.clock.now())
    counter.check()


def test_a_held_bonus_that_was_paid_after_all_is_not_paid_again(counter: Counter) -> None:
    (done,) = counter.collected()
    key = counter.bonus(done)
    counter.crowd.fail(CrowdUnavailable("silence"), call=3)
    counter.payments.run()
    counter.clock.advance(timedelta(hours=24))
    counter.reconciler.run()
    resolve_payment(counter.store, key, paid=True, actor=OWNER, reason="by bank transfer", now=counter.clock.now())
    assert counter.entry(key).state == "confirmed"
    assert counter.payments.run().bonuses == 0


def test_bonuses_wait_for_an_account_that_covers_them_and_rewards_do_not(counter: Counter) -> None:
    done = counter.collected(2)
    counter.approve(done[:1])
    counter.bonus(done[1], 5_000)
    counter.crowd.deposit(100 - counter.crowd.balance())
    paid = counter.payments.run()
    assert (paid.rewards, paid.bonuses, paid.waiting) == (1, 0, 1)
    assert "$1.00" in paid.problem
    assert "$60.00" in paid.problem
    counter.crowd.deposit(10_000)
    assert counter.payments.run().bonuses == 1
    counter.check()


@pytest.mark.parametrize("kind", ["reward", "bonus"])
def test_wrong_keys_leave_debts_owed(counter: Counter, kind: str) -> None:
    (done,) = counter.collected()
    if kind == "reward":
        counter.approve([done])
    else:
        counter.bonus(done)
    counter.crowd.fail(CrowdAccessDenied("check the access key"), call=2 if kind == "reward" else 3)
    paid = counter.payments.run()
    assert (paid.rewards, paid.bonuses, paid.refused, paid.problem) == (0, 0, 0, "check the access key")
    counter.clock.advance(timedelta(minutes=6))
    again = counter.payments.run()
    assert again.rewards + again.bonuses == 1
    counter.check()


def test_a_busy_marketplace_stops_the_payment_run_and_the_rest_stays_owed(counter: Counter) -> None:
    done = counter.collected(3)
    counter.approve(done)
    for call in (2, 3, 4):
        counter.crowd.fail(CrowdBusy("slow down"), call=call)
    paid = counter.payments.run()
    assert (paid.rewards, paid.in_doubt, paid.problem) == (0, 3, "slow down")
    assert counter.reconciler.run().sent_again == 3
    counter.check()


def test_a_rejection_has_a_reason_and_can_be_overridden(counter: Counter) -> None:
    (done,) = counter.collected()
    with pytest.raises(ReasonRequired):
        counter.rejections.reject(done, "  ", actor=OWNER)
    assert counter.crowd.assignment(done).state is AssignmentState.SUBMITTED
    counter.rejections.reject(done, "The text is copied from the instructions.", actor=OWNER)
    counter.rejections.reject(done, "Again.", actor=OWNER)
    assert counter.crowd.assignment(done).feedback == "The text is copied from the instructions."
    assert counter.figures().reserved_cents == 0
    with pytest.raises(AssignmentStateError):
        counter.approve([done])
    counter.rejections.override(done, actor=OWNER, reason="I was wrong")
    assert counter.payments.run().rewards == 1
    assert counter.crowd.assignment(done).state is AssignmentState.APPROVED
    counter.check()


def test_a_lost_response_to_an_override_is_recovered(counter: Counter) -> None:
    (done,) = counter.collected()
    counter.rejections.reject(done, "No.", actor=OWNER)
    counter.rejections.override(done, actor=OWNER, reason="Yes.")
    counter.crowd.fail(CrowdUnavailable("silence"), call=2)
    counter.payments.run()
    assert counter.reconciler.run().sent_again == 1
    assert counter.crowd.assignment(done).state is AssignmentState.APPROVED
    counter.check()


def test_work_that_is_being_paid_cannot_be_rejected(counter: Counter) -> None:
    (done,) = counter.collected()
    counter.approve([done])
    with pytest.raises(AssignmentStateError):
        counter.rejections.reject(done, "Too late.", actor=OWNER)


def test_a_bonus_past_the_budget_is_refused_with_the_figures(counter: Counter) -> None:
    (done,) = counter.collected()
    with pytest.raises(BudgetError):
        counter.bonus(done, 10_000_000)
    with pytest.raises(ReasonRequired):
        counter.bonus(done, 10, " ")
    with pytest.raises(CrowdWorkError):
        counter.bonus(done, 0)
    assert counter.states(EntryKind.EXTRA) == {}


def test_another_accounts_key_changes_no_payment(counter: Counter) -> None:
    first, second = counter.collected(2)
    counter.approve([first])
    counter.bonus(second)
    before = counter.figures()
    for run in (counter.stranger.payments.run, counter.stranger.poster.run, counter.stranger.collector.run):
        counter.plan(1)
        with pytest.raises(WrongCrowdAccount):
            run()
    assert counter.states()["owed"] == 1
    assert counter.states(EntryKind.EXTRA) == {"owed": 1}
    assert counter.figures().owed_cents == before.owed_cents
    assert counter.figures().reserved_cents > before.reserved_cents
    paid = counter.payments.run()
    assert (paid.rewards, paid.bonuses) == (1, 1)
    counter.check()


def test_work_no_longer_known_to_the_marketplace_is_held_and_not_refused(counter: Counter) -> None:
    first, second = counter.collected(2)
    counter.approve([first])
    key = counter.bonus(second)
    counter.crowd.fail(NotOnCrowd("no such assignment"), call=2)
    counter.crowd.fail(NotOnCrowd("no such assignment"), call=4)
    paid = counter.payments.run()
    assert (paid.held, paid.refused) == (2, 0)
    assert counter.entry(key).held_reason is not None
    assert counter.figures().sent_cents > 0


def test_an_unknown_payment_in_doubt_is_held_and_does_not_block_the_rest(counter: Counter) -> None:
    first, second = counter.collected(2)
    for one in (first, second):
        counter.bonus(one)
    for call in (3, 4):
        counter.crowd.fail(CrowdUnavailable("silence"), call=call)
    counter.payments.run()
    counter.crowd.forgive()
    counter.crowd.fail(NotOnCrowd("no such assignment"), call=2)
    done = counter.reconciler.run()
    assert (done.held, done.sent_again, done.problem) == (1, 1, "")
    counter.check()


def test_a_rejection_that_crosses_an_approval_takes_no_other_places_money(counter: Counter) -> None:
    counter.post(1, assignments=3)
    (hit,) = counter.posted()
    done = counter.crowd.submit(hit, "W1")
    counter.collector.run()
    counter.approve([done])
    counter.crowd.reject(done, "No.")  # with another tool, while ours is about to pay
    assert counter.payments.run().refused == 1
    counter.collector.run()
    assert counter.states() == {"refused": 1, "reserved": 2}
    counter.check()


def test_an_overridden_rejection_can_earn_its_bonus_again(counter: Counter) -> None:
    (done,) = counter.collected()
    before = counter.states(EntryKind.BONUS)
    counter.rejections.reject(done, "No.", actor=OWNER)
    counter.rejections.override(done, actor=OWNER, reason="Yes.")
    assert counter.states(EntryKind.BONUS)["reserved"] == before["reserved"]
    counter.check()


def test_two_concurrent_payment_runs_pay_everything_once(counter: Counter) -> None:
    from concurrent.futures import ThreadPoolExecutor

    done = counter.collected(20)
    counter.approve(done)
    for one in done:
        counter.bonus(one, 10)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: (counter.reconciler.run(), counter.payments.run(), counter.reconciler.run()), range(2)))
    assert counter.states() == {"confirmed": 20}
    assert counter.states(EntryKind.EXTRA) == {"confirmed": 20}
    assert sum(len(list(counter.crowd.bonuses(assignment_id=one))) for one in done) == 20
    counter.check()
