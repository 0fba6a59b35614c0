"""Payments: sends what is owed, and makes every payment once.

An entry is marked as sent, and committed, before the marketplace is called; its key is the call's token. The answer
settles it. Without an answer it stays sent, and the reconciler looks on the marketplace before it is sent again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from common.clock import Clock
from common.progress import NoProgress, Progress
from common.text import dollars
from crowd.errors import CrowdAccessDenied, CrowdError, CrowdRefused, InsufficientFunds, NotOnCrowd
from crowd.port import BonusOrder, Crowd, Token
from round_manager.crowd.calls import THREADS, Calls, check_account, sending
from round_manager.crowd.collection import finish
from round_manager.crowd.confirmation import mark_approved
from round_manager.database.store import Store
from round_manager.models import Assignment, AssignmentStatus, EntryKind, EntryState, Hit, LedgerEntry, Worker
from round_manager.money.bonuses import FOOLED
from round_manager.money.ledger import confirm, hold, refuse, renew, send, still_in_doubt

BATCH = 64
PAUSE = timedelta(minutes=5)
BONUSES = (EntryKind.BONUS, EntryKind.TOP_UP, EntryKind.EXTRA)
REASONS = {
    EntryKind.BONUS: FOOLED,
    EntryKind.TOP_UP: "This work took longer than we thought: this brings your pay to our minimum for an hour.",
    EntryKind.EXTRA: "Thank you for your work.",
}


@dataclass(frozen=True)
class Payment:
    """A ledger entry with the parameters of its call."""

    entry_id: int
    key: str
    kind: EntryKind
    cents: int
    sent_at: datetime
    reason: str
    assignment_id: int
    hit_id: int
    external_assignment: str
    external_worker: str
    # The assignment was rejected, and the rejection is being overridden.
    overrides: bool


@dataclass
class PaymentResult:
    """What was paid; `problem` says why it stopped early, `waiting` how many payments are left."""

    rewards: int = 0
    bonuses: int = 0
    cents: int = 0
    refused: int = 0
    held: int = 0
    in_doubt: int = 0
    waiting: int = 0
    problem: str = ""


class PaymentSender:
    """Pays what is owed on one marketplace. If the process is killed and run again, every entry is still paid once."""

    def __init__(self, store: Store, crowd: Crowd, clock: Clock, *, actor: str, threads: int = THREADS) -> None:
        self._store = store
        self._crowd = crowd
        self._clock = clock
        self.actor = actor
        self._threads = threads

    def run(self, progress: Progress | None = None) -> PaymentResult:
        """Pay rewards first, which the marketplace has set aside; then bonuses, if the account covers them."""
        shown = progress or NoProgress()
        outcome = PaymentResult()
        with sending(self._store, self._crowd, shown):
            try:
                self._pay_all(outcome, shown)
            except CrowdError as error:
                outcome.problem = str(error)
        outcome.waiting = self._count((EntryKind.REWARD, *BONUSES))
        return outcome

    def _pay_all(self, outcome: PaymentResult, progress: Progress) -> None:
        if self._count((EntryKind.REWARD, *BONUSES)):
            check_account(self._store, self._crowd, now=self._clock.now())
        self._pay((EntryKind.REWARD,), "approving work", outcome, progress)
        if not outcome.problem and (owed := self._total(BONUSES)):
            available = self._crowd.balance()
            if available < owed:
                outcome.problem = f"the account has {dollars(available)}, and bonuses need {dollars(owed)}; add funds"
            else:
                self._pay(BONUSES, "paying bonuses", outcome, progress)

    def again(self, payments: Sequence[Payment]) -> PaymentResult:
        """Send payments again that did not arrive. The caller has looked for them, and their tokens still protect."""
        outcome = PaymentResult()
        with Calls(self._threads) as calls:
            self._record(payments, calls.make(payments, self._send), outcome)
        return outcome

    def settle(self, session: Session, payments: Sequence[Payment], *, now: datetime) -> None:
        """Record that the marketplace has made these payments."""
        confirm(session, [one.entry_id for one in payments], now=now)
        rewards = [one for one in payments if one.kind is EntryKind.REWARD]
        works = select(Assignment).where(Assignment.id.in_([one.assignment_id for one in rewards]))
        for work in session.scalars(works):
            mark_approved(work, self.actor, now=now)
        session.flush()
        hits = session.scalars(select(Hit).where(Hit.id.in_({one.hit_id for one in rewards}))).all()
        # A HIT with all its work decided is finished; this needs no call.
        finish(session, hits, (), now=now)

    def _pay(self, kinds: Sequence[EntryKind], what: str, outcome: PaymentResult, progress: Progress) -> None:
        progress.start(self._count(kinds), what)
        with Calls(self._threads) as calls:
            while not outcome.problem and (batch := self._take(kinds)):
                self._record(batch, calls.make(batch, self._send), outcome)
                progress.advance(len(batch))
        progress.finish()

    def _owed(self, kinds: Sequence[EntryKind]) -> tuple[ColumnElement[bool], ...]:
        due = or_(LedgerEntry.next_try_at.is_(None), LedgerEntry.next_try_at <= self._clock.now())
        here = LedgerEntry.hit_id.in_(select(Hit.id).where(Hit.marketplace == self._crowd.name))
        return LedgerEntry.state == EntryState.OWED, LedgerEntry.kind.in_(kinds), due, here

    def _count(self, kinds: Sequence[EntryKind]) -> int:
        with self._store.read() as session:
            return session.scalar(select(func.count()).select_from(LedgerEntry).where(*self._owed(kinds))) or 0

    def _total(self, kinds: Sequence[EntryKind]) -> int:
        total = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents)
        with self._store.read() as session:
            return int(session.scalar(select(total).where(*self._owed(kinds))) or 0)

    def _take(self, kinds: Sequence[EntryKind]) -> list[Payment]:
        """Mark the next entries as sent and return them; only the marketplace then knows whether they were paid."""
        with self._store.write() as session:
            wanted = select(LedgerEntry).where(*self._owed(kinds)).order_by(LedgerEntry.id).limit(BATCH)
            entries = session.scalars(wanted.with_for_update(skip_locked=True)).all()
            taken = send(session, entries, now=self._clock.now())
            return payments_of(session, [entry.id for entry in taken])

    def _send(self, one: Payment) -> None:
        if one.kind is not EntryKind.REWARD:
            token = Token(one.key, one.sent_at)
            self._crowd.bonus(BonusOrder(token, one.external_worker, one.external_assignment, one.cents, one.reason))
        elif one.overrides:
            self._crowd.override_rejection(one.external_assignment)
        else:
            self._crowd.approve(one.external_assignment)

    def _record(
        self, payments: Sequence[Payment], answers: Sequence[CrowdError | None], outcome: PaymentResult
    ) -> None:
        now = self._clock.now()
        done = [one for one, answer in zip(payments, answers, strict=True) if answer is None]
        with self._store.write() as session:
            self.settle(session, done, now=now)
            for one, answer in zip(payments, answers, strict=True):
                if answer is not None:
                    self._record_error(session, one, answer, outcome, now)
        outcome.rewards += sum(one.kind is EntryKind.REWARD for one in done)
        outcome.bonuses += sum(one.kind is not EntryKind.REWARD for one in done)
        outcome.cents += sum(one.cents for one in done)

    def _record_error(
        self, session: Session, one: Payment, error: CrowdError, outcome: PaymentResult, now: datetime
    ) -> None:
        if isinstance(error, InsufficientFunds | CrowdAccessDenied):
            # A refusal that can pass, and not the entry's fault: the debt continues under a new token.
            entry = session.get_one(LedgerEntry, one.entry_id)
            if entry.state is EntryState.SENT:
                renew(session, entry, str(error), now=now, not_before=now + PAUSE)
            outcome.problem = str(error)
        elif isinstance(error, NotOnCrowd):
            # The assignment existed when it was collected, so a person must look.
            hold(session, one.entry_id, f"{error}; look there, then decide", now=now)
            outcome.held += 1
        elif isinstance(error, CrowdRefused):
            refuse(session, one.entry_id, str(error), now=now)
            outcome.refused += 1
        else:
            still_in_doubt(session, one.entry_id, str(error), next_try_at=now)
            outcome.in_doubt += 1
            # The first failure is the cause; later calls were not sent.
            outcome.problem = outcome.problem or str(error)


def payments_of(session: Session, entry_ids: Sequence[int]) -> list[Payment]:
    """Return entries with the parameters of their calls, in the order of the ledger."""
    rows = session.execute(
        select(LedgerEntry, Assignment, Worker.external_id)
        .join(Assignment, Assignment.id == LedgerEntry.assignment_id)
        .join(Worker, Worker.id == LedgerEntry.worker_id)
        .where(LedgerEntry.id.in_(entry_ids), LedgerEntry.sent_at.is_not(None))
        .order_by(LedgerEntry.id)
    ).all()
    return [_payment(entry, work, worker) for entry, work, worker in rows]


def _payment(entry: LedgerEntry, work: Assignment, worker: str) -> Payment:
    if entry.sent_at is None:
        raise ValueError(f"entry {entry.key} was never sent")
    return Payment(
        entry_id=entry.id,
        key=entry.key,
        kind=entry.kind,
        cents=entry.cents,
        sent_at=entry.sent_at,
        reason=entry.reason or REASONS.get(entry.kind, ""),
        assignment_id=work.id,
        hit_id=entry.hit_id,
        external_assignment=work.external_id,
        external_worker=worker,
        overrides=work.status is AssignmentStatus.REJECTED,
    )
