"""The crowd on any marketplace that speaks MTurk's wire protocol (2017-01-17)."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from mturk import shapes
from mturk.connection import Connection, Endpoint, connect
from mturk.crowd import (
    Blocked,
    BonusOrder,
    HitOrder,
    HitState,
    Holder,
    PaidBonus,
    PostedHit,
    Price,
    QualificationKind,
    Terms,
    Token,
    Undelivered,
    Work,
    WorkState,
)
from mturk.errors import CrowdRefused, CrowdUnavailable, UnknownToCrowd, WrongState
from mturk.fees import bonus_fee, reward_fee
from mturk.patience import Patience
from mturk.question import external_question
from mturk.refusals import Repeated

# The Masters qualification of the marketplace and of its sandbox: asking for it costs more.
MASTERS = ("2F1QJWKUDD8XADTFD2Q0G6UTO95ALH", "2ARFPLSP75KLA8M8DH1HTEQVJT3SY6")
AN_ID = re.compile(r"\b[A-Z0-9]{10,64}\b")
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
MOST_NOTIFIED = 100
EVENTS_VERSION = "2006-05-05"
EVENTS = ["AssignmentSubmitted", "AssignmentApproved", "AssignmentRejected", "HITReviewable", "HITExpired"]
# Taking a qualification from who has none, and a block from who is not blocked.
NOTHING_TO_TAKE = ("InvalidQualificationState", "QualificationDoesNotExist", "WorkerBlockDoesNotExist")


def open_crowd(
    endpoint: Endpoint, *, patience: Patience | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> "MTurkCrowd":
    """The crowd behind an endpoint; nothing is asked yet."""
    return MTurkCrowd(connect(endpoint, patience, now))


class MTurkCrowd:
    """A Crowd; may be used by many threads at once."""

    def __init__(self, connection: Connection) -> None:
        self._wire = connection
        self._types: dict[Terms, str] = {}
        self._typing = threading.Lock()

    @property
    def name(self) -> str:
        return self._wire.name

    def price(self, terms: Terms, max_assignments: int) -> Price:
        masters = any(one.qualification_id in MASTERS for one in terms.requirements)
        return Price(terms.reward_cents, reward_fee(terms.reward_cents, max_assignments, masters=masters))

    def bonus_price(self, cents: int) -> Price:
        return Price(cents, bonus_fee(cents))

    def balance(self) -> int:
        return shapes.balance_of(self._wire.call("GetAccountBalance"))

    def post(self, order: HitOrder) -> PostedHit:
        self._wire.check(order.token)
        question = external_question(order.page_url, order.frame_height)
        if order.max_assignments < 1:
            raise CrowdRefused(f"a HIT for {order.max_assignments} workers is impossible; give 1 or more")
        try:
            answer = self._wire.call_once(
                "CreateHITWithHITType",
                order.token,
                HITTypeId=self._type_id(order.terms),
                MaxAssignments=order.max_assignments,
                LifetimeInSeconds=order.lifetime_seconds,
                Question=question,
                RequesterAnnotation=order.token.key,
            )
        except Repeated as repeated:
            return self._posted_before(order.token.key, repeated)
        return shapes.hit_of(answer.get("HIT", {}))

    def hit(self, hit_id: str) -> PostedHit:
        return shapes.hit_of(self._wire.call("GetHIT", HITId=hit_id).get("HIT", {}))

    def hits(self) -> Iterator[PostedHit]:
        found = map(shapes.hit_of, self._wire.pages("ListHITs", "HITs"))
        return (one for one in found if one.state is not HitState.DISPOSED)

    def extend(self, token: Token, hit_id: str, more: int) -> None:
        if more < 1:
            raise CrowdRefused(f"{more} more assignments is no extension; give 1 or more")
        try:
            # That fewer than ten never become ten is left to the marketplace: seen from here, the second try of an
            # extension from 8 to 9 looks just like one from 9 to 10.
            self._wire.call_once(
                "CreateAdditionalAssignmentsForHIT", token, HITId=hit_id, NumberOfAdditionalAssignments=more
            )
        except Repeated:
            return

    def expire(self, hit_id: str) -> None:
        try:
            self._wire.call("UpdateExpirationForHIT", HITId=hit_id, ExpireAt=LONG_AGO)
        except Repeated:
            return  # MTurk says so when it is asked for the same time twice

    def delete(self, hit_id: str) -> None:
        try:
            self._wire.call("DeleteHIT", HITId=hit_id)
        except (UnknownToCrowd, WrongState):
            if self.hit(hit_id).state is not HitState.DISPOSED:
                raise

    def works(self, hit_id: str, states: Sequence[WorkState] = ()) -> Iterator[Work]:
        wanted = {"AssignmentStatuses": [one.value.capitalize() for one in states]} if states else {}
        return map(shapes.work_of, self._wire.pages("ListAssignmentsForHIT", "Assignments", HITId=hit_id, **wanted))

    def work(self, assignment_id: str) -> Work:
        return shapes.work_of(self._wire.call("GetAssignment", AssignmentId=assignment_id).get("Assignment", {}))

    def approve(self, assignment_id: str, feedback: str = "") -> None:
        self._decide("ApproveAssignment", WorkState.APPROVED, assignment_id, feedback)

    def reject(self, assignment_id: str, reason: str) -> None:
        if not reason.strip():
            raise CrowdRefused("a rejection needs a reason that the worker can read; give one")
        self._decide("RejectAssignment", WorkState.REJECTED, assignment_id, reason)

    def override_rejection(self, assignment_id: str, feedback: str = "") -> None:
        self._decide("ApproveAssignment", WorkState.APPROVED, assignment_id, feedback, OverrideRejection=True)

    def bonus(self, order: BonusOrder) -> None:
        if order.cents < 1:
            raise CrowdRefused(f"a bonus of {order.cents} cents is none; give 1 or more")
        try:
            self._wire.call_once(
                "SendBonus",
                order.token,
                WorkerId=order.worker_id,
                AssignmentId=order.assignment_id,
                BonusAmount=shapes.wire_amount(order.cents),
                Reason=shapes.reason_with_key(order.reason, order.token.key),
            )
        except Repeated:
            return

    def bonuses(self, *, hit_id: str = "", assignment_id: str = "") -> Iterator[PaidBonus]:
        if bool(hit_id) == bool(assignment_id):
            raise CrowdRefused("bonuses are listed for a HIT or for an assignment; name one of them")
        of = {"HITId": hit_id} if hit_id else {"AssignmentId": assignment_id}
        return map(shapes.bonus_of, self._wire.pages("ListBonusPayments", "BonusPayments", **of))

    def ensure_qualification(self, name: str, description: str) -> QualificationKind:
        found = self._qualification(name)
        if found:
            return found
        try:
            answer = self._wire.call(
                "CreateQualificationType", Name=name, Description=description, QualificationTypeStatus="Active"
            )
        except Repeated:
            made_meanwhile = self._qualification(name)
            if made_meanwhile is None:
                raise
            return made_meanwhile
        return shapes.qualification_of(answer.get("QualificationType", {}))

    def grant(self, qualification_id: str, worker_id: str, score: int = 1) -> None:
        self._wire.call(
            "AssociateQualificationWithWorker",
            QualificationTypeId=qualification_id,
            WorkerId=worker_id,
            IntegerValue=score,
            SendNotification=False,
        )

    def revoke(self, qualification_id: str, worker_id: str, reason: str = "") -> None:
        self._take(
            "DisassociateQualificationFromWorker", reason, QualificationTypeId=qualification_id, WorkerId=worker_id
        )

    def holders(self, qualification_id: str) -> Iterator[Holder]:
        found = self._wire.pages(
            "ListWorkersWithQualificationType",
            "Qualifications",
            QualificationTypeId=qualification_id,
            Status="Granted",
        )
        return map(shapes.holder_of, found)

    def block(self, worker_id: str, reason: str) -> None:
        if not reason.strip():
            raise CrowdRefused("a block needs a reason, for whoever looks at it later; give one")
        self._wire.call("CreateWorkerBlock", WorkerId=worker_id, Reason=reason)

    def unblock(self, worker_id: str, reason: str = "") -> None:
        self._take("DeleteWorkerBlock", reason, WorkerId=worker_id)

    def blocks(self) -> Iterator[Blocked]:
        return map(shapes.blocked_of, self._wire.pages("ListWorkerBlocks", "WorkerBlocks"))

    def notify(self, worker_ids: Sequence[str], subject: str, text: str) -> list[Undelivered]:
        failures: list[Undelivered] = []
        for start in range(0, len(worker_ids), MOST_NOTIFIED):
            some = list(worker_ids[start : start + MOST_NOTIFIED])
            answer = self._wire.call("NotifyWorkers", Subject=subject, MessageText=text, WorkerIds=some)
            failures += map(shapes.undelivered_of, answer.get("NotifyWorkersFailureStatuses", ()))
        return failures

    def send_events(self, type_id: str, queue_url: str) -> None:
        to = {"Destination": queue_url, "Transport": "SQS", "Version": EVENTS_VERSION, "EventTypes": EVENTS}
        self._wire.call("UpdateNotificationSettings", HITTypeId=type_id, Notification=to, Active=True)

    def _type_id(self, terms: Terms) -> str:
        with self._typing:
            if terms not in self._types:
                self._types[terms] = shapes.type_id_of(self._wire.call("CreateHITType", **shapes.terms_shape(terms)))
            return self._types[terms]

    def _posted_before(self, key: str, repeated: Repeated) -> PostedHit:
        """The HIT that this token made; its id stands in what the marketplace said, or in the listing."""
        for hit_id in AN_ID.findall(str(repeated)):
            try:
                found = self.hit(hit_id)
            except UnknownToCrowd:
                continue
            if found.key == key:
                return found
        for one in self.hits():
            if one.key == key:
                return one
        # It was made, so this is no refusal: the listing may lag behind, or the HIT is not what we take it for.
        raise CrowdUnavailable(
            f"the token {key} made a HIT on {self.name} that is not found there; look for it before anything is posted"
        ) from repeated

    def _decide(self, operation: str, wanted: WorkState, assignment_id: str, feedback: str, **more: Any) -> None:
        said = {"RequesterFeedback": feedback} if feedback else {}
        try:
            self._wire.call(operation, AssignmentId=assignment_id, **said, **more)
        except WrongState as error:
            state = self.work(assignment_id).state
            if state is not wanted:
                raise WrongState(f"assignment {assignment_id} is {state}; {error}", error.remote_code) from error

    def _take(self, operation: str, reason: str, **members: str) -> None:
        said = {"Reason": reason} if reason else {}
        try:
            self._wire.call(operation, **members, **said)
        except CrowdRefused as error:
            if not error.remote_code.endswith(NOTHING_TO_TAKE):
                raise

    def _qualification(self, name: str) -> QualificationKind | None:
        owned = self._wire.pages(
            "ListQualificationTypes", "QualificationTypes", MustBeRequestable=False, MustBeOwnedByCaller=True
        )
        return next((shapes.qualification_of(one) for one in owned if one.get("Name") == name), None)
