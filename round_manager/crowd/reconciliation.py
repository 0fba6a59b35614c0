"""Reconciliation: looks up what was sent without an answer, before anything is sent again.

| the marketplace | the token | then |
|---|---|---|
| has it | | it is settled |
| does not have a HIT that its round no longer takes | | it is cancelled, once no call can be under way |
| does not have a HIT of a paused round | | the same, but it is sent when the round resumes |
| does not have it | still protects | it is sent again, with the same token |
| does not have it | has expired | it is held for a person |
| has it, for another amount or worker | | it is held for a person |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.clock import Clock
from common.errors import Hint
from common.progress import NoProgress, Progress
from common.text import count
from crowd.errors import CrowdError, NotOnCrowd
from crowd.port import AssignmentState, Crowd, PostedHit, Token
from round_manager import audit
from round_manager.crowd.calls import check_account, sending
from round_manager.crowd.collection import UNKNOWN
from round_manager.crowd.hit_planning import cancel_hits, is_past_posting, may_be_posted
from round_manager.crowd.hit_posting import HitPoster
from round_manager.crowd.payments import Payment, PaymentSender, payments_of
from round_manager.database.store import Store
from round_manager.errors import NothingHeld
from round_manager.models import EntryKind, EntryState, Hit, HitStatus, LedgerEntry
from round_manager.money.ledger import confirm, hold, refuse, release, renew

# A call of a process that died has arrived by then, or never will; its own retries end much sooner.
TIME_TO_ARRIVE = timedelta(minutes=5)
NOT_NEEDED = "its round no longer takes such HITs, and the marketplace does not have it"
TOO_LATE = "the marketplace does not list it, and its token has expired; look there, then decide"


@dataclass
class ReconciliationResult:
    """What happened to HITs and payments in doubt; `problem` says why reconciliation stopped early."""

    found: int = 0
    sent_again: int = 0
    held: int = 0
    refused: int = 0
    given_up: int = 0
    in_doubt: int = 0
    problem: str = ""


class Reconciler:
    """Settles what is in doubt on one marketplace; `poster` and `payments` send again."""

    def __init__(self, store: Store, crowd: Crowd, clock: Clock, poster: HitPoster, payments: PaymentSender) -> None:
        self._store = store
        self._crowd = crowd
        self._clock = clock
        self._poster = poster
        self._sender = payments

    def run(self, progress: Progress | None = None) -> ReconciliationResult:
        """Look up all HITs and payments that were sent without an answer."""
        shown = progress or NoProgress()
        outcome = ReconciliationResult()
        with sending(self._store, self._crowd, shown):
            try:
                if self.in_doubt():
                    check_account(self._store, self._crowd, now=self._clock.now())
                self._hits(outcome)
                self._payments(outcome, shown)
            except CrowdError as error:
                outcome.problem = str(error)
        outcome.in_doubt = self.in_doubt()
        return outcome

    def in_doubt(self) -> int:
        """Return how many HITs and payments are in doubt and not held."""
        return len(self._doubtful_hits()) + len(self._doubtful_payments())

    def _doubtful_hits(self) -> list[Hit]:
        wanted = select(Hit).where(
            Hit.marketplace == self._crowd.name, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_not(None)
        )
        with self._store.read() as session:
            return list(session.scalars(wanted.order_by(Hit.id)))

    def _hits(self, outcome: ReconciliationResult) -> None:
        missing = {hit.key: hit for hit in self._doubtful_hits()}
        if not missing:
            return
        found: list[tuple[Hit, PostedHit]] = []
        for posted in self._crowd.hits():
            hit = missing.pop(posted.key, None)
            if hit is not None:
                found.append((hit, posted))
            if not missing:
                break
        now = self._clock.now()
        with self._store.write() as session:
            for hit, posted in found:
                self._poster.adopt(session, session.get_one(Hit, hit.id), posted)
            wanted = self._still_wanted(session, list(missing.values()), outcome, now)
            young = [
                hit
                for hit in wanted
                if hit.sent_at and Token(hit.key, hit.sent_at).protects(now, self._crowd.profile.token_lifetime)
            ]
            old = [hit for hit in wanted if hit not in young]
            for hit in old:
                hit.status, hit.last_error = HitStatus.HELD, TOO_LATE
        sent = self._poster.again(young)
        outcome.found += len(found)
        outcome.held += len(old)
        outcome.sent_again += sent.posted
        outcome.refused += sent.refused
        outcome.problem = outcome.problem or sent.problem

    def _still_wanted(
        self, session: Session, missing: list[Hit], outcome: ReconciliationResult, now: datetime
    ) -> list[Hit]:
        """Return the HITs that their rounds take now; reset or cancel the others once no call can be under way."""
        ours = Hit.id.in_([hit.id for hit in missing])
        wanted = list(session.scalars(select(Hit).where(ours, may_be_posted()).order_by(Hit.id)))
        arrived = select(Hit).where(ours, ~may_be_posted(), Hit.sent_at <= now - TIME_TO_ARRIVE)
        for hit in session.scalars(arrived).all():
            hit.sent_at = None
        session.flush()
        outcome.given_up += cancel_hits(
            session, ours, is_past_posting(), actor=self._sender.actor, reason=NOT_NEEDED, now=now
        )
        return wanted

    def _doubtful_payments(self) -> list[Payment]:
        here = select(Hit.id).where(Hit.marketplace == self._crowd.name)
        wanted = select(LedgerEntry.id).where(
            LedgerEntry.state == EntryState.SENT, LedgerEntry.held_at.is_(None), LedgerEntry.hit_id.in_(here)
        )
        with self._store.read() as session:
            return payments_of(session, session.scalars(wanted).all())

    def _payments(self, outcome: ReconciliationResult, progress: Progress) -> None:
        doubtful = self._doubtful_payments()
        progress.start(len(doubtful), "checking payments on the marketplace")
        missing: list[Payment] = []
        for one in doubtful:
            if self._look(one, outcome):
                missing.append(one)
            progress.advance()
        progress.finish()
        if missing:
            sent = self._sender.again(missing)
            outcome.sent_again += sent.rewards + sent.bonuses
            outcome.refused += sent.refused
            outcome.held += sent.held
            outcome.problem = outcome.problem or sent.problem

    def _look(self, one: Payment, outcome: ReconciliationResult) -> bool:
        """Settle or hold a payment by the marketplace's record; return whether it must be sent again."""
        now = self._clock.now()
        try:
            return self._look_up(one, outcome, now)
        except NotOnCrowd as error:
            self._hold(one, f"{error}; look there, then decide", outcome, now)
            return False

    def _look_up(self, one: Payment, outcome: ReconciliationResult, now: datetime) -> bool:
        if one.kind is EntryKind.REWARD:
            there = self._crowd.assignment(one.external_assignment).state
            if there is AssignmentState.APPROVED:
                self._found([one], outcome, now)
            elif there is AssignmentState.REJECTED and not one.overrides:
                with self._store.write() as session:
                    refuse(session, one.entry_id, "the work was rejected on the marketplace", now=now)
                outcome.refused += 1
            # An approval needs no token: the assignment's state prevents a second payment.
            return there is (AssignmentState.REJECTED if one.overrides else AssignmentState.SUBMITTED)
        paid = [bonus for bonus in self._crowd.bonuses(assignment_id=one.external_assignment) if bonus.key == one.key]
        if not paid:
            if Token(one.key, one.sent_at).protects(now, self._crowd.profile.token_lifetime):
                return True
            self._hold(one, TOO_LATE, outcome, now)
        elif (len(paid), paid[0].cents, paid[0].worker_id) == (1, one.cents, one.external_worker):
            self._found([one], outcome, now)
        else:
            listed = ", ".join(f"{count(bonus.cents, 'cent')} to {bonus.worker_id}" for bonus in paid)
            self._hold(one, f"the marketplace lists {listed}, not {one.cents} to {one.external_worker}", outcome, now)
        return False

    def _found(self, payments: Sequence[Payment], outcome: ReconciliationResult, now: datetime) -> None:
        with self._store.write() as session:
            self._sender.settle(session, payments, now=now)
        outcome.found += len(payments)

    def _hold(self, one: Payment, reason: str, outcome: ReconciliationResult, now: datetime) -> None:
        with self._store.write() as session:
            hold(session, one.entry_id, reason, now=now)
        outcome.held += 1


