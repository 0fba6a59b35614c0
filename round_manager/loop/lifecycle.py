"""The states of a round, and how it moves from one to the next.

    draft ──► open ──► validating ──► closed
               open: workers write and validate      validating: examples are validated, decided and paid

Opening is `tasks.rounds.open_round`. Every move is audited and none can be undone. A move locks the task, as handing
out work does: work that was handed out before stays valid until its deadline, and none is handed out afterwards.
Repeating a move changes nothing, so two processes may try the same one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import dollars
from round_manager import audit
from round_manager.crowd.hit_planning import cancel_hits
from round_manager.errors import RoundAlreadyClosed, RoundNotOpen, RoundNotReady
from round_manager.loop.waiting import (
    WaitReason,
    is_writing,
    reasons_not_to_close,
    verified_fooling,
    waiting,
    when,
)
from round_manager.models import AuditEntry, EntryState, Hit, HitKind, LedgerEntry, Round, RoundStatus, Task, spec_of
from round_manager.money.budget import figures, free_cents
from round_manager.money.prices import least_cents, planning_fees
from round_manager.tasks.rounds import LIVE, NOT_COUNTED, tallies_of
from round_manager.work.leases import lock_task


@dataclass(frozen=True)
class Due:
    """The move that a round should make now or has made, and the reason."""

    number: int
    to: RoundStatus
    reason: str


def due(session: Session, round: Round, *, now: datetime) -> Due | None:
    """Return the move that the round should make without its owner; None if there is none or it is paused."""
    if round.paused_at is not None:
        return None
    if round.status is RoundStatus.OPEN:
        reason = _end_of_writing(session, round, now)
        return Due(round.number, RoundStatus.VALIDATING, reason) if reason else None
    if round.status is RoundStatus.VALIDATING and not waiting(session, round, now=now):
        return Due(round.number, RoundStatus.CLOSED, "no more work can arrive")
    return None


def take_due(session: Session, round: Round, *, actor: str, now: datetime) -> Due | None:
    """Make the move that is due and return it; None if there is none once the round is locked."""
    # The owner may have paused the round in the meantime.
    held = _lock(session, round)
    move = due(session, held, now=now)
    if move is not None:
        change = begin_validating if move.to is RoundStatus.VALIDATING else close_round
        change(session, held, actor=actor, reason=move.reason, now=now)
    return move


def begin_validating(session: Session, round: Round, *, actor: str, reason: str, now: datetime) -> Round:
    """End writing in an open round; HITs to create that were never posted are cancelled, and a pause ends.

    Work that is in progress is accepted, validated and paid until its deadline.
    """
    held = _lock(session, round)
    if held.status is RoundStatus.DRAFT:
        raise RoundNotOpen(f"{_name(session, held)} is a draft with nothing to close", hint=_open(session, held))
    if held.status is not RoundStatus.OPEN:
        return held
    _end_pause(session, held, actor=actor, reason=reason, now=now)
    # The clock of this machine may be behind that of the machine that opened the round.
    held.status, held.validating_at = RoundStatus.VALIDATING, max(now, held.opened_at or now)
    session.flush()
    # On every marketplace.
    cancel_hits(session, Hit.round_id == held.id, Hit.kind == HitKind.CREATE, actor=actor, reason=reason, now=now)
    _note(session, "began validating", held, RoundStatus.OPEN, actor=actor, reason=reason, now=now)
    return held


def close_round(
    session: Session, round: Round, *, actor: str, reason: str, now: datetime, force: bool = False
) -> Round:
    """Close a validating round for good and release the money that it still reserved.

    Raise RoundNotReady if work can still arrive. `force` skips votes, decisions on flags and Label Studio users; the
    examples concerned stay undecided.
    """
    held = _lock(session, round)
    if held.status is RoundStatus.CLOSED:
        return held
    if held.status is not RoundStatus.VALIDATING:
        hint = None if held.status is RoundStatus.OPEN else _open(session, held)
        raise RoundNotReady(f"{_name(session, held)} is {_status(held)}; only a validating round closes", hint=hint)
    left = reasons_not_to_close(session, held, now=now, force=force)
    if left:
        hint = next((one.hint for one in left if one.hint), None)
        texts = "; ".join(one.text for one in left)
        raise RoundNotReady(f"{_name(session, held)} cannot be closed yet: {texts}", hint=hint)
    _end_pause(session, held, actor=actor, reason=reason, now=now)
    _release(session, held, now)
    held.status, held.closed_at = RoundStatus.CLOSED, max(now, held.validating_at or now)
    session.flush()
    _note(session, "closed", held, RoundStatus.VALIDATING, actor=actor, reason=reason, now=now)
    return held


def pause(session: Session, round: Round, *, actor: str, reason: str, now: datetime) -> Round:
    """Hand out and post nothing new until the round is resumed; work that is in progress can be finished."""
    held = _lock(session, round)
    _check_live(session, held)
    if held.paused_at is None:
        held.paused_at = now
        session.flush()
        audit.note(session, "paused", held, actor=actor, reason=reason, now=now, of=held)
    return held


def resume(session: Session, round: Round, *, actor: str, reason: str, now: datetime) -> Round:
    """End a pause; the closing date of the round does not change."""
    held = _lock(session, round)
    _check_live(session, held)
    _end_pause(session, held, actor=actor, reason=reason, now=now)
    return held


def history(session: Session, round: Round) -> Sequence[AuditEntry]:
    """Return the audit entries about the round itself, oldest first."""
    noted = select(AuditEntry).where(AuditEntry.subject == Round.__tablename__, AuditEntry.subject_id == round.id)
    return session.scalars(noted.order_by(AuditEntry.id)).all()


def ended_empty(session: Session, round: Round) -> bool:
    """Return whether a round ended before its date with no examples: the next one is then the owner's to open.

    Such a round cannot have reached its target. After a budget without results, the owner decides about the next one.
    """
    if round.validating_at is None or (round.closes_at is not None and round.closes_at <= round.validating_at):
        return False
    return not any(number for (status, _), number in tallies_of(session, round).items() if status not in NOT_COUNTED)


def empty_round_reason(round: Round, task: str) -> WaitReason:
    """Return why no round follows a round that ended empty."""
    text = f"round {round.number} was closed with no examples, so the next one does not open automatically"
    return WaitReason(text, Hint("open_round", task=task))


def _end_pause(session: Session, round: Round, *, actor: str, reason: str, now: datetime) -> None:
    if round.paused_at is not None:
        before = {"paused_at": round.paused_at.isoformat()}
        round.paused_at = None
        session.flush()
        audit.note(session, "resumed", round, actor=actor, reason=reason, now=now, of=round, before=before)


def _end_of_writing(session: Session, round: Round, now: datetime) -> str:
    found = verified_fooling(session, round)
    if found >= round.target_fooling:
        return f"the target is reached: {found:,} validated fooling examples of {round.target_fooling:,}"
    if round.closes_at is not None and round.closes_at <= now:
        return f"its time was over on {when(round.closes_at)}"
    if round.in_house:
        return ""
    least, free = least_cents(spec_of(round), planning_fees(session)), free_cents(session, round)
    # Money that is reserved for HITs may be released, and their examples may still reach the target.
    if free < least and not is_writing(session, round):
        left = f"{dollars(free)} left ({figures(session, round)})"
        return f"the budget is used up: {left}, and one more HIT to create with its validation costs {dollars(least)}"
    return ""


def _lock(session: Session, round: Round) -> Round:
    """Return the current round, locked until the transaction ends."""
    # The round before its task, in the same order as payments: another order could deadlock.
    held = session.get_one(Round, round.id, with_for_update=True, populate_existing=True)
    lock_task(session, round.task_id)
    return held


def _check_live(session: Session, round: Round) -> None:
    if round.status is RoundStatus.DRAFT:
        raise RoundNotOpen(f"{_name(session, round)} is a draft", hint=_open(session, round))
    if round.status not in LIVE:
        raise RoundAlreadyClosed(
            f"{_name(session, round)} is {round.status.value}; only an open or validating round can pause"
        )


def _release(session: Session, round: Round, now: datetime) -> None:
    """Return what was reserved for bonuses that were not earned to the budget."""
    unused = update(LedgerEntry).where(LedgerEntry.round_id == round.id, LedgerEntry.state == EntryState.RESERVED)
    session.execute(unused.values(state=EntryState.RELEASED, settled_at=now))


def _name(session: Session, round: Round) -> str:
    return f"round {round.number} of {session.get_one(Task, round.task_id).name}"


def _status(round: Round) -> str:
    return "a draft" if round.status is RoundStatus.DRAFT else round.status.value


def _open(session: Session, round: Round) -> Hint:
    return Hint("open_round", task=session.get_one(Task, round.task_id).name)


def _note(
    session: Session, action: str, round: Round, was: RoundStatus, *, actor: str, reason: str, now: datetime
) -> None:
    before, after = {"status": was.value}, {"status": round.status.value}
    audit.note(session, action, round, actor=actor, reason=reason, now=now, of=round, before=before, after=after)
    session.flush()
