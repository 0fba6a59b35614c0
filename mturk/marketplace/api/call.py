"""One API call: the requester, the time, and what operations need to look up and page through."""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from mturk.marketplace.destinations import QueueNetworks
from mturk.marketplace.errors import DuplicateToken, EntityNotFound, InvalidParameter, WorkerNotFound
from mturk.marketplace.tables.people import QualificationType, Requester, Worker
from mturk.marketplace.tables.work import TOKEN_LIFE, Assignment, AssignmentStatus, Hit, HitType, RequestToken

DEFAULT_PAGE_SIZE = 10
Members = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """An API call with its session; lookups find only what belongs to the requester."""

    session: Session
    requester: Requester
    operation: str
    request_id: str
    now: datetime
    # The marketplace's own URL; the page of a HIT must not be on its host.
    own_url: str
    # Where events may be sent.
    queues: QueueNetworks

    def hit(self, hit_id: str) -> tuple[Hit, HitType]:
        """Return a HIT of this requester, and its type."""
        found = self.session.execute(
            select(Hit, HitType)
            .join(HitType, HitType.id == Hit.type_id)
            .where(Hit.id == hit_id, Hit.requester_id == self.requester.id)
        ).one_or_none()
        if found is None:
            raise EntityNotFound("HITDoesNotExist", f"Hit {hit_id} does not exist.")
        hit, kind = found
        return hit, kind

    def hit_type(self, type_id: str) -> HitType:
        """Return a HIT type of this requester."""
        found = select(HitType).where(HitType.id == type_id, HitType.requester_id == self.requester.id)
        kind = self.session.scalars(found).one_or_none()
        if kind is None:
            raise EntityNotFound("HITTypeDoesNotExist", f"HITType {type_id} does not exist.")
        return kind

    def assignment(self, assignment_id: str) -> tuple[Assignment, Hit, HitType]:
        """Return a submitted assignment with its HIT; requesters do not see others."""
        found = self.session.execute(
            select(Assignment, Hit, HitType)
            .join(Hit, Hit.id == Assignment.hit_id)
            .join(HitType, HitType.id == Hit.type_id)
            .where(Assignment.id == assignment_id, Hit.requester_id == self.requester.id)
        ).one_or_none()
        if found is None or found[0].status in (AssignmentStatus.FREE, AssignmentStatus.ACCEPTED):
            raise EntityNotFound("AssignmentDoesNotExist", f"Assignment {assignment_id} does not exist.")
        assignment, hit, kind = found
        return assignment, hit, kind

    def worker(self, worker_id: str) -> Worker:
        """Return a worker of this marketplace."""
        worker = self.session.get(Worker, worker_id)
        if worker is None:
            raise WorkerNotFound(worker_id)
        return worker

    def qualification(self, qualification_id: str) -> QualificationType:
        """Return a qualification of this requester."""
        found = select(QualificationType).where(
            QualificationType.id == qualification_id,
            QualificationType.requester_id == self.requester.id,
            ~QualificationType.deleted,
        )
        kind = self.session.scalars(found).one_or_none()
        if kind is None:
            raise EntityNotFound(
                "QualificationTypeDoesNotExist", f"QualificationType {qualification_id} does not exist."
            )
        return kind

    def token_result(self, members: Members) -> str | None:
        """Return the id of what the request's token created within the last day, or None if it was not used."""
        token = members.get("UniqueRequestToken")
        used = self.session.get(RequestToken, (self.requester.id, self.operation, token)) if token else None
        if used is not None and used.used_at <= self.now - TOKEN_LIFE:
            self.session.delete(used)
            self.session.flush()
            return None
        return used.made if used else None

    def refuse_used_token(self, members: Members) -> None:
        """Refuse a token that was used for this operation, with MTurk's message and the id of the earlier request."""
        request_id = self.token_result(members)
        if request_id is not None:
            token = members["UniqueRequestToken"]
            text = f'The idempotency token "{token}" has already been processed. (request {request_id})'
            raise DuplicateToken("DuplicateRequest", text)

    def record_token(self, members: Members, result_id: str) -> None:
        """Record that the request's token was used, in the same transaction as what it created."""
        token = members.get("UniqueRequestToken")
        if token:
            owner = {"requester_id": self.requester.id, "operation": self.operation, "token": token}
            self.session.add(RequestToken(**owner, made=result_id, used_at=self.now))

    def page(
        self,
        query: Select[Any],
        number: InstrumentedAttribute[int],
        members: Members,
        *,
        key: str,
        render: Callable[[Any], Members],
        newest_first: bool = False,
    ) -> Members:
        """Return one page of a list and the token of the next; rows added or deleted meanwhile shift nothing."""
        size = members.get("MaxResults", DEFAULT_PAGE_SIZE)
        after = self._after(members.get("NextToken"))
        if after is not None:
            query = query.where(number < after if newest_first else number > after)
        query = query.add_columns(number.label("page_number"))
        query = query.order_by(number.desc() if newest_first else number).limit(size + 1)
        rows = self.session.execute(query).all()
        response: Members = {"NumResults": len(rows[:size]), key: [render(row) for row in rows[:size]]}
        if len(rows) > size:
            response["NextToken"] = self._token(rows[size - 1].page_number)
        return response

    def _token(self, number: int) -> str:
        return base64.urlsafe_b64encode(json.dumps([self.operation, number]).encode()).decode()

    def _after(self, token: str | None) -> int | None:
        if token is None:
            return None
        try:
            operation, number = json.loads(base64.urlsafe_b64decode(token.encode()))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            operation, number = None, None
        # `type(...) is not int`, because True is an int too; databases count up to 64 bits.
        if operation != self.operation or type(number) is not int or not 0 <= number < 2**63:
            raise InvalidParameter("NextToken was not returned by this operation")
        return number


Operation = Callable[[Call, Members], Members]


def parse_cents(amount: str, name: str) -> int:
    """Return the cents of an amount such as 5, 5. or 5.25; the model has validated its format."""
    whole, _, part = amount.partition(".")
    if len(whole) > 12:
        raise InvalidParameter(f"{name} is too large")
    return int(whole) * 100 + int(part.ljust(2, "0"))


def format_amount(cents: int) -> str:
    """Return cents in MTurk's format, such as 5.25."""
    return f"{cents // 100}.{cents % 100:02d}"
