"""Training as a use case: train the next version, evaluate it against the one that serves, and rotate it in.

Each step can be repeated: a process that was killed between two of them is run again and reaches the same end. A
trained version is found again, evaluations are stored, and until the rotation the serving model is unchanged.
"""

from dataclasses import dataclass, replace

from common.progress import NoProgress, Progress
from round_manager.errors import NothingToLearn, TrainingBusy
from round_manager.learning.heartbeat import TrainingHeartbeat
from round_manager.learning.rows import TrainingRows, training_rows
from round_manager.learning.trainer import TrainingOrder
from round_manager.learning.training_jobs import (
    DIED,
    JobOwner,
    fail_dead_job,
    has_heartbeat,
    list_jobs,
    request_cancel,
    running_job,
    skip_round,
    start_job,
    training_lock,
)
from round_manager.learning.versions import names_of
from round_manager.models import TrainingJob
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.training_run import RetrainingResult, TrainingPorts, TrainingRun
from round_manager.specs import spec_of
from round_manager.tasks.tasks import find_task
from templates import Pack


@dataclass(frozen=True)
class TrainingSummary:
    """One training of a task, with the name of the version that it made."""

    job: TrainingJob
    version: str | None


def retrain(
    context: ServiceContext,
    actor: Actor,
    pack: Pack,
    ports: TrainingPorts,
    *,
    mode: str | None = None,
    reason: str = "",
    token: str | None = None,
    progress: Progress | None = None,
) -> RetrainingResult:
    """Train the task's next version, evaluate it and, unless it loses too much, rotate it in.

    Only one training of a task runs at a time. Until the rotation, and after any error, everything else is unchanged.

    Raises:
        TrainingBusy: Another process trains the task.
        NothingToLearn: The last closed round has no new rows; it is recorded as skipped.
        TrainingCancelled: A user cancelled the training.
    """
    name, owner = pack.spec.name, JobOwner.this_process(actor.name, token)
    with training_lock(context.store, name):
        with context.store.write() as session:
            fail_dead_job(session, find_task(session, name), DIED, now=context.now())
        order, data = _order(context, actor, pack, mode)
        plan = ports.trainer.plan(order)
        with context.store.write() as session:
            job = start_job(session, find_task(session, name), data.last, plan.mode, owner, now=context.now())
        shown = progress or NoProgress()
        with TrainingHeartbeat(context.store, job.id, context.clock, shown, ports.heartbeat_seconds) as heartbeat:
            return TrainingRun(context, actor, ports, order, data, job.id, reason, heartbeat).run(plan.existing)


def cancel_training(context: ServiceContext, actor: Actor, task: str) -> TrainingJob:
    """Ask the task's training to stop; one whose process is dead ends at once and is not started again."""
    with context.store.write() as session:
        asked = request_cancel(session, find_task(session, task), who=actor.name, now=context.now())
    return end_cancelled_training(context, task) or asked


def end_cancelled_training(context: ServiceContext, task: str) -> TrainingJob | None:
    """Record the end of a cancelled training whose process is dead; return None for any other.

    The lock alone does not tell: PostgreSQL releases it with a lost connection, while the process continues. Only a job
    without a recent heartbeat is dead.
    """
    if not _is_abandoned(context, task):
        return None
    try:
        with training_lock(context.store, task):
            if not _is_abandoned(context, task):
                return None
            with context.store.write() as session:
                return fail_dead_job(session, find_task(session, task), DIED, now=context.now())
    except TrainingBusy:
        return None  # Its process is alive after all, or another one has started the next training.


def list_trainings(context: ServiceContext, task: str, limit: int = 20) -> list[TrainingSummary]:
    """Return the last trainings of a task, newest first."""
    with context.store.read() as session:
        jobs = list_jobs(session, find_task(session, task), limit)
        names = names_of(session, [job.model_version_id for job in jobs if job.model_version_id])
    return [TrainingSummary(job, names.get(job.model_version_id or 0)) for job in jobs]


def _is_abandoned(context: ServiceContext, task: str) -> bool:
    with context.store.read() as session:
        job = running_job(session, find_task(session, task))
    return job is not None and job.cancel_at is not None and not has_heartbeat(job, now=context.now())


def _order(context: ServiceContext, actor: Actor, pack: Pack, mode: str | None) -> tuple[TrainingOrder, TrainingRows]:
    try:
        with context.store.read() as session:
            task = find_task(session, pack.spec.name)
            # The database defines the task; of the pack, only the seed is read.
            current = replace(pack, spec=spec_of(task))
            data = training_rows(session, task, current.spec, current.seed)
    except NothingToLearn as nothing:
        # A retry would find nothing new either; without this the next round would wait for ever.
        with context.store.write() as session:
            found = find_task(session, pack.spec.name)
            skip_round(session, found, str(nothing), who=actor.name, now=context.now())
        raise
    return TrainingOrder(current, data.rows, data.sources, mode), data
