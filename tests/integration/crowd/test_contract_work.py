"""The contract of assignments on every crowd: submitted, decided once, paid once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from crowd.errors import CrowdRefused, InsufficientFunds, TokenExpired, TokenMissing, WrongCrowdState
from crowd.port import AssignmentState, HitState, Token
from tests.integration.crowd.stage import FUNDS, Orders, Stage

ANSWERS = {"text": "Grüße 🦊 & <b>\r\n'\"", "target": "negative", "empty": "", "ünï cödé": "name"}


def test_submitted_work_is_returned_unchanged(stage: Stage, orders: Orders) -> None:
    hit, worker = orders.crowd.post(orders.hit()), stage.worker()
    assert list(orders.crowd.assignments(hit.hit_id)) == []
    stage.accept(hit, worker)
    stage.wait(timedelta(seconds=90))
    assignment_id = stage.submit(hit, worker, ANSWERS)
    work = orders.crowd.assignment(assignment_id)
    assert list(orders.crowd.assignments(hit.hit_id)) == [work]
    assert (work.worker_id, work.hit_id, work.state) == (worker, hit.hit_id, AssignmentState.SUBMITTED)
    assert work.answers == ANSWERS
    assert abs(work.submitted_at - work.accepted_at - timedelta(seconds=90)) < timedelta(seconds=30)
    assert work.auto_approve_at
    assert abs(work.auto_approve_at - work.submitted_at - timedelta(days=1)) < timedelta(seconds=1)
    assert (work.decided_at, work.feedback) == (None, "")
    assert "Grüße" not in repr(work)


def test_a_hit_counts_its_workers(stage: Stage, orders: Orders) -> None:
    hit = orders.crowd.post(orders.hit(max_assignments=5))
    stage.accept(hit, stage.worker())
    done, good, bad = (stage.submit(hit, stage.worker()) for _ in range(3))
    orders.crowd.approve(good)
    orders.crowd.reject(bad, "not a sentence")
    now = orders.crowd.hit(hit.hit_id)
    assert (now.pending, now.available, now.completed, now.undecided) == (1, 1, 2, 1)
    assert now.state is HitState.ASSIGNABLE
    assert [one.assignment_id for one in orders.crowd.assignments(hit.hit_id, [AssignmentState.SUBMITTED])] == [done]
    decided = orders.crowd.assignments(hit.hit_id, [AssignmentState.APPROVED, AssignmentState.REJECTED])
    assert {one.assignment_id for one in decided} == {good, bad}


def test_all_pages_of_a_hits_work_are_listed(stage: Stage, orders: Orders) -> None:
    hit = orders.crowd.post(orders.hit(max_assignments=101))
    made = {stage.submit(hit, stage.worker()) for _ in range(101)}
    listed = [one.assignment_id for one in orders.crowd.assignments(hit.hit_id)]
    assert len(listed) == 101
    assert set(listed) == made


def test_a_worker_cannot_accept_a_hit_twice(stage: Stage, orders: Orders) -> None:
    hit, worker = orders.crowd.post(orders.hit()), stage.worker()
    assert stage.accept(hit, worker)
    assert not stage.accept(hit, worker)
    stage.submit(hit, worker)
    assert not stage.accept(hit, worker)


def test_a_returned_assignment_is_available_to_others(stage: Stage, orders: Orders) -> None:
    hit, first, second = orders.crowd.post(orders.hit(max_assignments=1)), stage.worker(), stage.worker()
    assert stage.accept(hit, first)
    assert not stage.accept(hit, second)
    stage.give_back(hit, first)
    assert stage.accept(hit, second)


def test_an_overdue_assignment_becomes_available_again(stage: Stage, orders: Orders) -> None:
    hit = orders.crowd.post(orders.hit(max_assignments=1))
    assert stage.accept(hit, stage.worker())
    assert orders.crowd.hit(hit.hit_id).pending == 1
    stage.wait(timedelta(seconds=601))
    assert orders.crowd.hit(hit.hit_id).pending == 0
    assert stage.accept(hit, stage.worker())


def test_approval_pays_once_however_often_it_is_sent(stage: Stage, orders: Orders) -> None:
    work = orders.work(max_assignments=1)
    for _ in range(3):
        orders.crowd.approve(work.assignment_id, "thank you")
    approved = orders.crowd.assignment(work.assignment_id)
    assert (approved.state, approved.feedback) == (AssignmentState.APPROVED, "thank you")
    assert approved.decided_at
    assert abs(approved.decided_at - stage.now()) < timedelta(minutes=1)
    assert orders.crowd.balance() == FUNDS - 30


def test_undecided_work_is_approved_automatically(stage: Stage, orders: Orders) -> None:
    work = orders.work()
    stage.wait(timedelta(days=1, seconds=1))
    assert orders.crowd.assignment(work.assignment_id).state is AssignmentState.APPROVED
    with pytest.raises(WrongCrowdState):
        orders.crowd.reject(work.assignment_id, "too late")


def test_a_rejection_pays_nothing_and_gives_its_reason(orders: Orders) -> None:
    work = orders.work(max_assignments=1)
    for _ in range(2):
        orders.crowd.reject(work.assignment_id, "not a sentence")
    rejected = orders.crowd.assignment(work.assignment_id)
    assert (rejected.state, rejected.feedback) == (AssignmentState.REJECTED, "not a sentence")
    assert rejected.decided_at
    assert orders.crowd.balance() == FUNDS


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_a_rejection_without_a_reason_is_refused(orders: Orders, reason: str) -> None:
    work = orders.work()
    with pytest.raises(CrowdRefused):
        orders.crowd.reject(work.assignment_id, reason)
    assert orders.crowd.assignment(work.assignment_id) == work


def test_a_conflicting_decision_is_refused_with_the_current_state(orders: Orders) -> None:
    good, bad = orders.work(), orders.work()
    orders.crowd.approve(good.assignment_id)
    orders.crowd.reject(bad.assignment_id, "not a sentence")
    with pytest.raises(WrongCrowdState):
        orders.crowd.reject(good.assignment_id, "after all not")
    with pytest.raises(WrongCrowdState):
        orders.crowd.approve(bad.assignment_id)
    assert orders.crowd.assignment(good.assignment_id).state is AssignmentState.APPROVED
    assert orders.crowd.assignment(bad.assignment_id).state is AssignmentState.REJECTED


def test_a_rejection_can_be_overridden_and_then_pays_once(orders: Orders) -> None:
    work = orders.work(max_assignments=1)
    orders.crowd.reject(work.assignment_id, "not a sentence")
    for _ in range(2):
        orders.crowd.override_rejection(work.assignment_id, "it was one")
    assert orders.crowd.assignment(work.assignment_id).state is AssignmentState.APPROVED
    assert orders.crowd.balance() == FUNDS - 30


def test_a_rejection_is_final_after_thirty_days(stage: Stage, orders: Orders) -> None:
    work = orders.work(max_assignments=1)
    orders.crowd.reject(work.assignment_id, "not a sentence")
    stage.wait(timedelta(days=31))
    with pytest.raises(WrongCrowdState):
        orders.crowd.override_rejection(work.assignment_id)
    assert orders.crowd.balance() == FUNDS


def test_a_bonus_is_paid_once_however_often_it_is_sent(orders: Orders) -> None:
    work = orders.work(max_assignments=1)
    order = orders.bonus(work, reason="Well fooled [really] & <more>")
    assert orders.crowd.bonus_price(order.cents).total_cents == 180
    for _ in range(3):
        orders.crowd.bonus(order)
    assert orders.crowd.balance() == FUNDS - 30 - 180
    (paid,) = orders.crowd.bonuses(assignment_id=work.assignment_id)
    assert [paid] == list(orders.crowd.bonuses(hit_id=work.hit_id))
    assert (paid.key, paid.cents, paid.reason) == (order.token.key, order.cents, order.reason)
    assert (paid.worker_id, paid.assignment_id) == (work.worker_id, work.assignment_id)


def test_the_same_bonus_from_many_threads_is_paid_once(orders: Orders) -> None:
    work = orders.work(max_assignments=1)
    order = orders.bonus(work)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(orders.crowd.bonus, [order] * 6))
    assert len(list(orders.crowd.bonuses(hit_id=work.hit_id))) == 1
    assert orders.crowd.balance() == FUNDS - 30 - 180


def test_all_pages_of_bonuses_are_listed_with_their_keys(orders: Orders) -> None:
    work = orders.work()
    sent = [orders.bonus(work, cents=1) for _ in range(101)]
    for order in sent:
        orders.crowd.bonus(order)
    assert {one.key for one in orders.crowd.bonuses(hit_id=work.hit_id)} == {one.token.key for one in sent}


def test_an_expired_bonus_token_is_not_sent(stage: Stage, orders: Orders) -> None:
    work = orders.work()
    order = orders.bonus(work)
    stage.wait(timedelta(hours=24))
    with pytest.raises(TokenExpired):
        orders.crowd.bonus(order)
    with pytest.raises(TokenMissing):
        orders.crowd.bonus(orders.bonus(work, token=Token("", stage.now())))
    assert list(orders.crowd.bonuses(hit_id=work.hit_id)) == []


@pytest.mark.parametrize("cents", [0, -5])
def test_a_bonus_of_zero_is_refused(orders: Orders, cents: int) -> None:
    work = orders.work()
    with pytest.raises(CrowdRefused):
        orders.crowd.bonus(orders.bonus(work, cents=cents))
    assert list(orders.crowd.bonuses(hit_id=work.hit_id)) == []


def test_a_bonus_for_another_workers_assignment_is_refused(stage: Stage, orders: Orders) -> None:
    work = orders.work()
    with pytest.raises(CrowdRefused):
        orders.crowd.bonus(orders.bonus(work, worker_id=stage.worker()))
    assert list(orders.crowd.bonuses(hit_id=work.hit_id)) == []


def test_a_bonus_that_the_balance_does_not_cover_is_refused(orders: Orders) -> None:
    work = orders.work(max_assignments=1)
    with pytest.raises(InsufficientFunds):
        orders.crowd.bonus(orders.bonus(work, cents=FUNDS))
    assert orders.crowd.balance() == FUNDS - 30


def test_bonuses_are_listed_for_one_hit_or_assignment(orders: Orders) -> None:
    with pytest.raises(CrowdRefused):
        orders.crowd.bonuses()
    with pytest.raises(CrowdRefused):
        orders.crowd.bonuses(hit_id="3A", assignment_id="3B")
