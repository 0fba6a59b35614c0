"""Marks: which text and target a page shows, so that nobody is held to one that they do not see.

Another window of the same worker may have skipped an example, or begun again, while this one still shows it as it was.
"""

import hashlib

from sqlalchemy.orm import Session

from round_manager.errors import OtherText
from round_manager.models import WorkSession
from round_manager.work.creating import CreationItem
from round_manager.work.sessions import hold
from round_manager.work.trying import writing_item

DIGITS = 16


def mark_of(item: CreationItem) -> str:
    """The mark of an example to write; it tells a page nothing but whether it is still the same."""
    return _mark(item.context.id, item.target)


def check_mark(session: Session, work: WorkSession, item: int, mark: str) -> None:
    """The item is the one that the page shows, and stays it until the transaction ends; else an OtherText."""
    hold(session, work)
    row = writing_item(session, work, item)
    _compare(mark, _mark(row.context_id, row.label))


def check_shown(item: CreationItem, mark: str) -> None:
    """The item as it was read is the one that the page shows; else an OtherText."""
    _compare(mark, mark_of(item))


def _compare(mark: str, wanted: str) -> None:
    if mark != wanted:
        raise OtherText("this example has another text now; here it is")


def _mark(context_id: int | None, target: str | None) -> str:
    return hashlib.sha256(repr((context_id, target)).encode()).hexdigest()[:DIGITS]
