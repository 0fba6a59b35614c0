"""Where a task stands: its round, the examples collected, its money, its queues and what it waits for.

Everything comes from tallies, sums that the ledger keeps, and unfinished rows, so that a round of a million examples is
shown as fast as one of ten thousand. Exact figures, recomputed from votes, are in `validation.metrics`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import count
from round_manager.labelstudio.links import find_link
from round_manager.learning.training_data import pending_training
from round_manager.learning.training_jobs import has_heartbeat, is_process_gone, running_job
from round_manager.loop.lifecycle import empty_round_reason, ended_empty
from round_manager.loop.queues import (
    held_for_a_person,
    pages_to_confirm,
    payments_of,
    unfinished_hits,
    unsent_to_label_studio,
    work_to_decide,
)
from round_manager.loop.supply_facts import tallies_of
from round_manager.loop.waiting import WaitReason, waiting
from round_manager.models import (
    EntryState,
    ExampleStatus,
    Hit,
    HitKind,
    ProjectKind,
    Round,
    RoundStatus,
    Task,
    TrainingJob,
)
from round_manager.money.budget import BudgetFigures, figures
from round_manager.rates import Rate
from round_manager.specs import spec_of
from round_manager.tasks.rounds import NOT_COUNTED, list_rounds, pinned_versions

RUN_MANAGER = Hint("run_manager")
DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)


@dataclass(frozen=True)
class TaskOverview:
    """Where a task stands; `decided` examples are verified or disputed."""

    task: str
    round: int
    status: str
    paused: bool
    target_fooling: int
    collected: int
    fooled: int
    decided: int
    verified_fooling: int
    versions: tuple[str, ...]
    task_money: BudgetFigures
    round_money: BudgetFigures
    queues: dict[str, int]
    waits_for: tuple[WaitReason, ...]

    @property
    def vmer(self) -> Rate:
        """The validated model error rate, by the current status of the examples."""
        return Rate(self.verified_fooling, self.collected)


def task_overview(session: Session, task: Task, *, now: datetime, has_marketplace: bool = True) -> TaskOverview:
    """Return where the task stands, with its live round, else the last one that was opened, else its draft.

    `has_marketplace` says whether the caller has access keys for a marketplace.
    """
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
        decided=sum(number for (status, _), number in counted.items() if status in DECIDED),
        verified_fooling=tallies.get((ExampleStatus.VERIFIED, True), 0),
        versions=pinned_versions(session, round),
        task_money=figures(session, task),
        round_money=figures(session, round),
        queues=_queues(session, task, round, tallies),
        waits_for=_waits_for(session, task, round, now, has_marketplace=has_marketplace),
    )


def missing_intake(session: Session, round: Round, *, has_marketplace: bool) -> WaitReason | None:
    """Return why no examples can reach an open round, neither from Label Studio nor from a crowd; None if they can."""
    if round.status is not RoundStatus.OPEN or _has_project(session, round):
        return None
    name, is_paid = session.get_one(Task, round.task_id).name, spec_of(round).pay.create_cents > 0
    # If HITs were posted, another machine has the keys.
    if _has_hits(session, round) or (has_marketplace and is_paid):
        return None
    missing = "pay.create_cents in task.yaml is 0" if has_marketplace else "no access keys for a marketplace are set"
    text = f"no examples can arrive: the task has no Label Studio project, and {missing}"
    return WaitReason(text, Hint("connect_label_studio", task=name))


def _queues(session: Session, task: Task, round: Round, tallies: dict[Any, int]) -> dict[str, int]:
    hits = unfinished_hits(session, round)
    # Examples that were undecided when the round was closed stay undecided.
    undecided = {} if round.status is RoundStatus.CLOSED else tallies
    return {
        "examples_waiting_for_votes": sum(n for (status, _), n in undecided.items() if status is ExampleStatus.PENDING),
        "examples_waiting_for_owner": sum(n for (status, _), n in undecided.items() if status is ExampleStatus.FLAGGED),
        **{f"hits_to_{kind.value}": number for kind, number in sorted(hits.items())},
        "pages_to_confirm": pages_to_confirm(session, task.id),
        "work_to_approve": work_to_decide(session, task.id),
        "payments_owed": payments_of(session, task.id, EntryState.OWED),
        "payments_in_doubt": payments_of(session, task.id, EntryState.SENT),
        "held_for_a_person": held_for_a_person(session, task.id),
        "unsent_to_label_studio": unsent_to_label_studio(session, task.id),
    }


def _waits_for(
    session: Session, task: Task, round: Round, now: datetime, *, has_marketplace: bool
) -> tuple[WaitReason, ...]:
    if round.status is not RoundStatus.CLOSED:
        intake = missing_intake(session, round, has_marketplace=has_marketplace)
        reasons = (*waiting(session, round, now=now).reasons, *([intake] if intake else []))
        return reasons or (WaitReason(f"round {round.number} can be closed", RUN_MANAGER),)
    if round.frozen_at is None:
        return (WaitReason(f"round {round.number} is closed and waits for its archive", RUN_MANAGER),)
    job = running_job(session, task)
    if job is not None:
        return (_training(job, now),)
    wanted = pending_training(session, task)
    if wanted is not None:
        failed = f"; {count(wanted.failures, 'training')} failed, most recently: {wanted.reason}"
        text = f"a model waits to be trained on the rounds up to {wanted.round}"
        return (WaitReason(text + (failed if wanted.failures else ""), RUN_MANAGER),)
    if ended_empty(session, round):
        return (empty_round_reason(round, task.name),)
    return (WaitReason(f"round {round.number + 1} waits to be opened", RUN_MANAGER),)


def _training(job: TrainingJob, now: datetime) -> WaitReason:
    if is_process_gone(job, now=now):
        cancelled = f", and {job.cancel_by} cancelled it" if job.cancel_by else ""
        return WaitReason(f"the training of the next model was interrupted{cancelled}", RUN_MANAGER)
    if not has_heartbeat(job, now=now):
        silent = count((now - job.beat_at) // timedelta(minutes=1), "minute")
        return WaitReason(f"the training of the next model on {job.host} sent no heartbeat for {silent}", RUN_MANAGER)
    share = f" {job.steps / job.total:.0%}" if job.total else ""
    return WaitReason(f"the next model is being trained: {job.stage or 'starting'}{share} {job.note}".rstrip())


def _has_project(session: Session, round: Round) -> bool:
    """Return whether Label Studio users can write for the round's task; a deleted project has a number below zero."""
    link = find_link(session, round.task_id, ProjectKind.CREATE)
    return link is not None and link.project > 0


def _has_hits(session: Session, round: Round) -> bool:
    return bool(session.scalar(select(exists().where(Hit.round_id == round.id, Hit.kind == HitKind.CREATE))))
