"""Trainings seen from outside: list and cancel them, start those that closed rounds wait for, and record their ends."""

from dataclasses import dataclass

from round_manager.errors import TrainingBusy
from round_manager.jobs import JobOutcome, JobOwner, JobRequest, JobRunner, JobStatus
from round_manager.learning import training_jobs
from round_manager.learning.training_data import PendingTraining, pending_training, skipped_round
from round_manager.learning.versions import names_of
from round_manager.models import TrainingJob, TrainingState
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.tasks import find_task

TRAINING = "training"
# After this many failures a training waits for a person; failures that a retry may resolve are not counted.
MAX_FAILURES = 5


@dataclass(frozen=True)
class TrainingEnd:
    """How a training ended; `failed` where no version was made, evaluated or rotated in.

    It is `in_progress` where another process trains the task.
    """

    text: str = ""
    failed: bool = False
    in_progress: bool = False


@dataclass(frozen=True)
class TrainingSummary:
    """One training of a task, with the name of the version that it made."""

    job: TrainingJob
    version: str | None


class TrainingSupervisor:
    """Starts the trainings that are pending, at most one for each task, and records how they ended."""

    def __init__(self, context: ServiceContext, actor: Actor, runner: JobRunner, mode: str | None = None) -> None:
        self._context = context
        self._actor = actor
        self._runner = runner
        self._mode = mode
        self._requests: dict[str, JobRequest] = {}

    @property
    def running(self) -> list[str]:
        """The tasks whose trainings were started here and whose end was not yet reported."""
        return list(self._requests)

    @property
    def has_ended(self) -> bool:
        """Whether one of them has ended."""
        return any(self._runner.status(request).has_ended for request in self._requests.values())

    def pending(self, task: str) -> PendingTraining | None:
        """Return the round that waits for a training, unless one is running."""
        with self._context.store.read() as session:
            found = find_task(session, task)
            job = training_jobs.running_job(session, found)
            pending = pending_training(session, found)
        # A job without a heartbeat may be dead; the next training finds out.
        is_alive = job is not None and training_jobs.has_heartbeat(job, now=self._context.now())
        return None if is_alive or task in self._requests else pending

    def end_cancelled(self, task: str) -> str:
        """Record the end of a cancelled training whose process is dead; return the message for it."""
        job = end_cancelled_training(self._context, task)
        return f"the training was cancelled: {job.reason}" if job else ""

    def start(self, task: str) -> None:
        """Start a training."""
        request = JobRequest(TRAINING, task, self._mode)
        self._runner.start(request)
        self._requests[task] = request

    def ended(self, task: str) -> TrainingEnd | None:
        """Return once how the task's training ended; None while it runs, or if there is none."""
        request = self._requests.get(task)
        status = self._runner.status(request) if request else None
        if request is None or status is None or not status.has_ended:
            return None
        record_job_end(self._context, self._actor, request, status)
        del self._requests[task]
        if status.outcome is JobOutcome.BUSY:
            return TrainingEnd(in_progress=True)
        return self._end(task, request, status)

    def stop(self) -> None:
        """Stop the running trainings; what they have trained and evaluated is found again by the next ones."""
        for request in self._requests.values():
            self._runner.stop(request)
            record_job_end(self._context, self._actor, request, self._runner.status(request))
        self._requests.clear()

    def _end(self, task: str, request: JobRequest, status: JobStatus) -> TrainingEnd:
        with self._context.store.read() as session:
            found = find_task(session, task)
            job, skipped = training_jobs.find_job(session, found, request.token), skipped_round(session, found)
        if job is None and skipped:
            return TrainingEnd(f"the next round needs no new model: {skipped}")
        if job is None or job.state in (TrainingState.FAILED, TrainingState.STOPPED, TrainingState.RUNNING):
            reason = (job and job.reason) or status.reason or status.outcome.value
            return TrainingEnd(f"the training failed: {reason}", failed=True)
        if job.state is TrainingState.ROTATED:
            return TrainingEnd(f"the new model serves: {job.reason}")
        result = "the new model was refused" if job.state is TrainingState.REFUSED else "the training was cancelled"
        return TrainingEnd(f"{result}: {job.reason}")


def cancel_training(context: ServiceContext, actor: Actor, task: str) -> TrainingJob:
    """Ask the task's training to stop; one whose process is dead ends at once and is not started again."""
    with context.store.write() as session:
        asked = training_jobs.request_cancel(session, find_task(session, task), actor=actor.name, now=context.now())
    return end_cancelled_training(context, task) or asked


def end_cancelled_training(context: ServiceContext, task: str) -> TrainingJob | None:
    """Record the end of a cancelled training whose process is dead; return None for any other.

    The lock alone does not tell: PostgreSQL releases it with a lost connection, while the process continues. Only a job
    without a recent heartbeat is dead.
    """
    if not _is_abandoned(context, task):
        return None
    try:
        with training_jobs.training_lock(context.store, task):
            if not _is_abandoned(context, task):
                return None
            with context.store.write() as session:
                return training_jobs.fail_dead_job(
                    session, find_task(session, task), training_jobs.DIED, now=context.now()
                )
    except TrainingBusy:
        return None  # Its process is alive after all, or another one has started the next training.


def list_trainings(context: ServiceContext, task: str, limit: int = 20) -> list[TrainingSummary]:
    """Return the last trainings of a task, newest first."""
    with context.store.read() as session:
        jobs = training_jobs.list_jobs(session, find_task(session, task), limit)
        names = names_of(session, [job.model_version_id for job in jobs if job.model_version_id])
    return [TrainingSummary(job, names.get(job.model_version_id or 0)) for job in jobs]


def _is_abandoned(context: ServiceContext, task: str) -> bool:
    with context.store.read() as session:
        job = training_jobs.running_job(session, find_task(session, task))
    return job is not None and job.cancel_at is not None and not training_jobs.has_heartbeat(job, now=context.now())


def record_job_end(context: ServiceContext, actor: Actor, request: JobRequest, status: JobStatus) -> None:
    """Record how a training ended, where its process could not do so itself.

    A stopped process has not failed, and gets no job where it had not started one.
    """
    if status.outcome not in (JobOutcome.STOPPED, JobOutcome.FAILED):
        return
    now = context.now()
    try:
        with training_jobs.training_lock(context.store, request.task), context.store.write() as session:
            task = find_task(session, request.task)
            owner = JobOwner(actor.name, status.host, status.pid, request.token)
            state = TrainingState.STOPPED if status.outcome is JobOutcome.STOPPED else TrainingState.FAILED
            training_jobs.record_end(
                session, task, owner, request.mode, status.reason, state=state, retry=status.retry, now=now
            )
    except TrainingBusy:
        return  # Another process trains already, and has recorded the end of the dead one.
