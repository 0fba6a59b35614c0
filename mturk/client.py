"""The Crowd on any marketplace that implements MTurk's API (2017-01-17)."""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from crowd import port
from crowd.errors import CrowdRefused, CrowdUnavailable, NotOnCrowd, RetryPolicy, WrongCrowdState
from crowd.profile import Price
from mturk import shapes
from mturk.connection import AlreadyDone, Connection, Endpoint, connect
from mturk.profile import MASTERS_PERCENT, MTURK
from mturk.shapes import external_question

# The Masters qualification of the marketplace and of its sandbox; requiring it costs more.
MASTERS = ("2F1QJWKUDD8XADTFD2Q0G6UTO95ALH", "2ARFPLSP75KLA8M8DH1HTEQVJT3SY6")
ID_PATTERN = re.compile(r"\b[A-Z0-9]{10,64}\b")
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
MESSAGES_PER_CALL = 100
EVENTS_VERSION = "2006-05-05"
EVENTS = ["AssignmentSubmitted", "AssignmentApproved", "AssignmentRejected", "HITReviewable", "HITExpired"]
# The worker does not have the qualification, or is not blocked.
NOTHING_TO_REMOVE = ("InvalidQualificationState", "QualificationDoesNotExist", "WorkerBlockDoesNotExist")


