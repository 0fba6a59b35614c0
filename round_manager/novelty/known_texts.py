"""The index of known texts: new examples, the rows of the seed and of imported rounds, and the texts of the contexts.

Each known text has a few MinHash keys. A look-up reads the texts that share a key with it, those with most keys in
common first, and compares a limited number of them. So it takes about as long in a task with a million texts as in one
with a thousand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, select, text
from sqlalchemy.orm import Session

from round_manager.database.columns import Id
from round_manager.database.engine import locks_rows
from round_manager.models import Duplicate, Example, KnownText, TextKey
from round_manager.models.table import table_of
from round_manager.novelty.measure import (
    BANDS,
    MeasuredText,
    has_accents,
    measured_examples,
    measured_texts,
    normal_keys,
    reads_context,
)
from templates import TaskSpec

SEED, CONTEXT, IMPORTED = "seed:", "context:", "imported:"
# The number of texts that a look-up compares: those that share most keys.
MOST_COMPARED = 40
AT_ONCE = 2_000
LOCK = 0x6F75_7466
# Without the mapped classes, whose rows cost more than reading or storing them: a seed has ten thousand keys, and each
# attempt on a page runs the queries.
_TEXTS, _KEYS = table_of(KnownText), table_of(TextKey)
_KEY_NAMES = [f"key_{number}" for number in range(BANDS + 1)]
_SHARING_KEYS = (
    select(_KEYS.c.text_id)
    .where(_KEYS.c.task_id == bindparam("task_id"), _KEYS.c.key.in_([bindparam(name, type_=Id) for name in _KEY_NAMES]))
    .group_by(_KEYS.c.text_id)
    .order_by(func.count().desc(), _KEYS.c.text_id)
    .limit(MOST_COMPARED)
)
_OF_IDS = (
    select(_TEXTS.c.id, _TEXTS.c.name, _TEXTS.c.example_id, _TEXTS.c.context, _TEXTS.c.text)
    .where(_TEXTS.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(_TEXTS.c.id)
)


@dataclass(frozen=True)
class SimilarText:
    """A known text that is the same or nearly the same; `example_id` is None for all others."""

    id: int
    name: str
    example_id: int | None
    how: Duplicate

    @property
    def is_context(self) -> bool:
        """Whether it is the text of a context."""
        return self.name.startswith(CONTEXT)


@dataclass(frozen=True)
class NewText:
    """A text to be added to the index, with its name and its example if it has one."""

    name: str
    measured: MeasuredText
    example_id: int | None = None
    keys: int = BANDS


def name_of(example: Example) -> str:
    """Return the name of an example in the index and in archives."""
    return example.public_id.hex


def lock_texts(session: Session, task_ids: Iterable[int]) -> None:
    """Lock the tasks' indexes until the transaction ends: of two equal texts at the same time, one sees the other.

    Take this lock before the budget's. SQLite has one writer at a time anyway.
    """
    if locks_rows(session):
        for task_id in sorted(set(task_ids)):
            session.execute(text("SELECT pg_advisory_xact_lock(:of, :task)"), {"of": LOCK, "task": task_id})


def similar_texts(session: Session, task_id: int, measured: MeasuredText, near: float) -> list[SimilarText]:
    """Return the known texts that are at least this similar, oldest first; the same ones before the others.

    Without its context, a text is compared with those of the contexts: only the same one counts, because a small change
    of a premise, for example, is a fair hypothesis.
    """
    bare = measured.keys[0] if measured.bare_key is None else measured.bare_key
    keys = dict(zip(_KEY_NAMES, (*measured.keys, bare), strict=True))
    ids = session.scalars(_SHARING_KEYS, {"task_id": task_id, **keys}).all()
    found = []
    for text_id, name, example_id, context, known in session.execute(_OF_IDS, {"ids": ids}) if ids else ():
        if known == measured.text and (context == measured.context or name.startswith(CONTEXT)):
            found.append(SimilarText(text_id, name, example_id, Duplicate.EXACT))
        elif context == measured.context and measured.is_near(known, near):
            found.append(SimilarText(text_id, name, example_id, Duplicate.NEAR))
    return sorted(found, key=lambda one: one.how is not Duplicate.EXACT)


def add_texts(session: Session, task_id: int, texts: Sequence[NewText]) -> None:
    """Add texts to the index."""
    connection = session.connection()
    for first in range(0, len(texts), AT_ONCE):
        some = texts[first : first + AT_ONCE]
        rows = [
            {
                "task_id": task_id,
                "name": one.name,
                "example_id": one.example_id,
                "context": one.measured.context,
                "text": one.measured.text,
            }
            for one in some
        ]
        added = insert(_TEXTS).returning(_TEXTS.c.id, sort_by_parameter_order=True)
        ids = connection.execute(added, rows).scalars().all()
        keys = [
            {"task_id": task_id, "key": key, "text_id": text_id}
            for text_id, one in zip(ids, some, strict=True)
            for key in set(one.measured.keys[: one.keys])
        ]
        connection.execute(insert(_KEYS), keys)


def remove_texts(session: Session, texts: Sequence[KnownText]) -> None:
    """Remove texts from the index."""
    for row in texts:
        keys = normal_keys(row.text, row.context)
        session.execute(
            delete(TextKey).where(TextKey.task_id == row.task_id, TextKey.key.in_(keys), TextKey.text_id == row.id)
        )
        session.execute(delete(KnownText).where(KnownText.id == row.id))


def remove_example(session: Session, example: Example) -> None:
    """Remove an example from the index, if it is there."""
    remove_texts(session, session.scalars(select(KnownText).where(KnownText.example_id == example.id)).all())


def update_seed(session: Session, task_id: int, spec: TaskSpec, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Make these rows, with their ids, the task's seed in the index."""
    texts = [
        NewText(f"{SEED}{own_id}", measured)
        for (own_id, _), measured in zip(rows, measured_examples(spec, [fields for _, fields in rows]), strict=True)
    ]
    _replace(session, task_id, SEED, texts)


