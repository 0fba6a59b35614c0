"""A running round's budget can be changed, within the committed money and the task's budget."""

import pytest
from sqlalchemy import select

from round_manager.errors import BudgetError, RoundAlreadyClosed
from round_manager.models import AuditEntry, Round, RoundStatus, Task
from round_manager.money.budget import set_round_budget
from tests.campaign import OWNER, Campaign


def set_to(campaign: Campaign, cents: int) -> None:
    with campaign.store.write() as session:
        task, round = session.get_one(Task, campaign.task.id), session.get_one(Round, campaign.round_id)
        set_round_budget(session, task, round, cents, actor=OWNER, reason="more money", now=campaign.now)


def test_a_raised_budget_can_be_spent_and_the_change_is_audited(campaign: Campaign) -> None:
    campaign.plan_hits(1)
    bound = campaign.figures().reserved_cents
    set_to(campaign, bound)
    with pytest.raises(BudgetError):
        campaign.plan_hits(1)
    set_to(campaign, 2 * bound)
    campaign.plan_hits(1)
    with campaign.store.read() as session:
        last = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc())).first()
    assert last is not None
    assert (last.action, last.round_id, last.after) == (
        "changed the budget",
        campaign.round_id,
        {"budget_cents": 2 * bound},
    )
    campaign.check_ledger()


def test_a_budget_is_limited_by_committed_money_and_the_tasks_budget(campaign: Campaign) -> None:
    campaign.plan_hits(1)
    bound = campaign.figures().reserved_cents
    with pytest.raises(BudgetError):
        set_to(campaign, bound - 1)
    with pytest.raises(BudgetError):
        set_to(campaign, campaign.task.budget_cents + 1)


def test_a_closed_round_is_fixed(campaign: Campaign) -> None:
    now = campaign.now
    with campaign.store.write() as session:
        round = session.get_one(Round, campaign.round_id)
        round.status, round.validating_at = RoundStatus.VALIDATING, now
        session.flush()
        round.status, round.closed_at = RoundStatus.CLOSED, now
    with pytest.raises(RoundAlreadyClosed):
        set_to(campaign, 100_00)