def resolve_payment(store: Store, key: str, *, paid: bool, actor: str, reason: str, now: datetime) -> str:
    """Record a person's decision on a held payment: made, or owed again under a new key; return the valid key."""
    with store.write() as session:
        entry = session.scalar(select(LedgerEntry).where(LedgerEntry.key == key).with_for_update(key_share=True))
        if entry is None or entry.held_at is None:
            raise NothingHeld(f"no payment {key} is held", hint=Hint("show_crowd"))
        after = "confirmed" if paid else "owed again"
        audit.note(session, "resolved", entry, actor=actor, reason=reason, now=now, of=entry, after={"outcome": after})
        if paid:
            confirm(session, [entry.id], now=now)
            return entry.key
        return renew(session, entry, f"{actor}: it was not paid", now=now, not_before=now).key


def resolve_hit(store: Store, key: str, *, actor: str, reason: str, now: datetime) -> None:
    """Record a person's decision that a held or missing HIT was not posted, and release its money."""
    with store.write() as session:
        hit = session.scalar(select(Hit).where(Hit.key == key).with_for_update(key_share=True))
        is_gone = hit is not None and hit.finished_at is None and hit.last_error == UNKNOWN
        if hit is None or not (hit.status is HitStatus.HELD or is_gone):
            raise NothingHeld(f"no HIT {key} is held or missing", hint=Hint("show_crowd"))
        if is_gone:
            hit.status, hit.finished_at = HitStatus.DISPOSED, now
        else:
            hit.status = HitStatus.REFUSED
        for kind in (EntryKind.REWARD, EntryKind.BONUS):
            release(session, [hit.id], kind, now=now)
        audit.note(
            session, "resolved", hit, actor=actor, reason=reason, now=now, of=hit, after={"outcome": "not posted"}
        )
