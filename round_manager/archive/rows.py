"""A round's rows as its archive has them: read in an order that no database decides, a batch at a time."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
from sqlalchemy import Integer, Select, cast, or_, select
from sqlalchemy.orm import Session, aliased

from round_manager.archive.columns import Columns
from round_manager.archive.tables import ArchiveTables, StoredAttempts, StoredExamples
from round_manager.database.columns import EPOCH, MICROSECOND, json_text
from round_manager.models import Attempt, Context, Example, ModelVersion, Round, RoundModel, Task, Vote
from round_manager.plain_rows import Names, PlainRows, chunks, pseudonyms, turned
from round_manager.specs import spec_of

BATCH = 10_000
FIRST = UUID(int=0)


class RoundRows:
    """One round's rows, for as long as the session's transaction sees one moment."""

    def __init__(self, session: Session, task: Task, round: Round, *, last_attempt: int, batch: int = BATCH) -> None:
        self._session = session
        self._round = round
        self._last_attempt = last_attempt
        self._batch = batch
        self._plain = PlainRows(session)
        self._workers = pseudonyms(session, task)
        self._contexts = Names(lambda ids: self._pairs(select(Context.id, Context.key).where(Context.id.in_(ids))))
        versions = select(ModelVersion.id, ModelVersion.name)
        self._versions = Names(lambda ids: self._pairs(versions.where(ModelVersion.id.in_(ids))))
        self._used_contexts: set[int] = set()
        self.tables = ArchiveTables(Columns(spec_of(round)), round.number)

    def examples(self) -> Iterator[StoredExamples]:
        """Batches of examples by their ids, each with the votes on them; `tables` makes tables of them."""
        plain = self._plain
        columns = [
            plain.hex(Example.public_id), Example.id, Example.context_id, Example.author_id,
            plain.word(Example.source), plain.json(Example.fields), plain.json(Example.explanation), Example.label,
            plain.json(Example.answer), plain.micros(Example.submitted_at), Example.active_ms, Example.tries,
            plain.json(Example.verdict), Example.model_version_id, Example.confidence, cast(Example.fooled, Integer),
            plain.word(Example.status), Example.gold_label, plain.json(Example.gold_answer),
            plain.micros(Example.decided_at), plain.word(Example.split),
        ]  # fmt: skip
        last = FIRST
        while True:
            wanted = select(*columns).where(plain.within(Example.round_id, self._round.id), Example.public_id > last)
            rows = plain.fetch(wanted.order_by(Example.public_id).limit(self._batch))
            if not rows:
                return
            upto = UUID(hex=rows[-1][0])
            votes = self._votes(last, upto)
            contexts, authors, versions = ([row[place] for row in rows] for place in (2, 3, 13))
            yield StoredExamples(
                rows,
                self._workers.of(authors),
                self._called(contexts),
                self._versions.of(versions),
                votes,
                self._workers.of([row[1] for row in votes]),
            )
            last = upto

    def attempts(self) -> Iterator[StoredAttempts]:
        """Batches of attempts by time and id."""
        plain = self._plain
        columns = [
            plain.hex(Attempt.public_id), plain.hex(Example.public_id), Attempt.worker_id, Attempt.context_id,
            Attempt.number, plain.json(Attempt.fields), Attempt.label, plain.json(Attempt.answer),
            plain.json(Attempt.verdict), Attempt.model_version_id, Attempt.confidence, cast(Attempt.fooled, Integer),
            Attempt.latency_us, plain.word(Attempt.source), plain.micros(Attempt.asked_at),
        ]  # fmt: skip
        last, at = FIRST, EPOCH
        while True:
            wanted = select(*columns).outerjoin(Example, Example.id == Attempt.example_id)
            wanted = wanted.where(
                Attempt.task_id == self._round.task_id,
                Attempt.asked_at >= at,
                or_(Attempt.asked_at > at, Attempt.public_id > last),
                plain.within(Attempt.round_id, self._round.id),
                Attempt.id <= self._last_attempt,
            )
            rows = plain.fetch(wanted.order_by(Attempt.asked_at, Attempt.public_id).limit(self._batch))
            if not rows:
                return
            last, at = UUID(hex=rows[-1][0]), EPOCH + rows[-1][-1] * MICROSECOND
            workers, contexts, versions = ([row[place] for row in rows] for place in (2, 3, 9))
            yield StoredAttempts(rows, self._workers.of(workers), self._called(contexts), self._versions.of(versions))

    def contexts(self) -> pa.RecordBatch:
        """The contexts that examples and attempts were written for; read those first."""
        rows: list[Any] = []
        for ids in chunks(sorted(self._used_contexts)):
            rows += self._plain.fetch(select(Context.key, self._plain.json(Context.fields)).where(Context.id.in_(ids)))
        rows.sort(key=lambda row: str(row[0]))
        keys, fields = turned(rows, 2)
        columns = self.tables.columns
        shown = columns.fields_of(fields, columns.named("context"))
        return self.tables.table(columns.contexts, len(rows), {"id": keys, **shown})

    def models(self) -> pa.RecordBatch:
        """The pinned model versions by rank."""
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

    def _votes(self, after: UUID, upto: UUID) -> Sequence[Any]:
        plain = self._plain
        columns = [
            Vote.example_id, Vote.worker_id, Vote.label, plain.json(Vote.answer), Vote.flag, Vote.comment,
            plain.word(Vote.source), plain.micros(Vote.voted_at), Vote.active_ms,
        ]  # fmt: skip
        wanted = select(*columns).join(Example, Example.id == Vote.example_id)
        wanted = wanted.where(plain.within(Example.round_id, self._round.id))
        return plain.fetch(wanted.where(Example.public_id > after, Example.public_id <= upto))

    def _called(self, contexts: Sequence[int | None]) -> list[Any]:
        self._used_contexts.update(one for one in set(contexts) if one is not None)
        return self._contexts.of(contexts)

    def _pairs(self, statement: Select[int, str]) -> Iterable[tuple[int, str]]:
        return [(row[0], row[1]) for row in self._plain.fetch(statement)]
