"""One call of a requester: who asks, when, and what the operations need to answer."""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Select, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from mturk.marketplace.errors import MarketError, bad_parameter
from mturk.marketplace.tables import (
    Assignment,
    AssignmentStatus,
    Hit,
    HitType,
    QualificationType,
    Requester,
    Worker,
)

PAGE = 10
Row = TypeVar("Row")
Members = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call with its session; whatever it finds belongs to the requester, or is not there for them."""

    session: Session
    requester: Requester
    operation: str
    request_id: str
    now: datetime
    # Where the marketplace itself is; no page of a HIT may be there.
    own_url: str

    def hit(self, hit_id: str) -> tuple[Hit, HitType]:
        """A HIT of this requester, and its type."""
        found = self.session.execute(
            select(Hit, HitType)
            .join(HitType, HitType.id == Hit.type_id)
            .where(Hit.id == hit_id, Hit.requester_id == self.requester.id)
        ).one_or_none()
        if found is None:
            raise MarketError("HITDoesNotExist", f"Hit {hit_id} does not exist.")
        hit, kind = found
        return hit, kind

    def hit_type(self, type_id: str) -> HitType:
        """A HIT type of this requester."""
        found = select(HitType).where(HitType.id == type_id, HitType.requester_id == self.requester.id)
        kind = self.session.scalars(found).one_or_none()
        if kind is None:
            raise MarketError("HITTypeDoesNotExist", f"HITType {type_id} does not exist.")
        return kind

    def work(self, assignment_id: str) -> tuple[Assignment, Hit, HitType]:
        """An assignment that was handed in; others are not there for requesters."""
        found = self.session.execute(
            select(Assignment, Hit, HitType)
            .join(Hit, Hit.id == Assignment.hit_id)
            .join(HitType, HitType.id == Hit.type_id)
            .where(Assignment.id == assignment_id, Hit.requester_id == self.requester.id)
        ).one_or_none()
        if found is None or found[0].status in (AssignmentStatus.FREE, AssignmentStatus.ACCEPTED):
            raise MarketError("AssignmentDoesNotExist", f"Assignment {assignment_id} does not exist.")
        assignment, hit, kind = found
        return assignment, hit, kind

    def worker(self, worker_id: str) -> Worker:
        """A worker of this marketplace."""
        worker = self.session.get(Worker, worker_id)
        if worker is None:
            raise MarketError("WorkerDoesNotExist", f"Worker {worker_id} does not exist.")
        return worker

    def qualification(self, qualification_id: str) -> QualificationType:
        """A qualification of this requester."""
        found = select(QualificationType).where(
            QualificationType.id == qualification_id,
            QualificationType.requester_id == self.requester.id,
            ~QualificationType.deleted,
        )
        kind = self.session.scalars(found).one_or_none()
        if kind is None:
            raise MarketError("QualificationTypeDoesNotExist", f"QualificationType {qualification_id} does not exist.")
        return kind

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
        """One page of a listing, and where the next begins; rows that come or go meanwhile shift nothing."""
        size = members.get("MaxResults", PAGE)
        after = self._after(members.get("NextToken"))
        if after is not None:
            query = query.where(number < after if newest_first else number > after)
        query = query.add_columns(number.label("page_number"))
        query = query.order_by(number.desc() if newest_first else number).limit(size + 1)
        rows = self.session.execute(query).all()
        answer: Members = {"NumResults": len(rows[:size]), key: [render(row) for row in rows[:size]]}
        if len(rows) > size:
            answer["NextToken"] = self._token(rows[size - 1].page_number)
        return answer

    def _token(self, number: int) -> str:
        return base64.urlsafe_b64encode(json.dumps([self.operation, number]).encode()).decode()

    def _after(self, token: str | None) -> int | None:
        if token is None:
            return None
        try:
            operation, number = json.loads(base64.urlsafe_b64decode(token.encode()))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            operation, number = None, None
        # By its type itself, for true is an int too; and no database counts further than 64 bits.
        if operation != self.operation or type(number) is not int or not 0 <= number < 2**63:
            raise bad_parameter("NextToken is not one that this listing gave")
        return number


Operation = Callable[[Call, Members], Members]


def cents(amount: str, name: str) -> int:
    """Whole cents of an amount such as 5, 5. or 5.25; the model has checked its form."""
    whole, _, part = amount.partition(".")
    if len(whole) > 12:
        raise bad_parameter(f"{name} is more than anybody has")
    return int(whole) * 100 + int(part.ljust(2, "0"))


def amount(value: int) -> str:
    """Cents as MTurk writes them."""
    return f"{value // 100}.{value % 100:02d}"
