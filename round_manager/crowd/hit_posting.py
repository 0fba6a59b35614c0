"""Posting: sends planned HITs to the marketplace, each one once.

    planned ──► planned and sent ──► assignable      `sent` is committed before the call
                      ├────────────► refused         a definite refusal: the reservation is released
                      └────────────► held            the outcome cannot be determined: a person decides

The reconciler looks up HITs that were sent without an answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from common.clock import Clock
from common.progress import NoProgress, Progress
from crowd.errors import CrowdAccessDenied, CrowdError, CrowdRefused, InsufficientFunds
from crowd.port import Crowd, HitOrder, HitTerms, PostedHit, Token
from round_manager.crowd.calls import THREADS, Calls, check_account, sending
from round_manager.crowd.hit_planning import may_be_posted, order_terms
from round_manager.database.store import Store
from round_manager.models import EntryKind, Hit, HitKind, HitStatus, Round, Task
from round_manager.money.ledger import release

BATCH = 64
LONGEST_ERROR = 500

# Returns the address of the page that a HIT shows.
PageUrl = Callable[[Hit], str]
Answer = PostedHit | CrowdError
PossiblePayment = tuple[ColumnElement[bool], ...]


@dataclass
class PostingResult:
    """What was posted; `problem` says why posting stopped early, `waiting` how many HITs are left."""

    posted: int = 0
    refused: int = 0
    in_doubt: int = 0
    waiting: int = 0
    problem: str = ""


class HitPoster:
    """Posts planned HITs. If the process is killed and run again, every HIT is still posted once."""

    def __init__(
        self,
        store: Store,
        crowd: Crowd,
        clock: Clock,
        page_url: PageUrl,
        *,
        queue_url: str = "",
        threads: int = THREADS,
    ) -> None:
        self._store = store
        self._crowd = crowd
        self._clock = clock
        self._page_url = page_url
        self._queue_url = queue_url
        self._threads = threads
        self._terms: dict[tuple[int | None, int, HitKind], HitTerms] = {}
        self._subscribed: set[str] = set()

    def run(self, progress: Progress | None = None, *, not_to_write_for: Sequence[int] = ()) -> PostingResult:
        """Post what was never sent, in batches; stop if the account is empty or the marketplace does not answer.

        Creation HITs of the rounds `not_to_write_for` are skipped.
        """
        shown = progress or NoProgress()
        outcome = PostingResult()
        with sending(self._store, self._crowd, shown), Calls(self._threads) as calls:
            wanted = self._unsent(not_to_write_for)
            waiting = self._count(wanted)
            try:
                if waiting:
                    check_account(self._store, self._crowd, now=self._clock.now())
            except CrowdError as error:
                outcome.problem = str(error)
            shown.start(waiting, "posting HITs")
            while not outcome.problem and (batch := self._take(wanted)):
                self._record(batch, calls.make(batch, self._post), outcome)
                shown.advance(len(batch))
        shown.finish()
        outcome.waiting = self._count(wanted)
        return outcome

    def again(self, hits: Sequence[Hit]) -> PostingResult:
        """Post HITs again that did not arrive. The caller has looked for them, and their tokens still protect."""
        outcome = PostingResult()
        with Calls(self._threads) as calls:
            self._record(hits, calls.make(hits, self._post), outcome)
        return outcome

    def adopt(self, session: Session, hit: Hit, posted: PostedHit) -> None:
        """Record that the marketplace has the HIT."""
        hit.external_id, hit.group_id = posted.hit_id, posted.group_id
        hit.status, hit.posted_at = HitStatus(posted.state.value), posted.created_at
        hit.expires_at, hit.last_error = posted.expires_at, None

    def _count(self, wanted: PossiblePayment) -> int:
        with self._store.read() as session:
            return session.scalar(select(func.count()).select_from(Hit).where(*wanted)) or 0

    def _unsent(self, not_to_write_for: Sequence[int]) -> PossiblePayment:
        here = Hit.marketplace == self._crowd.name
        left = (Hit.kind == HitKind.CREATE) & Hit.round_id.in_(not_to_write_for)
        return here, Hit.status == HitStatus.PLANNED, Hit.sent_at.is_(None), may_be_posted(), ~left

    def _take(self, which: PossiblePayment) -> list[Hit]:
        """Mark the next HITs as sent and return them. From here on only the marketplace knows whether it has them."""
        now = self._clock.now()
        with self._store.write() as session:
            wanted = select(Hit).where(*which).order_by(Hit.id).limit(BATCH)
            taken = list(session.scalars(wanted.with_for_update(skip_locked=True)))
            for hit in taken:
                hit.sent_at = now
        return taken

    def _post(self, hit: Hit) -> PostedHit:
        now = self._clock.now()
        seconds = int(((hit.expires_at or now) - now).total_seconds())
        if seconds <= 0:
            raise CrowdRefused("its time was over before it could be posted")
        token = Token(hit.key, hit.sent_at or now)
        page = self._page_url(hit)
        posted = self._crowd.post(HitOrder(token, self._terms_of(hit), page, hit.max_assignments, seconds))
        self._subscribe(posted.type_id)
        return posted

    def _terms_of(self, hit: Hit) -> HitTerms:
        place = (hit.round_id, hit.task_id, hit.kind)
        if place not in self._terms:
            with self._store.read() as session:
                owner = session.get_one(Round, hit.round_id) if hit.round_id else session.get_one(Task, hit.task_id)
                self._terms[place] = order_terms(session, owner, hit.kind, self._crowd)
        return self._terms[place]

    def _subscribe(self, type_id: str) -> None:
        """Request events for a HIT type once. Events are hints, so a failure here is ignored."""
        if not self._queue_url or type_id in self._subscribed:
            return
        self._subscribed.add(type_id)
        try:
            self._crowd.send_events(type_id, self._queue_url)
        except CrowdError:
            self._subscribed.discard(type_id)

    def _record(self, hits: Sequence[Hit], answers: Sequence[Answer], outcome: PostingResult) -> None:
        now = self._clock.now()
        with self._store.write() as session:
            for hit, answer in zip(hits, answers, strict=True):
                row = session.get_one(Hit, hit.id, with_for_update={"key_share": True})
                # Two processes may have sent it with the same token: the second finds it done.
                if row.external_id is None:
                    self._record_answer(session, row, answer, outcome, now)

    def _record_answer(self, session: Session, hit: Hit, answer: Answer, outcome: PostingResult, now: datetime) -> None:
        if isinstance(answer, PostedHit):
            self.adopt(session, hit, answer)
            outcome.posted += 1
            return
        hit.last_error = str(answer)[:LONGEST_ERROR]
        if isinstance(answer, InsufficientFunds | CrowdAccessDenied):
            # A refusal that can pass, and not the HIT's fault: it waits as if it was never sent.
            hit.sent_at = None
            outcome.problem = str(answer)
        elif isinstance(answer, CrowdRefused):
            hit.status = HitStatus.REFUSED
            release(session, [hit.id], EntryKind.REWARD, now=now)
            release(session, [hit.id], EntryKind.BONUS, now=now)
            outcome.refused += 1
        else:
            outcome.in_doubt += 1
            # The first failure is the cause; later calls were not sent.
            outcome.problem = outcome.problem or str(answer)
