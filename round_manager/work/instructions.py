"""Which instructions a worker has read, so that they open once: each task has some for authors and for validators."""

import re
from datetime import datetime

from sqlalchemy import and_, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from round_manager.models import Hit, HitKind, InstructionsRead, Worker, WorkSession
from round_manager.models.table import table_of
from round_manager.work.errors import PageInputUnreadable

# Built once: each page that is opened runs it.
_WORKERS, _READ = table_of(Worker), table_of(InstructionsRead)
_READER = (
    select(_WORKERS.c.language, _READ.c.version)
    .outerjoin(
        _READ,
        and_(
            _READ.c.worker_id == _WORKERS.c.id,
            _READ.c.task_id == bindparam("task_id"),
            _READ.c.for_validators == bindparam("for_validators"),
        ),
    )
    .where(_WORKERS.c.id == bindparam("worker_id"))
)


def reader(session: Session, work: WorkSession, hit: Hit) -> tuple[str | None, str | None]:
    """Return the language that the worker chose, and the version of the HIT's instructions that they have read."""
    key = {"worker_id": work.worker_id, "task_id": hit.task_id, "for_validators": _is_for_validators(hit)}
    language, version = session.execute(_READER, key).one()
    return language, version


def record_read(session: Session, work: WorkSession, hit: Hit, version: str, *, now: datetime) -> None:
    """Store that the worker has read this version; two pages of a worker may do so at the same moment."""
    if not re.fullmatch("[0-9a-f]{64}", version):
        raise PageInputUnreadable
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    key = {"worker_id": work.worker_id, "task_id": hit.task_id, "for_validators": _is_for_validators(hit)}
    read = {"version": version, "read_at": now}
    row = insert(InstructionsRead).values(**key, **read)
    session.execute(row.on_conflict_do_update(index_elements=list(key), set_=read))


def _is_for_validators(hit: Hit) -> bool:
    """A quiz asks about the instructions for authors."""
    return hit.kind is HitKind.VALIDATE
