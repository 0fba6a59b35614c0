"""Where a task stands: its round, the examples collected, its money, its queues and what it waits for.

Everything comes from tallies, sums that the ledger keeps, and unfinished rows, so that a round of a million examples is
shown as fast as one of ten thousand. Exact figures, recomputed from votes, are in `validation.metrics`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import count
from round_manager.learning.training_data import pending_training
from round_manager.learning.training_jobs import has_heartbeat, is_process_gone, running_job
from round_manager.loop.lifecycle import empty_round_reason, ended_empty
from round_manager.loop.waiting import WaitReason, project_of, verified_fooling, waiting
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryState,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    HitStatus,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    LedgerEntry,
    Origin,
    ProjectKind,
    Round,
    RoundStatus,
    SessionStatus,
    Task,
    TrainingJob,
    Worker,
    WorkSession,
    spec_of,
)
from round_manager.money.budget import BudgetFigures, figures
from round_manager.rates import Rate
from round_manager.tasks.gold import gold_counts
from round_manager.tasks.rounds import NOT_COUNTED, list_rounds, pinned_versions, tallies_of

RUN_MANAGER = Hint("run_manager")
# With fewer gold items, most workers have soon seen all of them.
FEW_GOLD_ITEMS = 5
DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)


@dataclass(frozen=True)
class TaskOverview:
    """Where a task stands; `decided` examples are verified or disputed, `simulated` ones by simulated workers."""

    task: str
    round: int
    status: str
    paused: bool
    in_house: bool
    target_fooling: int
    collected: int
    fooled: int
    decided: int
    verified_fooling: int
    # Those with new texts: what the round's target counts.
    new_verified_fooling: int
    versions: tuple[str, ...]
    task_money: BudgetFigures
    round_money: BudgetFigures
    queues: dict[str, int]
    waits_for: tuple[WaitReason, ...]
    warnings: tuple[WaitReason, ...] = ()
    simulated: int = 0
    imported: bool = False
    # Of an imported round: the examples of which it is known whether they fooled a model.
    judged: int | None = None

    @property
    def vmer(self) -> Rate:
        """The validated model error rate, by the current status of the examples."""
        return Rate(self.verified_fooling, self.collected if self.judged is None else self.judged)


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
        in_house=round.in_house,
        target_fooling=round.target_fooling,
        collected=sum(counted.values()),
        fooled=sum(number for (_, fooled), number in counted.items() if fooled),
        decided=sum(number for (status, _), number in counted.items() if status in DECIDED),
        verified_fooling=tallies.get((ExampleStatus.VERIFIED, True), 0),
        new_verified_fooling=verified_fooling(session, round),
        versions=pinned_versions(session, round),
        task_money=figures(session, task),
        round_money=figures(session, round),
        queues=_queues(session, task, round, tallies),
        waits_for=_waits_for(session, task, round, now, has_marketplace=has_marketplace),
        warnings=tuple(round_warnings(session, round, has_marketplace=has_marketplace)),
        simulated=_simulated(session, round),
        imported=round.is_imported,
        judged=sum(counted.values()) - _unjudged(round) if round.is_imported else None,
    )


def _unjudged(round: Round) -> int:
    unjudged = (round.imported or {})["figures"]["unjudged"]
    return sum(number for status, number in unjudged.items() if status not in NOT_COUNTED)


def round_warnings(session: Session, round: Round, *, has_marketplace: bool) -> list[WaitReason]:
    """Return what does not stop a round but lowers the quality of its data: too little gold for worker pages."""
    spec, name = spec_of(round), session.get_one(Task, round.task_id).name
    is_posted = has_marketplace and spec.pay.validate_cents > 0 and not round.in_house
    has_pages = _has_hits(session, round) or is_posted
    if round.status is RoundStatus.CLOSED or not spec.validation.gold_rate or not has_pages:
        return []
    live = gold_counts(session, round.task_id).live
    if live >= FEW_GOLD_ITEMS:
        return []
    left = f"only {count(live, 'gold item is', 'gold items are')} left" if live else "the task has no gold items"
    text = f"gold checks are {'rare' if live else 'off'}: {left}; add a private file of rows with a known answer"
    return [WaitReason(text, Hint("upload_gold", task=name))]


def missing_intake(session: Session, round: Round, *, has_marketplace: bool) -> WaitReason | None:
    """Return why no examples can reach an open round, neither from Label Studio nor from a crowd; None if they can."""
    if round.status is not RoundStatus.OPEN or project_of(session, round, ProjectKind.CREATE):
        return None
    name, is_paid = session.get_one(Task, round.task_id).name, spec_of(round).pay.create_cents > 0
    if round.in_house:
        text = "no examples can arrive: the round is in-house, and the task has no Label Studio project"
        return WaitReason(text, Hint("connect_label_studio", task=name))
    # If HITs were posted, another machine has the keys.
    if _has_hits(session, round) or (has_marketplace and is_paid):
        return None
    missing = "pay.create_cents in task.yaml is 0" if has_marketplace else "no access keys for a marketplace are set"
    text = f"no examples can arrive: the task has no Label Studio project, and {missing}"
    return WaitReason(text, Hint("connect_label_studio", task=name))


def held_for_a_person(session: Session, task_id: int | None = None) -> int:
    """Return the number of HITs and payments that only a person can settle."""
    hits = select(func.count()).select_from(Hit).where(Hit.finished_at.is_(None), Hit.status == HitStatus.HELD)
    entries = select(func.count()).select_from(LedgerEntry)
    entries = entries.where(LedgerEntry.state == EntryState.SENT, LedgerEntry.held_at.is_not(None))
    if task_id is not None:
        hits, entries = hits.where(Hit.task_id == task_id), entries.where(LedgerEntry.task_id == task_id)
    return (session.scalar(hits) or 0) + (session.scalar(entries) or 0)


def _simulated(session: Session, round: Round) -> int:
    """Return the number of the round's collected examples that simulated workers wrote."""
    authors = session.scalars(select(Worker.id).where(Worker.simulated)).all()
    if not authors:
        return 0  # As in every task outside a demo.
    written = select(func.count()).where(Example.round_id == round.id, Example.author_id.in_(authors))
    return session.scalar(written.where(Example.status.not_in(NOT_COUNTED))) or 0


