"""The life of a round: one step at a time, each one audited, none taken back.

    draft ──► open ──► validating ──► closed
               open: people write and check          validating: what was written is checked, paid and decided

Opening is rounds.open_round. Whoever moves a round takes its task's turn first, as those do who hand out its work: what
was handed out before stays good until its deadline, and nothing is handed out after. The same step again changes
nothing, so two processes that see the same thing due do no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from common.money import dollars
from round_manager import audit
from round_manager.crowd.hit_planning import cancel_creation
from round_manager.errors import RoundError
from round_manager.loop.supply_facts import tallies_of
from round_manager.loop.waiting import (
    Waiting,
    is_writing,
    still_to_come,
    verified_fooling,
    waiting,
    when,
)
from round_manager.models import AuditEntry, EntryState, LedgerEntry, Round, RoundStatus, Task
from round_manager.money.budget import figures
from round_manager.specs import spec_of
from round_manager.tasks.affordability import free_cents, least_cents, planning_fees
from round_manager.tasks.rounds import LIVE, NOT_COUNTED
from round_manager.work.leases import lock_task


@dataclass(frozen=True)
class Due:
    """The step that a round should take now, and why."""

    to: RoundStatus
    why: str


def due(session: Session, round: Round, *, now: datetime) -> Due | None:
    """The step that the round should take by itself, if there is one; a paused round takes none."""
    if round.paused_at is not None:
        return None
    if round.status is RoundStatus.OPEN:
        why = _end_of_writing(session, round, now)
        return Due(RoundStatus.VALIDATING, why) if why else None
    if round.status is RoundStatus.VALIDATING and not waiting(session, round, now=now):
        return Due(RoundStatus.CLOSED, "nothing more can come")
    return None


def take_due(session: Session, round: Round, *, who: str, now: datetime) -> Due | None:
    """The step that the round should take by itself, taken; None where there is none now that it is our turn."""
    # Its owner may have paused it since anybody looked.
    held = _hold(session, round)
    step = due(session, held, now=now)
    if step is not None:
        change = begin_validating if step.to is RoundStatus.VALIDATING else close_round
        change(session, held, who=who, why=step.why, now=now)
    return step


def begin_validating(session: Session, round: Round, *, who: str, why: str, now: datetime) -> Round:
    """The round, in which nothing new is written from now on; HITs to create that were never sent are given up.

    What workers have in hand is taken, checked and paid until its deadline. A pause ends with this.
    """
    held = _hold(session, round)
    if held.status is RoundStatus.DRAFT:
        raise RoundError(
            f"{_called(session, held)} is a draft, and there is nothing in it to close; {_open(session, held)}"
        )
    if held.status is not RoundStatus.OPEN:
        return held
    _end_pause(session, held, who=who, why=why, now=now)
    # Of two machines, the one that moves the round may be behind the one that opened it.
    held.status, held.validating_at = RoundStatus.VALIDATING, max(now, held.opened_at or now)
    session.flush()
    cancel_creation(session, held, who=who, why=why, now=now)
    _note(session, "began validating", held, RoundStatus.OPEN, who=who, why=why, now=now)
    return held


def close_round(session: Session, round: Round, *, who: str, why: str, now: datetime, give_up: bool = False) -> Round:
    """The round, closed for good, or a RoundError that tells what it waits for; the money that it kept is free again.

    With `give_up` it does not wait for votes or for the owner's word on flags, and those examples stay undecided; nor
    for people in Label Studio.
    """
    held = _hold(session, round)
    if held.status is RoundStatus.CLOSED:
        return held
    if held.status is not RoundStatus.VALIDATING:
        cure = "begin to validate it first" if held.status is RoundStatus.OPEN else _open(session, held)
        raise RoundError(f"{_called(session, held)} is {_status(held)}, and only a validating one closes; {cure}")
    left = Waiting(tuple(still_to_come(session, held, now=now, give_up=give_up)))
    if left:
        raise RoundError(f"{_called(session, held)} cannot be closed yet: {left}")
    _end_pause(session, held, who=who, why=why, now=now)
    _release(session, held, now)
    held.status, held.closed_at = RoundStatus.CLOSED, max(now, held.validating_at or now)
    session.flush()
    _note(session, "closed", held, RoundStatus.VALIDATING, who=who, why=why, now=now)
    return held


def pause(session: Session, round: Round, *, who: str, why: str, now: datetime) -> Round:
    """The round, of which nothing new is handed out or posted until it goes on; what people have begun they finish."""
    held = _hold(session, round)
    _check_live(session, held, "paused")
    if held.paused_at is None:
        held.paused_at = now
        session.flush()
        audit.note(session, "paused", held, who=who, why=why, now=now, of=held)
    return held


def resume(session: Session, round: Round, *, who: str, why: str, now: datetime) -> Round:
    """The round, which goes on where it was paused; its date stays what it was."""
    held = _hold(session, round)
    _check_live(session, held, "resumed")
    _end_pause(session, held, who=who, why=why, now=now)
    return held


def history(session: Session, round: Round) -> Sequence[AuditEntry]:
    """Everything that was done to the round itself, the first thing first."""
    noted = select(AuditEntry).where(AuditEntry.subject == Round.__tablename__, AuditEntry.subject_id == round.id)
    return session.scalars(noted.order_by(AuditEntry.id)).all()


def _end_pause(session: Session, round: Round, *, who: str, why: str, now: datetime) -> None:
    if round.paused_at is not None:
        before = {"paused_at": round.paused_at.isoformat()}
        round.paused_at = None
        session.flush()
        audit.note(session, "resumed", round, who=who, why=why, now=now, of=round, before=before)


def _end_of_writing(session: Session, round: Round, now: datetime) -> str:
    found = verified_fooling(session, round)
    if found >= round.target_fooling:
        return f"its target is reached: {found:,} validated fooling examples of {round.target_fooling:,}"
    if round.closes_at is not None and round.closes_at <= now:
        return f"its time was over on {when(round.closes_at)}"
    least, free = least_cents(spec_of(round), planning_fees(session)), free_cents(session, round)
    # Money that is bound in HITs may come back, and what they bring may still reach the target.
    if free < least and not is_writing(session, round):
        left = f"{dollars(free)} left ({figures(session, round)})"
        return f"its budget is used up: {left}, and one more HIT to create with its validation costs {dollars(least)}"
    return ""


def _hold(session: Session, round: Round) -> Round:
    """The round as it is now, and nobody else's to move until the transaction ends."""
    # The round before its task, as money does: two who take them in another order would wait for each other for ever.
    held = session.get_one(Round, round.id, with_for_update=True, populate_existing=True)
    lock_task(session, round.task_id)
    return held


