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
from tests.campaign import OWNER, Campaign


@pytest.mark.any_database
def test_approved_work_is_paid_and_its_hit_is_finished(campaign: Campaign) -> None:
    done = campaign.collected(3)
    assert campaign.approve(done) == 3
    paid = campaign.marketplace.payments.run()
    assert (paid.rewards, paid.cents) == (3, 3 * campaign.round.spec["pay"]["create_cents"])
    assert campaign.ledger_states() == {"confirmed": 3}
    assert {campaign.crowd.assignment(one).state for one in done} == {AssignmentState.APPROVED}
    before = campaign.crowd_calls()
    assert campaign.marketplace.collector.run().looked == 0
    assert campaign.crowd_calls() == before
    campaign.check_ledger()


@pytest.mark.any_database
def test_approving_and_paying_again_changes_nothing(campaign: Campaign) -> None:
    done = campaign.collected()
    campaign.approve(done)
    campaign.marketplace.payments.run()
    before = campaign.crowd_calls()
    assert campaign.approve(done) == 0
    assert campaign.marketplace.payments.run().rewards == 0
    assert campaign.crowd_calls() == before
    campaign.check_ledger()


@pytest.mark.any_database
@pytest.mark.parametrize("after", [False, True], ids=["before the effect", "after the effect"])
def test_a_bonus_whose_response_was_lost_is_paid_once(campaign: Campaign, after: bool) -> None:
    (done,) = campaign.collected()
    key = campaign.give_bonus(done, 75)
    # The calls for the account and its balance are before it.
    campaign.crowd.fail(CrowdUnavailable("the line went dead"), call=3, after=after)
    paid = campaign.marketplace.payments.run()
    assert (paid.bonuses, paid.in_doubt) == (0, 1)
    settled = campaign.marketplace.reconciler.run()
    assert (settled.found, settled.sent_again) == ((1, 0) if after else (0, 1))
    assert [(bonus.key, bonus.cents) for bonus in campaign.crowd.bonuses(assignment_id=done)] == [(key, 75)]
    assert campaign.ledger_states(EntryKind.EXTRA) == {"confirmed": 1}
    campaign.check_ledger()


@pytest.mark.any_database
@pytest.mark.parametrize("after", [False, True], ids=["before the effect", "after the effect"])
def test_an_approval_whose_response_was_lost_is_made_once(campaign: Campaign, after: bool) -> None:
    done = campaign.collected(2)
    campaign.approve(done)
    campaign.crowd.fail(CrowdUnavailable("the line went dead"), call=2, after=after)
    paid = campaign.marketplace.payments.run()
    assert (paid.rewards + paid.in_doubt, paid.problem) == (2, "the line went dead")
    campaign.clock.advance(timedelta(days=2))  # an approval needs no token: its state protects it for ever
    campaign.marketplace.reconciler.run()
    assert campaign.ledger_states() == {"confirmed": 2}
    campaign.check_ledger()


