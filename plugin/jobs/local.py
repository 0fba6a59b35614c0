"""Jobs as processes of this machine."""

import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from plugin.jobs.process import RETRY_CODE, describe_signal, last_error, local_command, outcome_of
from round_manager.jobs import JobOutcome, JobRequest, JobStatus

STOP_SECONDS = 30.0


@dataclass
class _Process:
    process: subprocess.Popen[bytes]
    log_start: int
    was_stopped: bool = False


class LocalJobRunner:
    """Runs each job as a child process; its output goes to a log file, its progress to the database."""

    durable = False

    def __init__(
        self,
        environment: Mapping[str, str],
        log_file: Callable[[JobRequest], Path],
        command: Callable[[JobRequest], Sequence[str]] = local_command,
    ) -> None:
        self._environment = environment
        self._log_file = log_file
        self._command = command
        self._processes: dict[str, _Process] = {}

    def start(self, request: JobRequest) -> None:
        """Start the job in a new session, so that Ctrl-C in this process does not reach it."""
        if request.token in self._processes:
            return
        with self._log_file(request).open("ab") as log:
            log_start = log.tell()
            process = subprocess.Popen(
                list(self._command(request)),
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes[request.token] = _Process(process, log_start)

    def status(self, request: JobRequest) -> JobStatus:
        """Return how the job stands, by the exit code of its process."""
        if request.token not in self._processes:
            return JobStatus(JobOutcome.UNKNOWN)
        started = self._processes[request.token]
        code = started.process.poll()
        outcome = outcome_of(code, was_stopped=started.was_stopped)
        reason = self._reason(request, code) if code else ""
        pid = started.process.pid
        return JobStatus(outcome, reason, retry=code == RETRY_CODE, host=socket.gethostname(), pid=pid)

    def stop(self, request: JobRequest, seconds: float = STOP_SECONDS) -> None:
        """Send SIGTERM, so that the job records its own end; kill it where it does not end in time."""
        started = self._processes.get(request.token)
        if started is None or started.process.poll() is not None:
            return
        started.was_stopped = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            started.process.send_signal(number)
            try:
                started.process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            return

    def log(self, request: JobRequest) -> str:
        """Return what the job has printed since it was started."""
        with self._log_file(request).open("rb") as log:
            # Earlier jobs wrote what comes before.
            log.seek(self._processes[request.token].log_start)
            return log.read().decode("utf-8", "replace")

    def _reason(self, request: JobRequest, code: int) -> str:
        if code < 0:
            return describe_signal(-code)
        return last_error(self.log(request)) or f"exit code {code}"
