"""A task at a glance: its round, what came of it, its money, and what waits for whom.

Everything is read from tallies, sums that the ledger keeps, and what is unfinished, so a round of a million examples is
told as fast as one of ten thousand. Exact figures, recomputed from votes, are the metrics' business.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from round_manager.learning.jobs import awaited, running_job
from round_manager.loop.queues import (
    held_for_a_person,
    pages_to_confirm,
    payments_of,
    unfinished_hits,
    unsent_to_label_studio,
    work_to_decide,
)
from round_manager.loop.supply_facts import tallies_of
from round_manager.loop.waiting import waiting
from round_manager.models import EntryState, ExampleStatus, Round, RoundStatus, Task, TrainingJob
from round_manager.money.budget import Figures, figures
from round_manager.rates import Rate
from round_manager.tasks.rounds import NOT_COUNTED, list_rounds, pinned_versions

DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)


@dataclass(frozen=True)
class TaskOverview:
    """Where a task stands; `validated` examples are those that people have agreed or disagreed on."""

    task: str
    round: int
    status: str
    paused: bool
    target_fooling: int
    collected: int
    fooled: int
    validated: int
    verified_fooling: int
    versions: tuple[str, ...]
    task_money: Figures
    round_money: Figures
    queues: dict[str, int]
    waits_for: tuple[str, ...]

    @property
    def vmer(self) -> Rate:
        """The validated model error rate, by the statuses that examples have now."""
        return Rate(self.verified_fooling, self.collected)


def task_overview(session: Session, task: Task, *, now: datetime) -> TaskOverview:
    """The task as it is now, with its live round, else the last that was opened, else its draft."""
    rounds = list_rounds(session, task)
    begun = [one for one in rounds if one.status is not RoundStatus.DRAFT]
    round = (begun or rounds)[-1]
    tallies = tallies_of(session, round)
    counted = {place: number for place, number in tallies.items() if place[0] not in NOT_COUNTED}
    return TaskOverview(
        task=task.name,
        round=round.number,
        status=round.status.value,
        paused=round.paused_at is not None,
        target_fooling=round.target_fooling,
        collected=sum(counted.values()),
        fooled=sum(number for (_, fooled), number in counted.items() if fooled),
        validated=sum(number for (status, _), number in counted.items() if status in DECIDED),
        verified_fooling=tallies.get((ExampleStatus.VERIFIED, True), 0),
        versions=pinned_versions(session, round),
        task_money=figures(session, task),
        round_money=figures(session, round),
        queues=_queues(session, task, round, tallies),
        waits_for=_waits_for(session, task, round, now),
    )


def _queues(session: Session, task: Task, round: Round, tallies: dict[Any, int]) -> dict[str, int]:
    hits = unfinished_hits(session, round)
    return {
        "examples_waiting_for_votes": sum(n for (status, _), n in tallies.items() if status is ExampleStatus.PENDING),
        "examples_waiting_for_owner": sum(n for (status, _), n in tallies.items() if status is ExampleStatus.FLAGGED),
        **{f"hits_to_{kind.value}": number for kind, number in sorted(hits.items())},
        "pages_to_confirm": pages_to_confirm(session, task.id),
        "work_to_approve": work_to_decide(session, task.id),
        "payments_owed": payments_of(session, task.id, EntryState.OWED),
        "payments_in_doubt": payments_of(session, task.id, EntryState.SENT),
        "held_for_a_person": held_for_a_person(session, task.id),
        "unsent_to_label_studio": unsent_to_label_studio(session, task.id),
    }


def _waits_for(session: Session, task: Task, round: Round, now: datetime) -> tuple[str, ...]:
    if round.status is not RoundStatus.CLOSED:
        return tuple(reason.text for reason in waiting(session, round, now=now).reasons)
    if round.frozen_at is None:
        return (f"round {round.number} is closed and waits for its archive; `outfox manage` makes it",)
    job = running_job(session, task)
    if job is not None:
        return (_training(job),)
    wanted = awaited(session, task)
    if wanted is not None:
        failed = f"; {wanted.failures} trainings failed, at last: {wanted.reason}" if wanted.failures else ""
        return (f"a model waits to be trained on the rounds up to {wanted.round}; `outfox manage` does it{failed}",)
    return (f"round {round.number + 1} waits to be opened; `outfox manage` does it, or tells what it lacks",)


def _training(job: TrainingJob) -> str:
    share = f" {job.steps / job.total:.0%}" if job.total else ""
    return f"the next model is being trained: {job.stage or 'it begins'}{share} {job.note}".rstrip()