def open_crowd(
    endpoint: Endpoint, *, retries: RetryPolicy | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> "MTurkCrowd":
    """Return the crowd behind an endpoint; nothing is sent yet."""
    return MTurkCrowd(connect(endpoint, retries, now))


class MTurkCrowd:
    """A Crowd; safe to use from several threads."""

    profile = MTURK

    def __init__(self, connection: Connection) -> None:
        self._wire = connection
        self._types: dict[port.HitTerms, str] = {}
        self._types_lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._wire.name

    def price(self, terms: port.HitTerms, max_assignments: int) -> Price:
        masters = any(one.qualification_id in MASTERS for one in terms.requirements)
        surcharge = MASTERS_PERCENT if masters else 0
        return MTURK.fees.reward(terms.reward_cents, max_assignments, surcharge_percent=surcharge)

    def bonus_price(self, cents: int) -> Price:
        return MTURK.fees.bonus(cents)

    def balance(self) -> int:
        return shapes.balance_of(self._wire.call("GetAccountBalance"))

    def post(self, order: port.HitOrder) -> port.PostedHit:
        self._wire.check(order.token)
        question = external_question(order.page_url, order.frame_height)
        if order.max_assignments < 1:
            raise CrowdRefused(f"a HIT needs at least 1 assignment, not {order.max_assignments}")
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
        except AlreadyDone as repeat:
            return self._posted_before(order.token.key, repeat)
        return shapes.hit_of(answer.get("HIT", {}))

    def hit(self, hit_id: str) -> port.PostedHit:
        return shapes.hit_of(self._wire.call("GetHIT", HITId=hit_id).get("HIT", {}))

    def hits(self) -> Iterator[port.PostedHit]:
        found = map(shapes.hit_of, self._wire.pages("ListHITs", "HITs"))
        return (one for one in found if one.state is not port.HitState.DISPOSED)

    def expire(self, hit_id: str) -> None:
        try:
            self._wire.call("UpdateExpirationForHIT", HITId=hit_id, ExpireAt=LONG_AGO)
        except AlreadyDone:
            return  # MTurk refuses to set the same expiration twice

    def assignments(
        self, hit_id: str, states: Sequence[port.AssignmentState] = ()
    ) -> Iterator[port.SubmittedAssignment]:
        wanted = {"AssignmentStatuses": [one.value.capitalize() for one in states]} if states else {}
        return map(
            shapes.assignment_of, self._wire.pages("ListAssignmentsForHIT", "Assignments", HITId=hit_id, **wanted)
        )

    def assignment(self, assignment_id: str) -> port.SubmittedAssignment:
        return shapes.assignment_of(self._wire.call("GetAssignment", AssignmentId=assignment_id).get("Assignment", {}))

    def approve(self, assignment_id: str, feedback: str = "") -> None:
        self._decide("ApproveAssignment", port.AssignmentState.APPROVED, assignment_id, feedback)

    def reject(self, assignment_id: str, reason: str) -> None:
        if not reason.strip():
            raise CrowdRefused("a rejection needs a reason for the worker")
        self._decide("RejectAssignment", port.AssignmentState.REJECTED, assignment_id, reason)

    def override_rejection(self, assignment_id: str, feedback: str = "") -> None:
        self._decide(
            "ApproveAssignment", port.AssignmentState.APPROVED, assignment_id, feedback, OverrideRejection=True
        )

    def bonus(self, order: port.BonusOrder) -> None:
        if order.cents < 1:
            raise CrowdRefused(f"a bonus must be at least 1 cent, not {order.cents}")
        try:
            self._wire.call_once(
                "SendBonus",
                order.token,
                WorkerId=order.worker_id,
                AssignmentId=order.assignment_id,
                BonusAmount=shapes.decimal_dollars(order.cents),
                Reason=shapes.reason_with_key(order.reason, order.token.key),
            )
        except AlreadyDone:
            return

    def bonuses(self, *, hit_id: str = "", assignment_id: str = "") -> Iterator[port.PaidBonus]:
        if bool(hit_id) == bool(assignment_id):
            raise CrowdRefused("list bonuses for either a HIT or an assignment")
        of = {"HITId": hit_id} if hit_id else {"AssignmentId": assignment_id}
        return map(shapes.bonus_of, self._wire.pages("ListBonusPayments", "BonusPayments", **of))

    def ensure_qualification(self, name: str, description: str) -> port.CrowdQualification:
        found = self._qualification(name)
        if found:
            return found
        try:
            answer = self._wire.call(
                "CreateQualificationType", Name=name, Description=description, QualificationTypeStatus="Active"
            )
        except AlreadyDone:
            created_meanwhile = self._qualification(name)
            if created_meanwhile is None:
                raise
            return created_meanwhile
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
        self._remove(
            "DisassociateQualificationFromWorker", reason, QualificationTypeId=qualification_id, WorkerId=worker_id
        )

    def block(self, worker_id: str, reason: str) -> None:
        if not reason.strip():
            raise CrowdRefused("a block needs a reason")
        self._wire.call("CreateWorkerBlock", WorkerId=worker_id, Reason=reason)

    def unblock(self, worker_id: str, reason: str = "") -> None:
        self._remove("DeleteWorkerBlock", reason, WorkerId=worker_id)

    def blocks(self) -> Iterator[port.BlockedWorker]:
        return map(shapes.blocked_of, self._wire.pages("ListWorkerBlocks", "WorkerBlocks"))

    def notify(self, worker_ids: Sequence[str], subject: str, text: str) -> list[port.UndeliveredMessage]:
        failures: list[port.UndeliveredMessage] = []
        for start in range(0, len(worker_ids), MESSAGES_PER_CALL):
            some = list(worker_ids[start : start + MESSAGES_PER_CALL])
            answer = self._wire.call("NotifyWorkers", Subject=subject, MessageText=text, WorkerIds=some)
            failures += map(shapes.undelivered_of, answer.get("NotifyWorkersFailureStatuses", ()))
        return failures

    def send_events(self, type_id: str, queue_url: str) -> None:
        to = {"Destination": queue_url, "Transport": "SQS", "Version": EVENTS_VERSION, "EventTypes": EVENTS}
        self._wire.call("UpdateNotificationSettings", HITTypeId=type_id, Notification=to, Active=True)

    def _type_id(self, terms: port.HitTerms) -> str:
        with self._types_lock:
            if terms not in self._types:
                self._types[terms] = shapes.type_id_of(self._wire.call("CreateHITType", **shapes.terms_shape(terms)))
            return self._types[terms]

    def _posted_before(self, key: str, repeat: AlreadyDone) -> port.PostedHit:
        """Return the HIT that this token created; its id is in the marketplace's message or in the listing."""
        for hit_id in ID_PATTERN.findall(str(repeat)):
            try:
                found = self.hit(hit_id)
            except NotOnCrowd:
                continue
            if found.key == key:
                return found
        for one in self.hits():
            if one.key == key:
                return one
        # The HIT was created, so this is not a refusal: the listing may lag behind.
        raise CrowdUnavailable(
            f"the token {key} created a HIT on {self.name} that is not listed there; find it before posting again"
        ) from repeat

    def _decide(
        self, operation: str, wanted: port.AssignmentState, assignment_id: str, feedback: str, **more: Any
    ) -> None:
        optional = {"RequesterFeedback": feedback} if feedback else {}
        try:
            self._wire.call(operation, AssignmentId=assignment_id, **optional, **more)
        except WrongCrowdState as error:
            state = self.assignment(assignment_id).state
            if state is not wanted:
                raise WrongCrowdState(f"assignment {assignment_id} is {state}; {error}", error.remote_code) from error

    def _remove(self, operation: str, reason: str, **members: str) -> None:
        optional = {"Reason": reason} if reason else {}
        try:
            self._wire.call(operation, **members, **optional)
        except CrowdRefused as error:
            if not error.remote_code.endswith(NOTHING_TO_REMOVE):
                raise

    def _qualification(self, name: str) -> port.CrowdQualification | None:
        owned = self._wire.pages(
            "ListQualificationTypes", "QualificationTypes", MustBeRequestable=False, MustBeOwnedByCaller=True
        )
        return next((shapes.qualification_of(one) for one in owned if one.get("Name") == name), None)
