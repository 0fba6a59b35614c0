"""Jobs on a Ray cluster, through Ray's Jobs API.

The id of a submission follows from the job's token: a job is submitted once, and every process finds it again. A job is
an `outfox` command that reads its settings, and so its secrets, on the cluster's machines; what is sent with it is
public, because Ray shows it in its dashboard.
"""

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plugin.errors import ClusterUnreachable
from plugin.jobs.process import RETRY_CODE, describe_signal, job_arguments, last_error, outcome_of
from plugin.jobs.ray_api import RayApi, Submission, SubmittedJob
from round_manager.jobs import TRAINING, JobOutcome, JobRequest, JobStatus

STOP_SECONDS = 30
# Without an answer for this long, the cluster and its jobs are lost.
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.5
SECONDS_BETWEEN_LOGS = 5.0
NOT_FOUND_CODE = 127
_ENDED = {"SUCCEEDED": JobOutcome.SUCCEEDED, "STOPPED": JobOutcome.STOPPED, "FAILED": JobOutcome.FAILED}


@dataclass(frozen=True)
class ClusterSettings:
    """What jobs get on the cluster.

    `namespace` distinguishes the jobs of this installation from those of others; `config` is the settings file on the
    cluster's machines, if it is not the one that they use anyway; `environment` holds public settings.
    """

    namespace: str
    config: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


class RayJobRunner:
    """Runs each job as one job of a Ray cluster; its log is copied to a file."""

    durable = True

    def __init__(
        self,
        api: RayApi,
        cluster: ClusterSettings,
        log_file: Callable[[JobRequest], Path],
        command: Callable[[JobRequest], Sequence[str]] | None = None,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._log_file = log_file
        self._command = command or self._outfox
        self._patience = patience
        self._unanswered_since: float | None = None
        self._logged_at: dict[str, float] = {}

    def start(self, request: JobRequest) -> None:
        """Submit the job, unless the cluster knows it; raise ClusterUnreachable if the cluster does not answer."""
        own_id = self.submission_id(request)
        if self._api.find(own_id) is not None:
            return
        # Without `exec`, a shell would stand between Ray and the process, whose exit code and signals count.
        command = f"exec {shlex.join(self._command(request))}"
        environment = {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS), **self._cluster.environment}
        cpus, gpus = self._needs(request)
        self._api.submit(Submission(own_id, command, environment, cpus, gpus))

    def status(self, request: JobRequest) -> JobStatus:
        """Return how the job stands; it counts as running while the cluster does not answer for a short time."""
        try:
            job = self._api.find(self.submission_id(request))
            status = self._status(request, job) if job else JobStatus(JobOutcome.UNKNOWN)
        except ClusterUnreachable as error:
            now = time.monotonic()
            self._unanswered_since = self._unanswered_since or now
            is_lost = now - self._unanswered_since >= self._patience
            outcome = JobOutcome.LOST if is_lost else JobOutcome.RUNNING
            return JobStatus(outcome, str(error), retry=True, host=self._api.address)
        self._unanswered_since = None
        return status

    def stop(self, request: JobRequest, seconds: float = STOP_SECONDS) -> None:
        """Ask the cluster to stop the job, and wait until it has; a job in the queue stops when its turn comes."""
        own_id, until = self.submission_id(request), time.monotonic() + seconds
        self._api.stop(own_id)
        while time.monotonic() < until:
            job = self._api.find(own_id)
            if job is None or job.state != "RUNNING":
                return
            time.sleep(POLL_SECONDS)

    def log(self, request: JobRequest) -> str:
        """Return what the job has printed, and what Ray has printed about it."""
        return self._api.log(self.submission_id(request))

    def submission_id(self, request: JobRequest) -> str:
        """Return the id of the job on the cluster."""
        return f"outfox-{self._cluster.namespace}-{request.kind}-{request.token}"

    def _outfox(self, request: JobRequest) -> list[str]:
        options = ["--config", self._cluster.config] if self._cluster.config else []
        return ["outfox", *options, *job_arguments(request)]

    def _needs(self, request: JobRequest) -> tuple[int, int]:
        """Return the processors and GPUs that a job reserves: an evaluation's tasks reserve their own."""
        if request.kind != TRAINING:
            return 0, 0
        return 1, int(self._api.resources().get("GPU", 0) >= 1)

    def _status(self, request: JobRequest, job: SubmittedJob) -> JobStatus:
        outcome = _ENDED.get(job.state, JobOutcome.RUNNING)
        is_due = time.monotonic() - self._logged_at.get(request.token, 0.0) >= SECONDS_BETWEEN_LOGS
        if outcome is JobOutcome.RUNNING and not is_due:
            return JobStatus(outcome, host=self._api.address)
        log = self.log(request)
        self._log_file(request).write_text(log, encoding="utf-8")
        self._logged_at[request.token] = time.monotonic()
        if outcome is not JobOutcome.FAILED:
            return JobStatus(outcome, host=self._api.address)
        code = job.exit_code
        if code is None:
            # The cluster failed and not the job: a machine was lost, or none became free in time.
            reason = f"the cluster ended the job: {' '.join(job.message.split())[:300]}"
            return JobStatus(outcome, reason, retry=True, host=self._api.address)
        reason = _reason(code, log)
        outcome = outcome_of(code, was_stopped=False)
        return JobStatus(outcome, reason, retry=code == RETRY_CODE, host=self._api.address)


def _reason(code: int, log: str) -> str:
    if code < 0:
        return describe_signal(-code)
    if code == NOT_FOUND_CODE:
        return "the machines of the cluster do not find the command `outfox`; start Ray where it is on the PATH"
    return last_error(log) or f"exit code {code}"