def _queues(session: Session, task: Task, round: Round, tallies: dict[Any, int]) -> dict[str, int]:
    hits = _unfinished_hits(session, round)
    # Examples that were undecided when the round was closed stay undecided.
    undecided = {} if round.status is RoundStatus.CLOSED else tallies
    return {
        "examples_waiting_for_votes": sum(n for (status, _), n in undecided.items() if status is ExampleStatus.PENDING),
        "examples_waiting_for_owner": sum(n for (status, _), n in undecided.items() if status is ExampleStatus.FLAGGED),
        **{f"hits_to_{kind.value}": number for kind, number in sorted(hits.items())},
        "pages_to_confirm": _pages_to_confirm(session, task.id),
        "work_to_approve": _work_to_decide(session, task.id),
        "payments_owed": _payments_of(session, task.id, EntryState.OWED),
        "payments_in_doubt": _payments_of(session, task.id, EntryState.SENT),
        "held_for_a_person": held_for_a_person(session, task.id),
        "unsent_to_label_studio": _unsent_to_label_studio(session, task.id),
        "refused_in_label_studio": _refused_in_label_studio(session, round),
    }


def _waits_for(
    session: Session, task: Task, round: Round, now: datetime, *, has_marketplace: bool
) -> tuple[WaitReason, ...]:
    if round.status is not RoundStatus.CLOSED:
        intake = missing_intake(session, round, has_marketplace=has_marketplace)
        reasons = (*waiting(session, round, now=now), *([intake] if intake else []))
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
    if round.is_imported:
        return (
            WaitReason(
                f"round {round.number} was imported; train a model on it, or open the next round",
                Hint("open_round", task=task.name),
            ),
        )
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


def _has_hits(session: Session, round: Round) -> bool:
    return bool(session.scalar(select(exists().where(Hit.round_id == round.id, Hit.kind == HitKind.CREATE))))


def _unfinished_hits(session: Session, round: Round) -> dict[HitKind, int]:
    """Return the number of the round's unfinished HITs by kind."""
    wanted = (
        select(Hit.kind, func.count())
        # The addition keeps databases from using the index on rounds; the index on unfinished HITs is much shorter.
        .where(Hit.finished_at.is_(None), Hit.round_id + 0 == round.id, Hit.status != HitStatus.REFUSED)
        .group_by(Hit.kind)
    )
    return {kind: int(number) for kind, number in session.execute(wanted)}


def _work_to_decide(session: Session, task_id: int) -> int:
    """Return the number of submitted assignments that are not approved yet."""
    # Counted HIT by HIT, so that no plan starts from all assignments in the database. The addition is explained above.
    of_hit = select(func.count()).where(Assignment.hit_id == Hit.id, Assignment.status == AssignmentStatus.SUBMITTED)
    wanted = select(func.sum(of_hit.scalar_subquery())).where(Hit.finished_at.is_(None), Hit.task_id + 0 == task_id)
    return int(session.scalar(wanted) or 0)


def _pages_to_confirm(session: Session, task_id: int) -> int:
    """Return the number of submitted pages that the marketplace has not confirmed yet."""
    waiting = select(func.count()).select_from(WorkSession).join(Hit, Hit.id == WorkSession.hit_id)
    wanted = waiting.where(WorkSession.status == SessionStatus.SUBMITTED, Hit.task_id == task_id)
    return session.scalar(wanted) or 0


def _payments_of(session: Session, task_id: int, state: EntryState) -> int:
    """Return the number of the task's payments in an unsettled state."""
    wanted = select(func.count()).where(LedgerEntry.task_id == task_id, LedgerEntry.state == state)
    return session.scalar(wanted) or 0


def _unsent_to_label_studio(session: Session, task_id: int) -> int:
    """Return the number of tasks that are planned for Label Studio but not sent yet."""
    wanted = (
        select(func.count())
        .select_from(LabelStudioTask)
        .join(LabelStudioLink, LabelStudioLink.id == LabelStudioTask.link_id)
        .where(LabelStudioTask.external_id.is_(None), LabelStudioLink.task_id == task_id)
    )
    return session.scalar(wanted) or 0


def _refused_in_label_studio(session: Session, round: Round) -> int:
    """Return the number of submissions and votes that were refused since the round was opened."""
    if round.opened_at is None:
        return 0
    annotation = LabelStudioAnnotation
    refused = (
        select(func.count())
        .select_from(annotation)
        .join(LabelStudioLink, LabelStudioLink.id == annotation.link_id)
        .where(
            LabelStudioLink.task_id == round.task_id,
            annotation.origin == Origin.THEIRS,
            annotation.problem.is_not(None),
            annotation.example_id.is_(None),
            annotation.vote_id.is_(None),
            annotation.changed_at >= round.opened_at,
        )
    )
    return session.scalar(refused) or 0
