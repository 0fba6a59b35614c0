"""Splitting a closed round: the plan, carried out on its examples and written down."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import pyarrow as pa
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from common.clock import Clock
from round_manager.archive.duplicates import WrittenBatch
from round_manager.archive.split_plan import Sides, SplitPlan, SplitReport, plan_splits
from round_manager.archive.tables import TEXT, Columns
from round_manager.audit import note
from round_manager.bulk_rows import ColumnReader, NameLookup, PlainRows, pseudonyms
from round_manager.database.columns import equals_unindexed
from round_manager.database.locks import process_lock
from round_manager.database.store import Store
from round_manager.errors import RoundError
from round_manager.models import AuditEntry, Example, ExampleStatus, Round, RoundStatus, Split, Task
from round_manager.specs import spec_of

__all__ = ["SplitReport", "split_report", "split_round", "split_with_pauses"]

BATCH = 10_000
ACTION = "split"
WRITTEN = pa.schema({"id": TEXT, "author": pa.int64(), "content": TEXT})
WHO, WHY = "outfox", "the round is closed"


def split_round(session: Session, round: Round, *, now: datetime, who: str = WHO) -> SplitReport:
    """Every verified example of a closed round is in train, held out, or unused as a duplicate; done once."""
    done = split_report(session, round)
    if done is not None:
        return done
    drawn = _draw(session, round)
    last = 0
    while (last := _carry_out(session, round, drawn, last)) >= 0:
        pass
    _write_down(session, round, drawn.report, who, now)
    return drawn.report


def split_with_pauses(store: Store, round_id: int, clock: Clock, *, who: str = WHO) -> SplitReport:
    """The same in small transactions, so that others can write meanwhile; killed and begun again it ends the same."""
    with store.read() as session:
        round = session.get_one(Round, round_id)
    # Of two rounds that were split at once, neither would keep the sides that the other gives.
    with process_lock(store, f"split-{round.task_id}"):
        return _split_with_pauses(store, round, clock, who)


def _split_with_pauses(store: Store, round: Round, clock: Clock, who: str) -> SplitReport:
    with store.read() as session:
        done = split_report(session, round)
        if done is not None:
            return done
        drawn = _draw(session, round)
    last = 0
    while last >= 0:
        with store.write() as session:
            last = _carry_out(session, round, drawn, last)
    with store.write() as session:
        _write_down(session, session.get_one(Round, round.id), drawn.report, who, clock.now())
    return drawn.report


def split_report(session: Session, round: Round) -> SplitReport | None:
    """How the round was split, if it was."""
    entries = select(AuditEntry.after).where(AuditEntry.round_id == round.id, AuditEntry.action == ACTION)
    after = session.scalar(entries.order_by(AuditEntry.id).limit(1))
    return SplitReport.read(after) if after else None


def split_seed(task: str, number: int) -> str:
    """What a round's splits are drawn from, besides ids and pseudonyms."""
    return f"{task}/{number}"


class StoredTexts:
    """The verified examples of a round in a database."""

    def __init__(self, session: Session, task: Task, round: Round) -> None:
        self._columnwise = ColumnReader(session)
        self._round_id = round.id
        self._columns = Columns(spec_of(round))
        self.workers = pseudonyms(session, task)

    def batches(self) -> Iterator[WrittenBatch]:
        """By the examples' public ids."""
        plain, last = self._columnwise.plain, UUID(int=0)
        columns = (
            plain.hex(Example.public_id).label("id"),
            Example.author_id.label("author"),
            Example.content_sha256.label("content"),
            plain.json(Example.fields).label("fields"),
        )
        while True:
            wanted = select(*columns).where(
                equals_unindexed(Example.round_id, self._round_id), Example.public_id > last
            )
            wanted = wanted.where(Example.status == ExampleStatus.VERIFIED)
            rows = self._columnwise.fetch(wanted.order_by(Example.public_id).limit(BATCH), WRITTEN, ["fields"])
            if not len(rows):
                return
            ids, contents = rows["id"].to_pylist(), rows["content"].to_pylist()
            last = UUID(hex=ids[-1])
            names = [(name, name) for name in self._columns.spec.model_input]
            texts = self._columns.fields_of(rows.objects["fields"], names)
            yield written(self._columns, ids, self.workers.column(rows["author"]).to_pylist(), contents, texts)


