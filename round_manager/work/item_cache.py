"""The examples to write that a process has read before, used again while nothing about them has changed.

Reading one takes several rows with long texts; finding out whether it has changed takes one row with a few numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from round_manager.models import Attempt, Example, Hit, Round, WorkItem, WorkSession
from round_manager.models.table import table_of
from round_manager.tasks.rounds import pinned_models
from round_manager.work.attempts import WRITTEN_ELSEWHERE, CreationItem, find_creation_item
from round_manager.work.sessions import OF_ITEM, SessionContext, is_item

MOST_KEPT = 4_000


@dataclass(frozen=True)
class KnownItem:
    """An example to write as it was read, with its session and the round's pinned versions.

    Its rows belong to a transaction that is over: read them, and write with statements of your own.
    """

    state: tuple[Any, ...]
    context: SessionContext
    item: CreationItem
    pinned: Mapping[str, int]

    def with_attempt(self, attempt: Attempt) -> "KnownItem":
        """Return the item after an attempt was stored, which is all that has changed."""
        number = attempt.number or 0
        item = replace(self.item, attempts=(*self.item.attempts, attempt), last_number=number)
        return replace(self, state=(*self.state[:-1], number), item=item)


class ItemCache:
    """The cache of one process; safe to use from many threads."""

    def __init__(self) -> None:
        self._kept: dict[tuple[UUID, int], KnownItem] = {}

    def find(self, session: Session, page: UUID, item: int) -> KnownItem:
        """Return an example to write as it is in this transaction; nothing is locked."""
        row = session.execute(_STATE, {"page": page, "item": item}).one_or_none() if is_item(item) else None
        state = () if row is None else tuple(row)
        kept = self._kept.get((page, item))
        if kept is not None and kept.state == state:
            return kept
        context, found = find_creation_item(session, page, item)
        pinned = {} if context.round is None else pinned_models(session, context.round)
        return KnownItem(state, context, found, pinned)

    def keep(self, page: UUID, known: KnownItem) -> None:
        """Keep an item: one that was read in a transaction with one snapshot, or whose change was committed."""
        if len(self._kept) >= MOST_KEPT:
            self._kept = {}
        self._kept[page, known.item.item] = known


_item, _work, _hit, _round, _attempt = (table_of(one) for one in (WorkItem, WorkSession, Hit, Round, Attempt))
_LAST_NUMBER = select(func.max(_attempt.c.number)).where(
    _attempt.c.session_id == _item.c.session_id, _attempt.c.session_id.is_not(None), _attempt.c.item == _item.c.item
)
# Everything that can change about an item or decides what its worker may do; the number of the last attempt is last.
_STATE = (
    select(
        _work.c.status,
        _work.c.expires_at,
        _hit.c.max_assignments,
        _round.c.status,
        _item.c.context_id,
        _item.c.label,
        table_of(Example).c.id,
        WRITTEN_ELSEWHERE,
        _LAST_NUMBER.scalar_subquery(),
    )
    .select_from(_item)
    .join(_work, _work.c.id == _item.c.session_id)
    .join(_hit, _hit.c.id == _work.c.hit_id)
    .outerjoin(_round, _round.c.id == _hit.c.round_id)
    .outerjoin(table_of(Example), OF_ITEM)
    .where(_work.c.public_id == bindparam("page"), _item.c.item == bindparam("item"))
)
