"""Splits of a closed round: compute the plan, apply it to the examples and record it."""

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
from common.errors import Hint
from round_manager.archive.duplicates import WrittenBatch
from round_manager.archive.split_plan import Sides, SplitPlan, SplitReport, plan_splits
from round_manager.archive.tables import TEXT, Columns
from round_manager.audit import note
from round_manager.bulk_rows import ColumnReader, NameLookup, PlainRows, pseudonyms
from round_manager.database.columns import equals_unindexed
from round_manager.database.store import Store, process_lock
from round_manager.errors import RoundNotClosed
from round_manager.models import AuditEntry, Example, ExampleStatus, Round, RoundStatus, Split, Task
from round_manager.specs import spec_of

__all__ = ["SplitReport", "split_report", "split_round", "split_with_pauses"]

BATCH = 10_000
ACTION = "split"
WRITTEN = pa.schema({"id": TEXT, "author": pa.int64(), "content": TEXT})
WHO, WHY = "outfox", "the round is closed"


def split_round(session: Session, round: Round, *, now: datetime, who: str = WHO) -> SplitReport:
    """Put every verified example of a closed round into train or held out, unless it is a duplicate; done once."""
    done = split_report(session, round)
    if done is not None:
        return done
    planned = _plan(session, round)
    last = 0
    while (last := _apply(session, round, planned, last)) >= 0:
        pass
    _record(session, round, planned.report, who, now)
    return planned.report


def split_with_pauses(store: Store, round_id: int, clock: Clock, *, who: str = WHO) -> SplitReport:
    """Do the same in small transactions, so that other processes can write; safe to repeat after an interruption."""
    with store.read() as session:
        round = session.get_one(Round, round_id)
    # Two rounds that are split at the same time would not see the sides that the other one gives to workers.
    with process_lock(store, f"split-{round.task_id}"):
        return _split_with_pauses(store, round, clock, who)


def _split_with_pauses(store: Store, round: Round, clock: Clock, who: str) -> SplitReport:
    with store.read() as session:
        done = split_report(session, round)
        if done is not None:
            return done
        planned = _plan(session, round)
    last = 0
    while last >= 0:
        with store.write() as session:
            last = _apply(session, round, planned, last)
    with store.write() as session:
        _record(session, session.get_one(Round, round.id), planned.report, who, clock.now())
    return planned.report


def split_report(session: Session, round: Round) -> SplitReport | None:
    """Return how the round was split, if it was."""
    entries = select(AuditEntry.after).where(AuditEntry.round_id == round.id, AuditEntry.action == ACTION)
    after = session.scalar(entries.order_by(AuditEntry.id).limit(1))
    return SplitReport.read(after) if after else None


def split_seed(task: str, number: int) -> str:
    """Return the seed of a round's splits, which are planned from it with ids and pseudonyms."""
    return f"{task}/{number}"


class StoredTexts:
    """The verified examples of a round in a database."""

    def __init__(self, session: Session, task: Task, round: Round) -> None:
        self._columnwise = ColumnReader(session)
        self._round_id = round.id
        self._columns = Columns(spec_of(round))
        self.workers = pseudonyms(session, task)

    def batches(self) -> Iterator[WrittenBatch]:
        """Yield batches in the order of the examples' public ids."""
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
    """Return the model's inputs, separated into what was shown and what the author wrote."""
    spec = columns.spec
    own = [texts[field.name] for field in spec.with_role("input") if field.name in spec.model_input]
    shown = [texts[field.name] for field in spec.with_role("context") if field.name in spec.model_input]
    blank = pa.repeat("", len(ids))
    return WrittenBatch(ids, authors, contents, _together(shown or [blank]), _together(own))


def _together(texts: list[pa.Array]) -> pa.Array:
    return texts[0] if len(texts) == 1 else pa.compute.binary_join_element_wise(*texts, "\n")


@dataclass(frozen=True)
class _Planned:
    """The plan, its report, and the pseudonyms of the authors."""

    plan: SplitPlan
    report: SplitReport
    workers: NameLookup


def _plan(session: Session, round: Round) -> _Planned:
    task = session.get_one(Task, round.task_id)
    if round.status is not RoundStatus.CLOSED:
        text = f"round {round.number} of {task.name} is {round.status.value}; only a closed round can be split"
        raise RoundNotClosed(text, hint=Hint("close_round", task=task.name))
    texts = StoredTexts(session, task, round)
    sides = _sides(session, round, texts.workers)
    plan, report = plan_splits(texts, spec_of(round).rounds, split_seed(task.name, round.number), sides)
    return _Planned(plan, report, texts.workers)


def _sides(session: Session, round: Round, workers: NameLookup) -> Sides:
    """Return the sides that the task's other split rounds gave to workers."""
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


def _apply(session: Session, round: Round, planned: _Planned, after: int) -> int:
    """Apply the plan to the next examples; return the id of the last one, or -1 if there are no more."""
    plain = PlainRows(session)
    columns = (Example.id, plain.hex(Example.public_id), Example.author_id, plain.word(Example.split))
    # All of them, not only verified ones: SQLite would use another index and sort the round for every batch.
    wanted = select(*columns, plain.word(Example.status)).where(Example.round_id == round.id, Example.id > after)
    rows = plain.fetch(wanted.order_by(Example.id).limit(BATCH))
    verified = [row for row in rows if row[4] == ExampleStatus.VERIFIED]
    authors = planned.workers.of([row[2] for row in verified])
    moved: dict[Split | None, list[int]] = defaultdict(list)
    for (number, example, _, split, _), author in zip(verified, authors, strict=True):
        part = planned.plan.part(example, author)
        if part != split:
            moved[part].append(number)
    for part, numbers in moved.items():
        session.connection().execute(update(Example).where(Example.id.in_(_padded(numbers))).values(split=part))
    return int(rows[-1][0]) if rows else -1


def _padded(numbers: list[int]) -> list[int]:
    """Return the numbers, the last one repeated up to a power of two.

    SQLite's driver caches the last hundred statements, half a megabyte each; each length would be another statement.
    """
    return numbers + numbers[-1:] * ((1 << (len(numbers) - 1).bit_length()) - len(numbers))


def _record(session: Session, round: Round, report: SplitReport, who: str, now: datetime) -> None:
    note(session, ACTION, round, who=who, why=WHY, now=now, of=round, after=report.as_data())
