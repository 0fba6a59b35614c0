"""The processes that work the queues of submitted models, as the manager starts them."""

from round_manager.jobs import JobOutcome, JobRequest, JobRunner, is_dead
from round_manager.models import ModelSubmission, SubmissionState
from round_manager.services.context import ServiceContext
from round_manager.services.submission_runs import SUBMISSIONS, submissions_in
from round_manager.tasks.tasks import find_task


def pending_submissions(context: ServiceContext, task: str) -> int:
    """Return how many submissions wait for a process: those of the queue, unless one is evaluating them."""
    with context.store.read() as session:
        owner = find_task(session, task)
        rows = submissions_in(session, owner, SubmissionState.RUNNING, SubmissionState.QUEUED)
        alive = [one for one in rows if one.state is SubmissionState.RUNNING and not _is_dead(one)]
    return 0 if alive else len(rows)


class SubmissionSupervisor:
    """Starts a process for each task whose queue is not empty, and reports how it ended."""

    def __init__(self, context: ServiceContext, runner: JobRunner) -> None:
        self._context = context
        self._runner = runner
        self._requests: dict[str, JobRequest] = {}

    @property
    def running(self) -> list[str]:
        """The tasks whose queues are worked by processes that were started here."""
        return list(self._requests)

    @property
    def has_ended(self) -> bool:
        """Whether one of these processes has ended."""
        return any(self._runner.status(request).has_ended for request in self._requests.values())

    def pending(self, task: str) -> int:
        """Return how many submissions wait for a process."""
        return 0 if task in self._requests else pending_submissions(self._context, task)

    def start(self, task: str) -> None:
        """Start a process that works the queue until it is empty."""
        request = JobRequest(SUBMISSIONS, task)
        self._runner.start(request)
        self._requests[task] = request

    def ended(self, task: str) -> str | None:
        """Return once why the task's process failed, empty if it did not; None while it runs, or if there is none."""
        request = self._requests.get(task)
        status = self._runner.status(request) if request else None
        if status is None or not status.has_ended:
            return None
        del self._requests[task]
        return status.reason or status.outcome.value if status.outcome is JobOutcome.FAILED else ""

    def stop(self) -> None:
        """Stop the processes; the submissions that they were evaluating are started again later."""
        for request in self._requests.values():
            self._runner.stop(request)
        self._requests.clear()


def _is_dead(row: ModelSubmission) -> bool:
    return bool(row.host and row.pid and row.started_at and is_dead(row.host, row.pid, row.started_at))
