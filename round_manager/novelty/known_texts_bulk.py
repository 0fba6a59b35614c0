"""Many known texts at once: rows as the driver takes them, since a million texts have eight million keys."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.orm import Session

from round_manager.novelty.measure import MeasuredText

_SQLITE_TEXTS = "INSERT INTO known_text (id, task_id, name, context, text) VALUES (?, ?, ?, ?, ?)"
# A short text can have a key twice.
_SQLITE_KEYS = "INSERT INTO text_key (task_id, key, text_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_POSTGRESQL_TEXTS = text(
    "INSERT INTO known_text (task_id, name, context, text)"
    " SELECT :task, name, context, text FROM unnest(CAST(:names AS text[]), CAST(:contexts AS bigint[]),"
    " CAST(:texts AS text[])) WITH ORDINALITY AS given (name, context, text, place) ORDER BY place RETURNING id"
)
_POSTGRESQL_KEYS = text(
    "INSERT INTO text_key (task_id, key, text_id)"
    " SELECT :task, key, text_id FROM unnest(CAST(:keys AS bigint[]), CAST(:ids AS bigint[])) AS given (key, text_id)"
    " ON CONFLICT DO NOTHING"
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
        keys, owners = _keys(ids, texts)
        connection.exec_driver_sql(_SQLITE_KEYS, [(task_id, key, own) for key, own in zip(keys, owners, strict=True)])
        return
    values = {
        "task": task_id,
        "names": list(names),
        "contexts": [one.context for one in texts],
        "texts": [one.text for one in texts],
    }
    ids = sorted(session.execute(_POSTGRESQL_TEXTS, values).scalars())
    keys, owners = _keys(ids, texts)
    session.execute(_POSTGRESQL_KEYS, {"task": task_id, "keys": keys, "ids": owners})


def _keys(ids: Sequence[int], texts: Sequence[MeasuredText]) -> tuple[list[int], list[int]]:
    """Return the keys with the ids of their texts, in the order of the keys: neighbours go to the same pages."""
    # Commands that add no texts start faster without it.
    import numpy as np

    keys = np.array([one.keys for one in texts], np.int64)
    order = np.argsort(keys, axis=None)
    return keys.ravel()[order].tolist(), np.repeat(np.array(ids, np.int64), keys.shape[1])[order].tolist()
