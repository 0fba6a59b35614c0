"""A task at a glance: its round, what came of it, its money, and what waits for whom.

Everything is read from tallies, sums that the ledger keeps, and what is unfinished, so a round of a million examples is
told as fast as one of ten thousand. Exact figures, recomputed from votes, are the metrics' business.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from common.text import count
from round_manager.labelstudio.links import find_link
from round_manager.learning.training_jobs import has_heartbeat, is_process_gone, pending_training, running_job
from round_manager.loop.lifecycle import called_off_text, was_called_off
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

TAKEN_UP = "`outfox manage` takes it up again"
DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)


@dataclass(frozen=True)
class TaskOverview:
    """Where a task stands; `decided` examples are those that people have agreed or disagreed on."""

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
    waits_for: tuple[str, ...]

    @property
    def vmer(self) -> Rate:
        """The validated model error rate, by the statuses that examples have now."""
        return Rate(self.verified_fooling, self.collected)


def task_overview(session: Session, task: Task, *, now: datetime, has_marketplace: bool = True) -> TaskOverview:
    """The task as it is now, with its live round, else the last that was opened, else its draft.

    `has_marketplace` is whether whoever asks has the keys of one.
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


def _queues(session: Session, task: Task, round: Round, tallies: dict[Any, int]) -> dict[str, int]:
    hits = unfinished_hits(session, round)
    # What was undecided when a round was closed stays so.
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


def _waits_for(session: Session, task: Task, round: Round, now: datetime, *, has_marketplace: bool) -> tuple[str, ...]:
    if round.status is not RoundStatus.CLOSED:
        reasons = [reason.text for reason in waiting(session, round, now=now).reasons]
        reasons += filter(None, [no_way_in(session, round, has_marketplace=has_marketplace)])
        return tuple(reasons) or (f"nothing more can come to round {round.number}; `outfox manage` closes it",)
    if round.frozen_at is None:
        return (f"round {round.number} is closed and waits for its archive; `outfox manage` makes it",)
    job = running_job(session, task)
    if job is not None:
        return (_training(job, now),)
    wanted = pending_training(session, task)
    if wanted is not None:
        failed = f"; {count(wanted.failures, 'training')} failed, at last: {wanted.reason}" if wanted.failures else ""
        return (f"a model waits to be trained on the rounds up to {wanted.round}; `outfox manage` does it{failed}",)
    if was_called_off(session, round):
        return (called_off_text(round, task.name),)
    return (f"round {round.number + 1} waits to be opened; `outfox manage` does it, or tells what it lacks",)


def _training(job: TrainingJob, now: datetime) -> str:
    if is_process_gone(job, now=now):
        cure = f"{job.cancel_by} cancelled it, and `outfox manage` tells so" if job.cancel_by else TAKEN_UP
        return f"the training of the next model was interrupted, its process is gone; {cure}"
    if not has_heartbeat(job, now=now):
        silent = count((now - job.beat_at) // timedelta(minutes=1), "minute")
        return f"the training of the next model, on {job.host}, was not heard of for {silent}; {TAKEN_UP}"
    share = f" {job.steps / job.total:.0%}" if job.total else ""
    return f"the next model is being trained: {job.stage or 'it begins'}{share} {job.note}".rstrip()


def no_way_in(session: Session, round: Round, *, has_marketplace: bool) -> str:
    """Why nothing can come to an open round, and what to do; nothing where something can."""
    if round.status is not RoundStatus.OPEN or _is_connected(session, round):
        return ""
    name, is_paid = session.get_one(Task, round.task_id).name, spec_of(round).pay.create_cents > 0
    # Whoever posted HITs for it has the keys, even if this machine does not.
    if _was_posted(session, round) or (has_marketplace and is_paid):
        return ""
    connect = f"`outfox labelstudio connect {name}` lets people write in Label Studio"
    if has_marketplace:
        lacks = "the task has no Label Studio project, and no HITs to create while pay.create_cents is 0"
        cure = f"raise it in task.yaml, run `outfox task create {name}` and open the next round for a crowd"
    else:
        lacks = "the task has no Label Studio project, and there are no access keys for a marketplace here"
        keys = "OUTFOX_CROWD_KEY_ID and OUTFOX_CROWD_KEY_SECRET"
        cure = f"set {keys} for a crowd (`outfox marketplace account` makes some)"
    return f"nothing can come in: {lacks}; {connect}, or {cure}"


def _is_connected(session: Session, round: Round) -> bool:
    """Whether people of Label Studio write for the round's task; a project that is gone has a number below zero."""
    link = find_link(session, round.task_id, ProjectKind.CREATE)
    return link is not None and link.project > 0


def _was_posted(session: Session, round: Round) -> bool:
    return bool(session.scalar(select(exists().where(Hit.round_id == round.id, Hit.kind == HitKind.CREATE))))
