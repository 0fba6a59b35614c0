"""Many known texts at once: rows as the driver takes them, since a million texts have eight million keys."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.orm import Session

from round_manager.novelty.measure import MeasuredText

_SQLITE_TEXTS = "INSERT INTO known_text (id, task_id, name, context, text) VALUES (?, ?, ?, ?, ?)"
_SQLITE_KEYS = "INSERT INTO text_key (task_id, key, text_id) VALUES (?, ?, ?)"
_POSTGRESQL_TEXTS = text(
    "INSERT INTO known_text (task_id, name, context, text)"
    " SELECT :task, name, context, text FROM unnest(CAST(:names AS text[]), CAST(:contexts AS bigint[]),"
    " CAST(:texts AS text[])) WITH ORDINALITY AS given (name, context, text, place) ORDER BY place RETURNING id"
)
_POSTGRESQL_KEYS = text(
    "INSERT INTO text_key (task_id, key, text_id)"
    " SELECT :task, key, text_id FROM unnest(CAST(:keys AS bigint[]), CAST(:ids AS bigint[])) AS given (key, text_id)"
)


def add_in_bulk(session: Session, task_id: int, names: Sequence[str], texts: Sequence[MeasuredText]) -> None:
    """Add texts that belong to no example to the index, with all of their keys."""
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        # There is one writer at a time, so these ids are free.
        last = int(session.scalar(text("SELECT coalesce(max(id), 0) FROM known_text")) or 0)
        ids = list(range(last + 1, last + 1 + len(texts)))
        rows = zip(ids, names, texts, strict=True)
        connection.exec_driver_sql(
            _SQLITE_TEXTS, [(own, task_id, name, one.context, one.text) for own, name, one in rows]
        )
        connection.exec_driver_sql(_SQLITE_KEYS, [(task_id, key, own) for key, own in _keys(ids, texts)])
        return
    values = {
        "task": task_id,
        "names": list(names),
        "contexts": [one.context for one in texts],
        "texts": [one.text for one in texts],
    }
    ids = sorted(session.execute(_POSTGRESQL_TEXTS, values).scalars())
    keys = _keys(ids, texts)
    pairs = {"task": task_id, "keys": [key for key, _ in keys], "ids": [own for _, own in keys]}
    session.execute(_POSTGRESQL_KEYS, pairs)


def _keys(ids: Sequence[int], texts: Sequence[MeasuredText]) -> list[tuple[int, int]]:
    """Return the keys with the ids of their texts, sorted: neighbours are written to the same pages."""
    return sorted({(key, own) for own, one in zip(ids, texts, strict=True) for key in one.keys})
