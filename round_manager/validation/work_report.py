"""What each person did in a period, and what it pays: for the invoice of a vendor, and for the owner's records.

Work counts on the day on which it was submitted, and money on the day on which it became owed. Only confirmed work
counts. The report names people, so it is for those who pay them; archives and `/data` know pseudonyms only.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from round_manager.models import (
    Assignment,
    EntryState,
    Example,
    Hit,
    LedgerEntry,
    Round,
    Source,
    Vote,
    Worker,
    WorkSession,
    spec_of,
)
from round_manager.rates import Rate
from round_manager.tasks.groups import groups_of_workers
from round_manager.tasks.rounds import NOT_COUNTED
from round_manager.validation.decisions import VoteCounter, VoteValue

ON_THE_WAY = (EntryState.OWED, EntryState.SENT)


@dataclass(frozen=True)
class Period:
    """From the first moment on, until the last one without it; a task and the workers may be limited."""

    since: datetime
    until: datetime
    task_id: int | None = None
    workers: frozenset[int] | None = None

    def covers(self, at: Any, worker: Any, task: Any) -> list[Any]:
        """Return the SQL conditions for rows of this period."""
        limits = [] if self.task_id is None else [task == self.task_id]
        if self.workers is not None:
            limits.append(worker.in_(self.workers))
        return [at >= self.since, at < self.until, *limits]


@dataclass(frozen=True)
class PersonWork:
    """One person's work and pay; amounts are without fees. `agreed` are their votes on examples with a gold label."""

    worker_id: str
    name: str
    groups: tuple[str, ...]
    written: int
    fooling: int
    verified_fooling: int
    validated: int
    agreed: Rate
    empty_hits: int
    hours: float
    owed_cents: int
    sent_cents: int


@dataclass
class _Totals:
    written: Counter[int] = field(default_factory=Counter)
    fooling: Counter[int] = field(default_factory=Counter)
    verified: Counter[int] = field(default_factory=Counter)
    votes: Counter[int] = field(default_factory=Counter)
    compared: Counter[int] = field(default_factory=Counter)
    agreed: Counter[int] = field(default_factory=Counter)
    empty: Counter[int] = field(default_factory=Counter)
    milliseconds: Counter[int] = field(default_factory=Counter)
    owed: Counter[int] = field(default_factory=Counter)
    sent: Counter[int] = field(default_factory=Counter)

    def people(self) -> set[int]:
        """Return everyone who did anything."""
        return {one for counts in vars(self).values() for one in counts}


def report_work(session: Session, period: Period) -> list[PersonWork]:
    """Return what each person did in a period, by name."""
    totals = _Totals()
    _count_examples(session, period, totals)
    _count_votes(session, period, totals)
    _count_assignments(session, period, totals)
    _count_money(session, period, totals)
    groups = groups_of_workers(session)
    found = [
        PersonWork(
            worker_id=worker.external_id,
            name=worker.name or "",
            groups=tuple(groups.get(worker.id, ())),
            written=totals.written[worker.id],
            fooling=totals.fooling[worker.id],
            verified_fooling=totals.verified[worker.id],
            validated=totals.votes[worker.id],
            agreed=Rate(totals.agreed[worker.id], totals.compared[worker.id]),
            empty_hits=totals.empty[worker.id],
            hours=round(totals.milliseconds[worker.id] / 3_600_000, 2),
            owed_cents=totals.owed[worker.id],
            sent_cents=totals.sent[worker.id],
        )
        for worker in _workers(session, totals.people())
    ]
    return sorted(found, key=lambda one: (one.name == "", one.name.casefold(), one.worker_id))


def _workers(session: Session, ids: Collection[int]) -> Iterator[Worker]:
    yield from session.scalars(select(Worker).where(Worker.id.in_(ids)))


def _count_examples(session: Session, period: Period, totals: _Totals) -> None:
    wanted = (
        select(
            Example.author_id, Example.fooled, Example.status, Example.source,
            func.count(), func.coalesce(func.sum(Example.active_ms), 0),
        )
        .where(*period.covers(Example.submitted_at, Example.author_id, Example.task_id))
        .where(Example.status.not_in(NOT_COUNTED))
        .group_by(Example.author_id, Example.fooled, Example.status, Example.source)
    )  # fmt: skip
    for author, fooled, status, source, number, active_ms in session.execute(wanted):
        totals.written[author] += number
        totals.fooling[author] += number if fooled else 0
        totals.verified[author] += number if fooled and status.value == "verified" else 0
        if source is Source.LABEL_STUDIO:  # On pages, time belongs to assignments.
            totals.milliseconds[author] += int(active_ms or 0)


def _count_votes(session: Session, period: Period, totals: _Totals) -> None:
    wanted = (
        select(
            Vote.worker_id, Vote.source, Vote.active_ms, Vote.label, Vote.answer, Vote.flag,
            Example.round_id, Example.gold_label, Example.gold_answer,
        )
        .join(Example, Example.id == Vote.example_id)
        .where(*period.covers(Vote.voted_at, Vote.worker_id, Example.task_id))
        .execution_options(yield_per=1_000)
    )  # fmt: skip
    counters: dict[int, VoteCounter] = {}
    for worker, source, active_ms, label, answer, flag, round_id, gold_label, gold_answer in session.execute(wanted):
        totals.votes[worker] += 1
        if source is Source.LABEL_STUDIO:
            totals.milliseconds[worker] += active_ms or 0
        if flag is None and (gold_label is not None or gold_answer is not None):
            if round_id not in counters:
                counters[round_id] = VoteCounter(spec_of(session.get_one(Round, round_id)))
            given, gold = VoteValue(label, answer).said, VoteValue(gold_label, gold_answer).said
            totals.compared[worker] += 1
            totals.agreed[worker] += counters[round_id].agree(given, gold)


def _count_assignments(session: Session, period: Period, totals: _Totals) -> None:
    wanted = (
        select(
            Assignment.worker_id,
            func.coalesce(func.sum(Assignment.active_ms), 0),
            func.count(WorkSession.empty_at),
        )
        .join(Hit, Hit.id == Assignment.hit_id)
        .outerjoin(WorkSession, WorkSession.assignment_id == Assignment.id)
        .where(*period.covers(Assignment.submitted_at, Assignment.worker_id, Hit.task_id))
        .group_by(Assignment.worker_id)
    )
    for worker, active_ms, empty in session.execute(wanted):
        totals.milliseconds[worker] += int(active_ms or 0)
        totals.empty[worker] += empty


def _count_money(session: Session, period: Period, totals: _Totals) -> None:
    entry = LedgerEntry
    wanted = (
        select(entry.worker_id, entry.state, func.sum(entry.cents))
        .where(*period.covers(entry.owed_at, entry.worker_id, entry.task_id), entry.worker_id.is_not(None))
        .where(entry.state.in_((*ON_THE_WAY, EntryState.CONFIRMED)))
        .group_by(entry.worker_id, entry.state)
    )
    for worker, state, cents in session.execute(wanted):
        of = totals.sent if state is EntryState.CONFIRMED else totals.owed
        of[worker or 0] += int(cents)
