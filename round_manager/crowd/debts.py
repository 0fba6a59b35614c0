"""What is reserved, owed and on its way to workers of a marketplace, summed, and the bonus that is owed only once."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from common.money import dollars
from crowd.port import Crowd
from round_manager.crowd.reviewing import LONGEST_REASON, give_bonus
from round_manager.crowd.wages import GroupWage
from round_manager.errors import CrowdWorkError
from round_manager.models import Assignment, EntryKind, EntryState, Hit, LedgerEntry, Round, Task
from round_manager.money.budget import figures


@dataclass(frozen=True)
class TaskMoney:
    """A task's money on one marketplace, fees included; what was sent and not settled is `in_doubt`."""

    task: str
    budget_cents: int
    reserved_cents: int = 0
    owed_rewards_cents: int = 0
    owed_bonuses_cents: int = 0
    in_doubt_cents: int = 0
    paid_cents: int = 0

    @property
    def owed_cents(self) -> int:
        """What workers are owed, and its fees."""
        return self.owed_rewards_cents + self.owed_bonuses_cents


@dataclass(frozen=True)
class Owed:
    """So many payments of a kind that are owed and not sent."""

    kind: EntryKind
    count: int
    cents: int
    fee_cents: int


def money_by_task(session: Session, marketplace: str) -> list[TaskMoney]:
    """Every task's money there, by the tasks' names."""
    total = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents)
    wanted = (
        select(LedgerEntry.task_id, LedgerEntry.state, LedgerEntry.kind, total)
        .join(Hit, Hit.id == LedgerEntry.hit_id)
        .where(Hit.marketplace == marketplace)
        .group_by(LedgerEntry.task_id, LedgerEntry.state, LedgerEntry.kind)
    )
    sums: dict[int, dict[str, int]] = {}
    for task_id, state, kind, cents in session.execute(wanted):
        place = _place(state, kind)
        if place:
            held = sums.setdefault(task_id, {})
            held[place] = held.get(place, 0) + int(cents)
    tasks = session.scalars(select(Task).order_by(Task.name))
    return [TaskMoney(task.name, task.budget_cents, **sums.get(task.id, {})) for task in tasks]


def owed_by_kind(session: Session, marketplace: str) -> list[Owed]:
    """What payday would send, rewards first."""
    wanted = (
        select(LedgerEntry.kind, func.count(), func.sum(LedgerEntry.cents), func.sum(LedgerEntry.fee_cents))
        .join(Hit, Hit.id == LedgerEntry.hit_id)
        .where(Hit.marketplace == marketplace, LedgerEntry.state == EntryState.OWED)
        .group_by(LedgerEntry.kind)
    )
    found = [Owed(kind, count, int(cents), int(fees)) for kind, count, cents, fees in session.execute(wanted)]
    order = list(EntryKind)
    return sorted(found, key=lambda one: order.index(one.kind))


def new_top_ups(session: Session, wages: Iterable[GroupWage]) -> dict[str, list[int]]:
    """By HIT group, the cents of each top-up that would be owed now; an assignment that had one gets no second."""
    had = set(
        session.scalars(
            select(LedgerEntry.assignment_id).where(
                LedgerEntry.kind == EntryKind.TOP_UP, LedgerEntry.state != EntryState.REFUSED
            )
        )
    )
    return {
        wage.group_id: [cents for assignment, cents in wage.top_ups().items() if assignment not in had]
        for wage in wages
    }


def give_bonus_once(
    session: Session, crowd: Crowd, work: Assignment, cents: int, reason: str, *, who: str, now: datetime
) -> LedgerEntry:
    """Owes a bonus that a person decided to give, unless the same one was given before; of two at once, one is owed."""
    _lock_budget(session, work)
    before = _same_bonus(session, work, cents, reason)
    if before is not None:
        told = (
            f"{dollars(before.cents)}, {before.state.value}, {before.owed_at or before.reserved_at:%Y-%m-%d %H:%M} UTC"
        )
        cure = "`outfox crowd pay` sends what is owed, --again gives another one"
        raise CrowdWorkError(f"{work.external_id} has this bonus already: {told}; {cure}")
    return give_bonus(session, crowd, work, cents, reason, who=who, now=now)


def reward_cost(session: Session, work: Assignment) -> int:
    """What the reward of that work costs, fee included."""
    any_reward = select(LedgerEntry.cents + LedgerEntry.fee_cents).where(
        LedgerEntry.hit_id == work.hit_id, LedgerEntry.kind == EntryKind.REWARD
    )
    return session.scalar(any_reward.limit(1)) or 0


def _lock_budget(session: Session, work: Assignment) -> None:
    """Until we are done, nobody gives another bonus for that work."""
    # The budget's row and not the work's own: whoever moves money holds it anyway, and the work's row is locked before
    # it by those who collect and after it by those who pay, so that waiting for both could be for ever.
    hit = session.get_one(Hit, work.hit_id)
    owner = session.get_one(Task, hit.task_id) if hit.round_id is None else session.get_one(Round, hit.round_id)
    figures(session, owner, lock=True)


def _same_bonus(session: Session, work: Assignment, cents: int, reason: str) -> LedgerEntry | None:
    """A bonus of that amount for that reason, which a person gave for the same work before."""
    wanted = select(LedgerEntry).where(
        LedgerEntry.assignment_id == work.id,
        LedgerEntry.kind == EntryKind.EXTRA,
        LedgerEntry.cents == cents,
        LedgerEntry.reason == reason.strip()[:LONGEST_REASON],
        LedgerEntry.state != EntryState.REFUSED,
    )
    return session.scalar(wanted.order_by(LedgerEntry.id.desc()).limit(1))


def _place(state: EntryState, kind: EntryKind) -> str:
    if state is EntryState.OWED:
        return "owed_rewards_cents" if kind is EntryKind.REWARD else "owed_bonuses_cents"
    names = {
        EntryState.RESERVED: "reserved_cents",
        EntryState.SENT: "in_doubt_cents",
        EntryState.CONFIRMED: "paid_cents",
    }
    return names.get(state, "")
