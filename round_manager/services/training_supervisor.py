"""Trainings seen from outside: list and cancel them, start those that closed rounds wait for, and record their ends."""

from dataclasses import dataclass

from round_manager.errors import NoTraining, TrainingBusy
from round_manager.jobs import (
    TRAINING,
    JobOutcome,
    JobOwner,
    JobRequest,
    JobRunner,
    JobStatus,
    is_durable,
    next_request,
)
from round_manager.learning import training_jobs
from round_manager.learning.training_data import PendingTraining, pending_training, skipped_round
from round_manager.learning.versions import names_of
from round_manager.models import TrainingJob, TrainingState
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.tasks import find_task

LOST = "the cluster no longer knows the job: it was restarted, or lost; nothing changed"
UNRECORDED = "the job ended without a record in this database; the cluster's machines must have the same settings"
# Where a job ran that never said so.
UNKNOWN_HOST = "unknown"
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
    """Starts the trainings that are pending, at most one for each task, and records how they ended.

    A durable job outlives its supervisor. Its token follows from what is recorded, so the next supervisor finds it.
    """

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
    def durable(self) -> bool:
        """Whether trainings outlive this supervisor, so that it need not wait for them."""
        return self._runner.durable

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
        if job is not None and self._runner.durable and is_durable(job.token):
            return None
        # A job without a heartbeat may be dead; the next training finds out.
        is_alive = job is not None and training_jobs.has_heartbeat(job, now=self._context.now())
        return None if is_alive or task in self._requests else pending

    def end_cancelled(self, task: str) -> str:
        """Record the end of a cancelled training whose process is dead; return the message for it."""
        job = end_cancelled_training(self._context, task)
        return f"the training was cancelled: {job.reason}" if job else ""

    def start(self, task: str) -> None:
        """Start a training; a durable one that another supervisor has started is found again."""
        request = training_request(self._context, self._runner, task, self._mode)
        self._runner.start(request)
        self._requests[task] = request

    def ended(self, task: str) -> TrainingEnd | None:
        """Return once how the task's training ended; None while it runs, or if there is none."""
        request = self._requests.get(task) or self._running_request(task)
        status = self._status(task, request) if request else None
        if request is None or status is None or not status.has_ended:
            return None
        record_job_end(self._context, self._actor, request, status)
        self._requests.pop(task, None)
        if status.outcome is JobOutcome.BUSY:
            return TrainingEnd(in_progress=True)
        return self._end(task, request, status)

    def stop(self) -> None:
        """Stop the running trainings, unless they are durable; the next ones find what is trained and evaluated."""
        for request in () if self._runner.durable else self._requests.values():
            self._runner.stop(request)
            record_job_end(self._context, self._actor, request, self._runner.status(request))
        self._requests.clear()

    def _running_request(self, task: str) -> JobRequest | None:
        """Return the durable job that another supervisor has started and that is recorded as running."""
        if not self._runner.durable:
            return None
        with self._context.store.read() as session:
            job = training_jobs.running_job(session, find_task(session, task))
        if job is None or job.token is None or not is_durable(job.token):
            return None
        request = self._requests[task] = JobRequest(TRAINING, task, job.mode, token=job.token)
        return request

    def _status(self, task: str, request: JobRequest) -> JobStatus:
        status = self._runner.status(request)
        if not self._runner.durable:
            return status
        job, skipped = self._recorded(task, request)
        if job is not None and job.state is not TrainingState.RUNNING:
            return JobStatus(JobOutcome.SUCCEEDED)  # Its record says how it ended.
        if status.outcome is JobOutcome.UNKNOWN:
            if job is not None:
                return JobStatus(JobOutcome.LOST, LOST, retry=True)
            self._runner.start(request)
            return self._runner.status(request)
        if status.outcome is JobOutcome.SUCCEEDED and not skipped:
            return JobStatus(JobOutcome.FAILED, UNRECORDED)
        return status

    def _recorded(self, task: str, request: JobRequest) -> tuple[TrainingJob | None, str | None]:
        """Return the record of the job, and why the last round needs no training if it needs none."""
        with self._context.store.read() as session:
            found = find_task(session, task)
            return training_jobs.find_job(session, found, request.token), skipped_round(session, found)

    def _end(self, task: str, request: JobRequest, status: JobStatus) -> TrainingEnd:
        job, skipped = self._recorded(task, request)
        if job is None and skipped:
            return TrainingEnd(f"the next round needs no new model: {skipped}")
        if job is not None and job.state is TrainingState.RUNNING and self._runner.durable:
            return TrainingEnd(in_progress=True)  # Its process is alive after all; only the cluster did not answer.
        if job is None or job.state in (TrainingState.FAILED, TrainingState.STOPPED, TrainingState.RUNNING):
            reason = (job and job.reason) or status.reason or status.outcome.value
            return TrainingEnd(f"the training failed: {reason}", failed=True)
        if job.state is TrainingState.ROTATED:
            return TrainingEnd(f"the new model serves: {job.reason}")
        result = "the new model was refused" if job.state is TrainingState.REFUSED else "the training was cancelled"
        return TrainingEnd(f"{result}: {job.reason}")


