"""The process of a job: its command, and what its exit code means."""

import signal
import sys
from collections.abc import Sequence

from round_manager.jobs import EVALUATION, JobOutcome, JobRequest

PROGRAM = "from plugin.cli import main; main()"
ERROR_PREFIX = "outfox: "
# The exit codes of a training besides 0: retry later, another process trains the task, interrupted.
RETRY_CODE = 3
BUSY_CODE = 4
INTERRUPTED_CODE = 130
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def job_arguments(request: JobRequest) -> list[str]:
    """Return the arguments of the `outfox` command that does the work of a job."""
    if request.kind == EVALUATION:
        return ["evaluate", request.task, request.token, "--order"]
    mode = ["--mode", request.mode] if request.mode else []
    return ["model", "retrain", request.task, "--token", request.token, *mode]


def local_command(request: JobRequest, options: Sequence[str] = ()) -> list[str]:
    """Return the command of a job on this machine; `options` go before the subcommand, such as `--config FILE`."""
    # -P: files in the current directory must not be imported.
    return [sys.executable, "-P", "-c", PROGRAM, *options, *job_arguments(request)]


def submissions_command(request: JobRequest, options: Sequence[str] = ()) -> list[str]:
    """Return the command that evaluates the submitted models of a task."""
    return [sys.executable, "-P", "-c", PROGRAM, *options, "submissions", "run", request.task, "--token", request.token]


def outcome_of(code: int | None, *, was_stopped: bool) -> JobOutcome:
    """Return how a process ended by its exit code, which is negative for a signal and None while it runs."""
    if code is None:
        return JobOutcome.RUNNING
    if code == 0:
        return JobOutcome.SUCCEEDED
    if code == BUSY_CODE:
        return JobOutcome.BUSY
    is_stopped = was_stopped or -code in STOP_SIGNALS or code == INTERRUPTED_CODE
    return JobOutcome.STOPPED if is_stopped else JobOutcome.FAILED


def describe_signal(number: int) -> str:
    """Return why a process that a signal ended is gone."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    cause = ": out of memory, or killed by a user" if number == signal.SIGKILL else ""
    return f"the process was ended by {name}{cause}; nothing changed"


def last_error(log: str) -> str | None:
    """Return the last error that a job has printed."""
    errors = [line for line in log.splitlines() if line.startswith(ERROR_PREFIX)]
    return errors[-1].removeprefix(ERROR_PREFIX) if errors else None