def written(columns: Columns, ids: Any, authors: Any, contents: Any, texts: dict[str, pa.Array]) -> WrittenBatch:
    """What the model reads, told apart into what was shown and what the author wrote."""
    spec = columns.spec
    own = [texts[field.name] for field in spec.with_role("input") if field.name in spec.model_input]
    shown = [texts[field.name] for field in spec.with_role("context") if field.name in spec.model_input]
    blank = pa.repeat("", len(ids))
    return WrittenBatch(ids, authors, contents, _together(shown or [blank]), _together(own))


def _together(texts: list[pa.Array]) -> pa.Array:
    return texts[0] if len(texts) == 1 else pa.compute.binary_join_element_wise(*texts, "\n")


@dataclass(frozen=True)
class _Drawn:
    """What was drawn, and the pseudonyms of those who wrote what it is about."""

    plan: SplitPlan
    report: SplitReport
    workers: NameLookup


def _draw(session: Session, round: Round) -> _Drawn:
    task = session.get_one(Task, round.task_id)
    if round.status is not RoundStatus.CLOSED:
        text = f"round {round.number} of {task.name} is {round.status.value}; close it before it is split or frozen"
        raise RoundError(text)
    texts = StoredTexts(session, task, round)
    sides = _sides(session, round, texts.workers)
    plan, report = plan_splits(texts, spec_of(round).rounds, split_seed(task.name, round.number), sides)
    return _Drawn(plan, report, texts.workers)


def _sides(session: Session, round: Round, workers: NameLookup) -> Sides:
    """What the task's other rounds that are split make of the workers."""
    split = select(AuditEntry.round_id).where(AuditEntry.action == ACTION, AuditEntry.round_id.is_not(None))
    others = select(Round).where(Round.task_id == round.task_id, Round.id != round.id, Round.id.in_(split))
    rounds = session.scalars(others.order_by(Round.number)).all()
    on: dict[Split, set[str]] = {part: set() for part in Split}
    for one in rounds:
        met = select(Example.author_id, Example.split).where(Example.round_id == one.id, Example.split.is_not(None))
        rows = session.execute(met.distinct()).all()
        for (_, part), worker in zip(rows, workers.of([author for author, _ in rows]), strict=True):
            if part is not None:
                on[part].add(worker)
    train = frozenset(on[Split.TRAIN])
    return Sides(tuple(one.number for one in rounds), train, frozenset(on[Split.HELD_OUT]) - train)


def _carry_out(session: Session, round: Round, drawn: _Drawn, after: int) -> int:
    """Put the next examples where the plan says; the last one's id, or -1 when there are no more."""
    plain = PlainRows(session)
    columns = (Example.id, plain.hex(Example.public_id), Example.author_id, plain.word(Example.split))
    # All of them, not only the verified: SQLite would take another index and sort the round for every batch.
    wanted = select(*columns, plain.word(Example.status)).where(Example.round_id == round.id, Example.id > after)
    rows = plain.fetch(wanted.order_by(Example.id).limit(BATCH))
    verified = [row for row in rows if row[4] == ExampleStatus.VERIFIED]
    authors = drawn.workers.of([row[2] for row in verified])
    moved: dict[Split | None, list[int]] = defaultdict(list)
    for (number, example, _, split, _), author in zip(verified, authors, strict=True):
        part = drawn.plan.part(example, author)
        if part != split:
            moved[part].append(number)
    for part, numbers in moved.items():
        session.connection().execute(update(Example).where(Example.id.in_(_padded(numbers))).values(split=part))
    return int(rows[-1][0]) if rows else -1


def _padded(numbers: list[int]) -> list[int]:
    """The same numbers, the last one repeated up to a power of two.

    SQLite's driver keeps the last hundred kinds of statements, half a megabyte each; each length would be another kind.
    """
    return numbers + numbers[-1:] * ((1 << (len(numbers) - 1).bit_length()) - len(numbers))


def _write_down(session: Session, round: Round, report: SplitReport, who: str, now: datetime) -> None:
    note(session, ACTION, round, who=who, why=WHY, now=now, of=round, after=report.told())