def training_request(context: ServiceContext, runner: JobRunner, task: str, mode: str | None = None) -> JobRequest:
    """Return the request for the task's next training.

    A durable job is identified by the round and the trainings that are recorded, so two supervisors, or one that was
    killed, start it once.
    """
    if not runner.durable:
        return JobRequest(TRAINING, task, mode)
    with context.store.read() as session:
        basis = training_jobs.next_start(session, find_task(session, task))
    return next_request(runner, TRAINING, task, basis, mode)


def cancel_training(context: ServiceContext, actor: Actor, task: str, runner: JobRunner | None = None) -> TrainingJob:
    """Ask the task's training to stop; one whose process is dead ends at once and is not started again."""
    try:
        with context.store.write() as session:
            found = find_task(session, task)
            asked = training_jobs.request_cancel(session, found, actor=actor.name, now=context.now())
    except NoTraining:
        waiting = _cancel_waiting(context, actor, task, runner) if runner else None
        if waiting is None:
            raise
        return waiting
    return end_cancelled_training(context, task) or asked


def _cancel_waiting(context: ServiceContext, actor: Actor, task: str, runner: JobRunner) -> TrainingJob | None:
    """Cancel a durable job that waits for its turn; None if there is none."""
    if not runner.durable:
        return None
    with context.store.read() as session:
        pending = pending_training(session, find_task(session, task))
    request = training_request(context, runner, task) if pending else None
    if request is None or runner.status(request).outcome is not JobOutcome.RUNNING:
        return None
    runner.stop(request)
    with training_jobs.training_lock(context.store, task), context.store.write() as session:
        owner, state = JobOwner.this_process(actor.name, request.token), TrainingState.CANCELLED
        reason = f"cancelled by {actor.name} before it began"
        return training_jobs.record_end(
            session, find_task(session, task), owner, None, reason, state=state, now=context.now()
        )


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
    if status.outcome not in (JobOutcome.STOPPED, JobOutcome.FAILED, JobOutcome.LOST):
        return
    now = context.now()
    try:
        with training_jobs.training_lock(context.store, request.task), context.store.write() as session:
            task = find_task(session, request.task)
            owner = JobOwner(actor.name, status.host or UNKNOWN_HOST, status.pid, request.token)
            state = TrainingState.STOPPED if status.outcome is JobOutcome.STOPPED else TrainingState.FAILED
            training_jobs.record_end(
                session, task, owner, request.mode, status.reason, state=state, retry=status.retry, now=now
            )
    except TrainingBusy:
        return  # Another process trains already, and has recorded the end of the dead one.
