"""The rows of a round for its archive, read in batches, in an order that does not depend on the database."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Integer, Select, and_, cast, func, or_, select, true
from sqlalchemy.orm import Session, aliased

from common.database import EPOCH, MICROSECOND
from outfox.schemas import TEXT
from round_manager.archive.duplicates import DecidedBatch, WrittenBatch, written_batch
from round_manager.archive.tables import ArchiveTables, Columns, StoredAttempts, StoredExamples
from round_manager.archive.withheld import attempts_without, examples_without
from round_manager.bulk_rows import ColumnBatch, ColumnReader, PlainRows, RawColumns
from round_manager.database.columns import equals_unindexed, json_text
from round_manager.models import (
    Attempt,
    Context,
    Example,
    ExampleStatus,
    ModelVersion,
    Round,
    RoundModel,
    SessionStatus,
    Table,
    Task,
    Vote,
    WorkSession,
    spec_of,
)
from round_manager.pseudonyms import NameLookup, chunks, pseudonyms

BATCH, TEXTS = 20_000, 10_000
Told = TypeVar("Told")
Done = TypeVar("Done")
FIRST = UUID(int=0)
NUMBER, SMALL = pa.int64(), pa.int32()
# The plain columns that are read of each row besides its JSON; times are in microseconds.
EXAMPLE = pa.schema(
    {
        "id": TEXT, "number": NUMBER, "context": NUMBER, "key": TEXT, "author": NUMBER, "model": NUMBER, "source": TEXT,
        "status": TEXT, "split": TEXT, "label": TEXT, "gold_label": TEXT, "tries": SMALL, "active_ms": NUMBER,
        "fooled": SMALL, "submitted_at": NUMBER, "decided_at": NUMBER, "duplicate": TEXT, "duplicate_of": TEXT,
    }
)  # fmt: skip
VOTE = pa.schema(
    {
        "example": NUMBER, "worker": NUMBER, "label": TEXT, "flag": TEXT, "comment": TEXT, "source": TEXT,
        "voted_at": NUMBER, "active_ms": NUMBER, "established": SMALL,
    }
)  # fmt: skip
ATTEMPT = pa.schema(
    {
        "id": TEXT, "example": TEXT, "worker": NUMBER, "context": NUMBER, "key": TEXT, "number": SMALL, "label": TEXT,
        "model": NUMBER, "fooled": SMALL, "latency_us": NUMBER, "source": TEXT, "asked_at": NUMBER,
    }
)  # fmt: skip
WRITTEN = pa.schema({"id": TEXT, "author": NUMBER, "content": TEXT})


@dataclass(frozen=True)
class ArchiveRules:
    """Which rows of a round are archived: those up to the last ids of its first freeze, and only confirmed work.

    Withheld examples serve as gold: they are left out, with their votes and attempts. With `only`, the examples are
    these.

    Rounds that were frozen before `last_assignment` was recorded keep the rows of pages that were never confirmed, so
    that their archives stay the same.
    """

    last_attempt: int
    last_assignment: int | None
    withheld: Sequence[int] = ()
    only: Sequence[int] | None = None

    @property
    def examples(self) -> ColumnElement[bool]:
        """The condition on examples."""
        if self.only is not None:
            return Example.id.in_(self.only)
        confirmed = true() if self.last_assignment is None else Example.status != ExampleStatus.UNCONFIRMED
        return and_(confirmed, examples_without(self.withheld))

    @property
    def attempts(self) -> ColumnElement[bool]:
        """The condition on attempts, which are joined with their sessions."""
        made = and_(Attempt.id <= self.last_attempt, attempts_without(self.withheld))
        if self.last_assignment is None:
            return made
        confirmed = and_(
            WorkSession.status == SessionStatus.CONFIRMED, WorkSession.assignment_id <= self.last_assignment
        )
        return and_(made, or_(Attempt.session_id.is_(None), confirmed))


def count_archived_attempts(session: Session, round: Round, rules: ArchiveRules) -> int:
    """Return how many attempts of a round are archived."""
    made = select(func.count()).select_from(Attempt).outerjoin(WorkSession, WorkSession.id == Attempt.session_id)
    return session.scalar(made.where(Attempt.round_id == round.id, rules.attempts)) or 0


class Beside(Protocol):
    """Applies a function to each item in order, possibly while the next one is read, as `map` does."""

    def __call__(self, do: Callable[[Told], Done], told: Iterable[Told], /) -> Iterator[Done]: ...


class RoundRows:
    """The rows of one round, as of the session's transaction."""

    def __init__(
        self,
        session: Session,
        task: Task,
        round: Round,
        *,
        rules: ArchiveRules,
        decided: bool = False,
        beside: Beside = map,
        batch: int = BATCH,
    ) -> None:
        self._session = session
        self._round = round
        self._rules = rules
        self._beside = beside
        self._batch = batch
        self._columnwise = ColumnReader(session)
        self._plain = self._columnwise.plain
        self._workers = pseudonyms(session, task)
        self._contexts = UsedContexts(self._plain)
        versions = select(ModelVersion.id, ModelVersion.name)
        self._versions = NameLookup(lambda ids: self._pairs(versions.where(ModelVersion.id.in_(ids))))
        self.tables = ArchiveTables(Columns(spec_of(round), decided), round.number)

    def examples(self) -> Iterator[StoredExamples]:
        """Yield batches of examples in the order of their ids, each with its votes; `tables` converts them."""
        for rows, votes in self._beside(_both_gathered, self._told_examples()):
            self._contexts.add(rows["context"])
            yield StoredExamples(
                rows,
                self._workers.column(rows["author"]),
                self._versions.column(rows["model"]),
                votes,
                self._workers.column(votes["worker"]),
            )

    def attempts(self) -> Iterator[StoredAttempts]:
        """Yield batches of attempts in the order of time and id."""
        for rows in self._beside(RawColumns.gathered, self._told_attempts()):
            self._contexts.add(rows["context"])
            worker, version = self._workers.column(rows["worker"]), self._versions.column(rows["model"])
            yield StoredAttempts(rows, worker, version)

    def contexts(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of the contexts that examples and attempts used, by key; read examples and attempts first."""
        columns = self.tables.columns
        for keys, fields in self._contexts.batches(self._batch):
            shown = columns.fields_of(fields, columns.named("context"))
            yield self.tables.table(columns.contexts, len(keys), {"id": keys, **shown})

    def models(self) -> pa.RecordBatch:
        """Return the pinned model versions by rank."""
        parent = aliased(ModelVersion)
        found = select(RoundModel.rank, ModelVersion, parent.name)
        found = found.join(ModelVersion, ModelVersion.id == RoundModel.model_version_id)
        found = found.outerjoin(parent, parent.id == ModelVersion.parent_id)
        rows = self._session.execute(found.where(RoundModel.round_id == self._round.id).order_by(RoundModel.rank)).all()
        schema = self.tables.columns.models
        values: dict[str, list[Any]] = {name: [] for name in schema.names if name != "round"}
        for rank, version, parent_name in rows:
            told = {"version": version.name, "rank": rank, "parent": parent_name}
            for name, column in values.items():
                value = told[name] if name in told else getattr(version, name)
                column.append(json_text(value) if isinstance(value, dict) else value)
        return self.tables.table(schema, len(rows), values)

    def _told_examples(self) -> Iterator[tuple[RawColumns, RawColumns]]:
        plain, shape = self._plain, self.tables.columns
        columns = [
            plain.hex(Example.public_id).label("id"), Example.id.label("number"), Example.context_id.label("context"),
            _key_of(Example), Example.author_id.label("author"), Example.model_version_id.label("model"),
            *_plainly(plain, Example, "source", "status", "split"), Example.label, Example.gold_label,
            Example.tries, Example.active_ms, cast(Example.fooled, Integer).label("fooled"),
            *_micros(plain, Example, "submitted_at", "decided_at"),
            *_plainly(plain, Example, "duplicate"), Example.duplicate_of,
            *_objects(plain, Example, "fields", "explanation", "answer", "gold_answer", "verdict"),
        ]  # fmt: skip
        objects = ["fields", "verdict", *(["explanation"] if shape.reasons else [])]
        objects += [f"{prefix}{name}" for prefix in ("", "gold_") for name in shape.answers]
        last = FIRST
        while True:
            wanted = select(*columns).where(
                equals_unindexed(Example.round_id, self._round.id), Example.public_id > last, self._rules.examples
            )
            wanted = wanted.order_by(Example.public_id).limit(self._batch)
            told = self._columnwise.ask(wanted, EXAMPLE, objects)
            if not told:
                return
            upto = UUID(hex=told.last("id"))
            yield told, self._votes(last, upto)
            last = upto

    def _told_attempts(self) -> Iterator[RawColumns]:
        plain = self._plain
        columns = [
            plain.hex(Attempt.public_id).label("id"), plain.hex(Example.public_id).label("example"),
            Attempt.worker_id.label("worker"), Attempt.context_id.label("context"), _key_of(Attempt), Attempt.number,
            Attempt.label, Attempt.model_version_id.label("model"), cast(Attempt.fooled, Integer).label("fooled"),
            Attempt.latency_us, *_plainly(plain, Attempt, "source"), *_micros(plain, Attempt, "asked_at"),
            *_objects(plain, Attempt, "fields", "answer", "verdict"),
        ]  # fmt: skip
        objects = ["fields", "verdict", *self.tables.columns.answers]
        last, at = FIRST, EPOCH
        while True:
            wanted = select(*columns).outerjoin(Example, and_(Example.id == Attempt.example_id, self._rules.examples))
            wanted = wanted.outerjoin(WorkSession, WorkSession.id == Attempt.session_id)
            wanted = wanted.where(
                Attempt.task_id == self._round.task_id,
                Attempt.asked_at >= at,
                or_(Attempt.asked_at > at, Attempt.public_id > last),
                equals_unindexed(Attempt.round_id, self._round.id),
                self._rules.attempts,
            )
            wanted = wanted.order_by(Attempt.asked_at, Attempt.public_id).limit(self._batch)
            told = self._columnwise.ask(wanted, ATTEMPT, objects)
            if not told:
                return
            last, at = UUID(hex=told.last("id")), EPOCH + told.last("asked_at") * MICROSECOND
            yield told

    def _votes(self, after: UUID, upto: UUID) -> RawColumns:
        plain = self._plain
        columns = [
            Vote.example_id.label("example"), Vote.worker_id.label("worker"), Vote.label, Vote.flag, Vote.comment,
            *_plainly(plain, Vote, "source"), *_micros(plain, Vote, "voted_at"), Vote.active_ms,
            cast(Vote.established, Integer).label("established"),
            *_objects(plain, Vote, "answer"),
        ]  # fmt: skip
        wanted = select(*columns).join(Example, Example.id == Vote.example_id)
        wanted = wanted.where(equals_unindexed(Example.round_id, self._round.id))
        wanted = wanted.where(Example.public_id > after, Example.public_id <= upto, self._rules.examples)
        return self._columnwise.ask(wanted, VOTE, self.tables.columns.answers)

    def _pairs(self, statement: Select[int, str]) -> Iterable[tuple[int, str]]:
        return [(row[0], row[1]) for row in self._plain.fetch(statement)]


def _both_gathered(told: tuple[RawColumns, RawColumns]) -> tuple[ColumnBatch, ColumnBatch]:
    examples, votes = told
    return examples.gathered(), votes.gathered()


def _key_of(table: type[Example] | type[Attempt]) -> Any:
    """Return the key of the row's context; a subquery, because a join may read all contexts for every batch."""
    return select(Context.key).where(Context.id == table.context_id).scalar_subquery().label("key")


def _plainly(plain: PlainRows, table: type[Table], *names: str) -> list[Any]:
    return [plain.word(getattr(table, name)).label(name) for name in names]


def _micros(plain: PlainRows, table: type[Table], *names: str) -> list[Any]:
    return [plain.micros(getattr(table, name)).label(name) for name in names]


def _objects(plain: PlainRows, table: type[Table], *names: str) -> list[Any]:
    return [plain.json(getattr(table, name)).label(name) for name in names]


class StoredTexts:
    """The texts of a round's verified examples that are not withheld, for its splits."""

    def __init__(self, session: Session, task: Task, round: Round, withheld: Sequence[int]) -> None:
        self._columnwise = ColumnReader(session)
        self._round_id = round.id
        self._withheld = withheld
        self._columns = Columns(spec_of(round))
        self.workers = pseudonyms(session, task)

    def batches(self) -> Iterator[WrittenBatch]:
        """Yield batches in the order of the examples' public ids."""
        plain, spec, last = self._columnwise.plain, self._columns.spec, FIRST
        columns = (
            plain.hex(Example.public_id).label("id"),
            Example.author_id.label("author"),
            Example.content_sha256.label("content"),
            plain.json(Example.fields).label("fields"),
        )
        names = [(name, name) for name in spec.model_input]
        while True:
            wanted = select(*columns).where(
                equals_unindexed(Example.round_id, self._round_id),
                Example.public_id > last,
                Example.status == ExampleStatus.VERIFIED,
                examples_without(self._withheld),
            )
            rows = self._columnwise.fetch(wanted.order_by(Example.public_id).limit(TEXTS), WRITTEN, ["fields"])
            if not len(rows):
                return
            ids, contents = rows["id"].to_pylist(), rows["content"].to_pylist()
            last = UUID(hex=ids[-1])
            texts = self._columns.fields_of(rows.objects["fields"], names)
            yield written_batch(spec, ids, self.workers.column(rows["author"]).to_pylist(), contents, texts)


class StoredDecisions:
    """The round's verified examples that are not withheld, with the decision whether they are new, for its splits."""

    def __init__(self, session: Session, task: Task, round: Round, withheld: Sequence[int]) -> None:
        self._plain = PlainRows(session)
        self._round_id = round.id
        self._withheld = withheld
        self.workers = pseudonyms(session, task)

    def batches(self) -> Iterator[DecidedBatch]:
        """Yield batches in the order of the examples' public ids."""
        plain, last = self._plain, FIRST
        columns = (plain.hex(Example.public_id), Example.author_id, plain.word(Example.duplicate))
        while True:
            wanted = select(*columns).where(
                equals_unindexed(Example.round_id, self._round_id),
                Example.public_id > last,
                Example.status == ExampleStatus.VERIFIED,
                examples_without(self._withheld),
            )
            rows = plain.fetch(wanted.order_by(Example.public_id).limit(TEXTS))
            if not rows:
                return
            ids, authors, duplicates = zip(*rows, strict=True)
            last = UUID(hex=ids[-1])
            yield DecidedBatch(ids, self.workers.of(authors), duplicates)


class UsedContexts:
    """Collects the ids of the contexts that were used, and reads their texts in batches at the end."""

    def __init__(self, plain: PlainRows) -> None:
        self._plain = plain
        self._ids: NDArray[np.int64] = np.array([], np.int64)

    def add(self, contexts: pa.Array) -> None:
        """Add the contexts that are not null."""
        self._ids = np.union1d(self._ids, contexts.unique().drop_null().to_numpy())

    def batches(self, size: int) -> Iterator[tuple[pa.Array, bytes]]:
        """Yield all collected contexts by key in batches: the keys, and the fields as JSON, one object per line.

        If there are none, it yields one empty batch, so that the table still has a schema.
        """
        order = pc.sort_indices(self._keys(self._ids)).to_numpy()
        for first in range(0, max(1, len(order)), size):
            numbers = self._ids[order[first : first + size]]
            fields = {}
            for some in chunks(numbers.tolist()):
                shown = select(Context.id, self._plain.json(Context.fields)).where(Context.id.in_(some))
                fields.update({row[0]: row[1] for row in self._plain.fetch(shown)})
            yield self._keys(numbers), "\n".join(fields[number] for number in numbers.tolist()).encode()

    def _keys(self, numbers: NDArray[np.int64]) -> pa.Array:
        found = [pa.array([], pa.string())]
        for some in chunks(numbers.tolist()):
            rows = self._plain.fetch(select(Context.id, Context.key).where(Context.id.in_(some)))
            keys = {row[0]: row[1] for row in rows}
            found.append(pa.array([keys[number] for number in some], pa.string()))
        return pa.concat_arrays(found)