def test_a_bonus_with_an_expired_token_is_held_until_it_is_settled_manually(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    key = campaign.give_bonus(done)
    campaign.crowd.fail(CrowdUnavailable("silence"), call=3)
    campaign.marketplace.payments.run()
    campaign.clock.advance(timedelta(hours=24))
    assert campaign.marketplace.reconciler.run().held == 1
    assert campaign.marketplace.reconciler.run().held == 0
    assert list(campaign.crowd.bonuses(assignment_id=done)) == []
    new = resolve_payment(
        campaign.store, key, paid=False, actor=OWNER, reason="I looked: nothing there", now=campaign.now
    )
    assert new != key
    assert campaign.marketplace.payments.run().bonuses == 1
    assert [bonus.key for bonus in campaign.crowd.bonuses(assignment_id=done)] == [new]
    with pytest.raises(NothingHeld):
        resolve_payment(campaign.store, key, paid=True, actor=OWNER, reason="", now=campaign.now)
    campaign.check_ledger()


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_bonus_in_doubt_is_settled_although_the_clock_jumped(campaign: Campaign, hours: int) -> None:
    (done,) = campaign.collected()
    key = campaign.give_bonus(done)
    campaign.crowd.fail(CrowdUnavailable("silence"), call=3)
    campaign.marketplace.payments.run()
    campaign.clock.advance(timedelta(hours=hours))
    settled = campaign.marketplace.reconciler.run()
    assert (settled.sent_again, settled.held) == (1, 0)
    assert [bonus.key for bonus in campaign.crowd.bonuses(assignment_id=done)] == [key]
    campaign.check_ledger()


@pytest.mark.any_database
def test_a_held_bonus_that_was_paid_after_all_is_not_paid_again(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    key = campaign.give_bonus(done)
    campaign.crowd.fail(CrowdUnavailable("silence"), call=3)
    campaign.marketplace.payments.run()
    campaign.clock.advance(timedelta(hours=24))
    campaign.marketplace.reconciler.run()
    resolve_payment(campaign.store, key, paid=True, actor=OWNER, reason="by bank transfer", now=campaign.now)
    assert campaign.ledger_entry(key).state == "confirmed"
    assert campaign.marketplace.payments.run().bonuses == 0


@pytest.mark.any_database
def test_bonuses_wait_for_an_account_that_covers_them_and_rewards_do_not(campaign: Campaign) -> None:
    done = campaign.collected(2)
    campaign.approve(done[:1])
    campaign.give_bonus(done[1], 5_000)
    campaign.crowd.deposit(100 - campaign.crowd.balance())
    paid = campaign.marketplace.payments.run()
    assert (paid.rewards, paid.bonuses, paid.waiting) == (1, 0, 1)
    assert "$1.00" in paid.problem
    assert "$60.00" in paid.problem
    campaign.crowd.deposit(10_000)
    assert campaign.marketplace.payments.run().bonuses == 1
    campaign.check_ledger()


@pytest.mark.any_database
@pytest.mark.parametrize("kind", ["reward", "bonus"])
def test_wrong_keys_leave_debts_owed(campaign: Campaign, kind: str) -> None:
    (done,) = campaign.collected()
    if kind == "reward":
        campaign.approve([done])
    else:
        campaign.give_bonus(done)
    campaign.crowd.fail(CrowdAccessDenied("check the access key"), call=2 if kind == "reward" else 3)
    paid = campaign.marketplace.payments.run()
    assert (paid.rewards, paid.bonuses, paid.refused, paid.problem) == (0, 0, 0, "check the access key")
    campaign.clock.advance(timedelta(minutes=6))
    again = campaign.marketplace.payments.run()
    assert again.rewards + again.bonuses == 1
    campaign.check_ledger()


@pytest.mark.any_database
def test_a_busy_marketplace_stops_the_payment_run_and_the_rest_stays_owed(campaign: Campaign) -> None:
    done = campaign.collected(3)
    campaign.approve(done)
    for call in (2, 3, 4):
        campaign.crowd.fail(CrowdBusy("slow down"), call=call)
    paid = campaign.marketplace.payments.run()
    assert (paid.rewards, paid.in_doubt, paid.problem) == (0, 3, "slow down")
    assert campaign.marketplace.reconciler.run().sent_again == 3
    campaign.check_ledger()


def test_a_rejection_has_a_reason_and_can_be_overridden(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    with pytest.raises(ReasonRequired):
        campaign.marketplace.rejections.reject(done, "  ", actor=OWNER)
    assert campaign.crowd.assignment(done).state is AssignmentState.SUBMITTED
    campaign.marketplace.rejections.reject(done, "The text is copied from the instructions.", actor=OWNER)
    campaign.marketplace.rejections.reject(done, "Again.", actor=OWNER)
    assert campaign.crowd.assignment(done).feedback == "The text is copied from the instructions."
    assert campaign.figures().reserved_cents == 0
    with pytest.raises(AssignmentStateError):
        campaign.approve([done])
    campaign.marketplace.rejections.override(done, actor=OWNER, reason="I was wrong")
    assert campaign.marketplace.payments.run().rewards == 1
    assert campaign.crowd.assignment(done).state is AssignmentState.APPROVED
    campaign.check_ledger()


@pytest.mark.any_database
def test_a_lost_response_to_an_override_is_recovered(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    campaign.marketplace.rejections.reject(done, "No.", actor=OWNER)
    campaign.marketplace.rejections.override(done, actor=OWNER, reason="Yes.")
    campaign.crowd.fail(CrowdUnavailable("silence"), call=2)
    campaign.marketplace.payments.run()
    assert campaign.marketplace.reconciler.run().sent_again == 1
    assert campaign.crowd.assignment(done).state is AssignmentState.APPROVED
    campaign.check_ledger()


@pytest.mark.any_database
def test_work_that_is_being_paid_cannot_be_rejected(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    campaign.approve([done])
    with pytest.raises(AssignmentStateError):
        campaign.marketplace.rejections.reject(done, "Too late.", actor=OWNER)


@pytest.mark.any_database
def test_a_bonus_past_the_budget_is_refused_with_the_figures(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    with pytest.raises(BudgetError):
        campaign.give_bonus(done, 10_000_000)
    with pytest.raises(ReasonRequired):
        campaign.give_bonus(done, 10, " ")
    with pytest.raises(CrowdWorkError):
        campaign.give_bonus(done, 0)
    assert campaign.ledger_states(EntryKind.EXTRA) == {}


@pytest.mark.any_database
def test_another_accounts_key_changes_no_payment(campaign: Campaign) -> None:
    first, second = campaign.collected(2)
    campaign.approve([first])
    campaign.give_bonus(second)
    before = campaign.figures()
    other = campaign.with_other_account().marketplace
    for run in (other.payments.run, other.poster.run, other.collector.run):
        campaign.plan_hits(1)
        with pytest.raises(WrongCrowdAccount):
            run()
    assert campaign.ledger_states()["owed"] == 1
    assert campaign.ledger_states(EntryKind.EXTRA) == {"owed": 1}
    assert campaign.figures().owed_cents == before.owed_cents
    assert campaign.figures().reserved_cents > before.reserved_cents
    paid = campaign.marketplace.payments.run()
    assert (paid.rewards, paid.bonuses) == (1, 1)
    campaign.check_ledger()


@pytest.mark.any_database
def test_work_no_longer_known_to_the_marketplace_is_held_and_not_refused(campaign: Campaign) -> None:
    first, second = campaign.collected(2)
    campaign.approve([first])
    key = campaign.give_bonus(second)
    campaign.crowd.fail(NotOnCrowd("no such assignment"), call=2)
    campaign.crowd.fail(NotOnCrowd("no such assignment"), call=4)
    paid = campaign.marketplace.payments.run()
    assert (paid.held, paid.refused) == (2, 0)
    assert campaign.ledger_entry(key).held_reason is not None
    assert campaign.figures().sent_cents > 0


def test_an_unknown_payment_in_doubt_is_held_and_does_not_block_the_rest(campaign: Campaign) -> None:
    first, second = campaign.collected(2)
    for one in (first, second):
        campaign.give_bonus(one)
    for call in (3, 4):
        campaign.crowd.fail(CrowdUnavailable("silence"), call=call)
    campaign.marketplace.payments.run()
    campaign.crowd.forgive()
    campaign.crowd.fail(NotOnCrowd("no such assignment"), call=2)
    done = campaign.marketplace.reconciler.run()
    assert (done.held, done.sent_again, done.problem) == (1, 1, "")
    campaign.check_ledger()


@pytest.mark.any_database
def test_a_rejection_that_crosses_an_approval_takes_no_other_places_money(campaign: Campaign) -> None:
    campaign.post_hits(1, assignments=3)
    (hit,) = campaign.hit_ids()
    done = campaign.crowd.submit(hit, "W1")
    campaign.marketplace.collector.run()
    campaign.approve([done])
    campaign.crowd.reject(done, "No.")  # with another tool, while ours is about to pay
    assert campaign.marketplace.payments.run().refused == 1
    campaign.marketplace.collector.run()
    assert campaign.ledger_states() == {"refused": 1, "reserved": 2}
    campaign.check_ledger()


@pytest.mark.any_database
def test_an_overridden_rejection_can_earn_its_bonus_again(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    before = campaign.ledger_states(EntryKind.BONUS)
    campaign.marketplace.rejections.reject(done, "No.", actor=OWNER)
    campaign.marketplace.rejections.override(done, actor=OWNER, reason="Yes.")
    assert campaign.ledger_states(EntryKind.BONUS)["reserved"] == before["reserved"]
    campaign.check_ledger()


def test_two_concurrent_payment_runs_pay_everything_once(campaign: Campaign) -> None:
    from concurrent.futures import ThreadPoolExecutor

    marketplace = campaign.marketplace
    done = campaign.collected(20)
    campaign.approve(done)
    for one in done:
        campaign.give_bonus(one, 10)
    with ThreadPoolExecutor(2) as pool:
        runs = (marketplace.reconciler.run, marketplace.payments.run, marketplace.reconciler.run)
        list(pool.map(lambda _: [run() for run in runs], range(2)))
    assert campaign.ledger_states() == {"confirmed": 20}
    assert campaign.ledger_states(EntryKind.EXTRA) == {"confirmed": 20}
    assert sum(len(list(campaign.crowd.bonuses(assignment_id=one))) for one in done) == 20
    campaign.check_ledger()