def _check_live(session: Session, round: Round, done: str) -> None:
    if round.status not in LIVE:
        text = f"{_called(session, round)} is {_status(round)}"
        raise RoundError(f"{text}; only a round that is open or validating is {done}")


def _release(session: Session, round: Round, now: datetime) -> None:
    """What was reserved for bonuses that were not earned is the budget's again."""
    unused = update(LedgerEntry).where(LedgerEntry.round_id == round.id, LedgerEntry.state == EntryState.RESERVED)
    session.execute(unused.values(state=EntryState.RELEASED, settled_at=now))


def _called(session: Session, round: Round) -> str:
    return f"round {round.number} of {session.get_one(Task, round.task_id).name}"


def _status(round: Round) -> str:
    return "a draft" if round.status is RoundStatus.DRAFT else round.status.value


def _open(session: Session, round: Round) -> str:
    return f"`outfox round open {session.get_one(Task, round.task_id).name}` opens it"


def _note(session: Session, action: str, round: Round, was: RoundStatus, *, who: str, why: str, now: datetime) -> None:
    before, after = {"status": was.value}, {"status": round.status.value}
    audit.note(session, action, round, who=who, why=why, now=now, of=round, before=before, after=after)
    session.flush()


def was_called_off(session: Session, round: Round) -> bool:
    """Whether nothing was collected in a round that ended before its date.

    Its target it cannot have reached, and a budget that nothing came of is no reason to spend the next one by itself.
    """
    if round.validating_at is None or (round.closes_at is not None and round.closes_at <= round.validating_at):
        return False
    return not any(number for (status, _), number in tallies_of(session, round).items() if status not in NOT_COUNTED)


def called_off_text(round: Round, task: str) -> str:
    """What to say of it."""
    cure = f"`outfox round open {task}` opens the next when you want it"
    return f"round {round.number} was closed with nothing in it; {cure}"