def add_contexts(session: Session, task_id: int, spec: TaskSpec, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Add contexts, with their keys, that are not in the index yet; contexts never change."""
    known: set[str] = set()
    for first in range(0, len(rows), AT_ONCE):
        names = [f"{CONTEXT}{key}" for key, _ in rows[first : first + AT_ONCE]]
        known.update(session.scalars(select(KnownText.name).where(*_given(task_id), KnownText.name.in_(names))))
    add_texts(session, task_id, [one for one in context_texts(spec, rows) if one.name not in known])


def context_texts(spec: TaskSpec, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[NewText]:
    """Return the texts of contexts that an example could repeat; longer ones cannot be similar to any."""
    most = max((field.max_chars for field in spec.with_role("input")), default=0) * 2
    names = [field.name for field in spec.with_role("context")]
    shown = [(key, str(fields[name])) for key, fields in rows for name in names if fields.get(name)]
    shown = [(key, text) for key, text in shown if len(text) <= most]
    measured = measured_texts([text for _, text in shown], [None] * len(shown), accents=has_accents(spec))
    # Where only the same text counts, one key finds it.
    keys = 1 if reads_context(spec) else BANDS
    return [NewText(f"{CONTEXT}{key}", one, keys=keys) for (key, _), one in zip(shown, measured, strict=True)]


def _replace(session: Session, task_id: int, prefix: str, texts: Sequence[NewText]) -> None:
    there = session.scalars(select(KnownText).where(*_given(task_id), KnownText.name.startswith(prefix)))
    known = {(row.name, row.context, row.text): row for row in there}
    wanted = {(one.name, one.measured.context, one.measured.text): one for one in texts}
    remove_texts(session, [row for key, row in known.items() if key not in wanted])
    add_texts(session, task_id, [one for key, one in wanted.items() if key not in known])


def _given(task_id: int) -> tuple[ColumnElement[bool], ...]:
    """Return the condition for the texts that the owner gave."""
    return KnownText.task_id == task_id, KnownText.example_id.is_(None)
