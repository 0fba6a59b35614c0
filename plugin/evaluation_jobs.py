"""Evaluations on a cluster: the order that this machine writes, the job that carries it out, and its progress.

The job prints a line for each piece of work that is complete, and lines with the rows that were answered meanwhile. Its
results are next to the archives, as those of any evaluation.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.errors import CodedError
from common.progress import Progress
from plugin.errors import ClusterJobFailed, ClusterUnreachable
from plugin.hints import advice_for
from plugin.settings import Settings, load_settings
from plugin.wiring import Application
from round_manager.jobs import EVALUATION, JobOutcome, JobRequest, next_request

if TYPE_CHECKING:
    from round_manager.evaluation.work import Done, Work
    from round_manager.jobs import JobRunner

POLL_SECONDS = 1.0
SECONDS_BETWEEN_LINES = 2.0
# Ray prefixes lines of tasks with their process.
_LINE = re.compile(r"outfox-(done|rows) (\{.*\})")


@dataclass(frozen=True)
class ClusterEvaluation:
    """Performs pieces of work as one job of the cluster; the same evaluation is found again while it runs."""

    app: Application
    runner: "JobRunner"
    task: str
    identity: str
    poll_seconds: float = POLL_SECONDS

    def run(self, work: "Sequence[Work]", progress: Progress) -> "Iterator[Done]":
        """Yield what is done as soon as it is; stop the job if this process is interrupted."""
        from round_manager.evaluation.orders import write_order
        from round_manager.evaluation.storage import open_evaluations

        request = next_request(self.runner, EVALUATION, self.task, self.identity)
        if self.runner.status(request).outcome is not JobOutcome.RUNNING:
            published = frozenset(self.app.registry().versions(self.task))
            store = open_evaluations(self.app.settings.archives_location, self.task)
            write_order(store, request.token, work, lambda version: version in published)
            self.runner.start(request)
        try:
            yield from self._follow(request, work, progress)
        except (KeyboardInterrupt, GeneratorExit):
            self.runner.stop(request)
            raise

    def _follow(self, request: JobRequest, work: "Sequence[Work]", progress: Progress) -> "Iterator[Done]":
        from round_manager.evaluation.work import Done

        waiting = {(one.model.id, one.data.sha256) for one in work}
        rows: dict[tuple[str, str], int] = {}
        shown = 0
        while True:
            status = self.runner.status(request)
            if status.outcome not in (JobOutcome.RUNNING, JobOutcome.SUCCEEDED):
                reason = status.reason or "the job was stopped, or the cluster was restarted"
                is_retriable = status.retry or status.outcome is not JobOutcome.FAILED
                raise ClusterJobFailed(f"the evaluation did not end: {reason}", retry=is_retriable)
            for what, line in _lines(self._log(request)):
                piece = (str(line["model"]), str(line["data"]))
                if what == "rows" and piece in waiting:
                    rows[piece] = max(rows.get(piece, 0), int(line["rows"]))
                elif what == "done" and piece in waiting:
                    waiting.remove(piece)
                    yield Done(*piece, results={})
            # Of pieces that are done, all rows are counted elsewhere.
            answered = sum(number for piece, number in rows.items() if piece in waiting)
            progress.advance(max(0, answered - shown))
            shown = answered
            if status.outcome is JobOutcome.SUCCEEDED:
                return
            time.sleep(self.poll_seconds)

    def _log(self, request: JobRequest) -> str:
        try:
            return self.runner.log(request)
        except ClusterUnreachable:
            return ""  # The status says when the cluster counts as lost.


def cluster_evaluation(app: Application, task: str, identity: str) -> ClusterEvaluation:
    """Return what performs evaluations on the cluster that the settings name."""
    return ClusterEvaluation(app, app.ray_runner(), task, f"{app.settings.installation_id} {identity}")


def carry_out(app: Application, task: str, token: str, config: Path | None) -> None:
    """Carry an order out: the job's own part, on the cluster. Raise ClusterJobFailed for a piece that fails."""
    from plugin.jobs.ray_tasks import run_tasks
    from round_manager.evaluation.orders import read_order
    from round_manager.evaluation.storage import open_evaluations

    pieces = read_order(open_evaluations(app.settings.archives_location, task), token)
    named = str(config) if config else None
    for text in run_tasks(perform_piece, [(named, task, piece) for piece in pieces]):
        result = json.loads(text)
        if "error" in result:
            raise ClusterJobFailed(str(result["error"]), retry=bool(result["retry"]))
        print("outfox-done", text, flush=True)


def perform_piece(config: str | None, task: str, piece: str) -> str:
    """Perform one piece of an order on this machine; return what is done, or the error, as JSON."""
    try:
        app = Application(load_settings(os.environ, config=Path(config) if config else None))
        done = _perform(app.settings, app, task, piece)
    except CodedError as error:
        # Ray would wrap an exception, and not every one survives that.
        return json.dumps({"error": advice_for(error), "code": error.code, "retry": error.retry})
    return json.dumps({"model": done.model, "data": done.data})


def _perform(settings: Settings, app: Application, task: str, piece: str) -> "Done":
    from round_manager.evaluation.orders import Resolver
    from round_manager.evaluation.storage import open_evaluations
    from round_manager.evaluation.work import perform

    store = open_evaluations(settings.archives_location, task)
    registry = app.registry()
    resolver = Resolver(
        store, lambda version: registry.fetch(task, version), settings.archives_location, settings.cache_path
    )
    work = resolver.work(piece)
    return perform(work, _PrintedRows(work))


class _PrintedRows:
    """Prints how many rows are answered; Ray forwards it to the log of the job."""

    def __init__(self, work: "Work") -> None:
        self._piece = {"model": work.model.id, "data": work.data.sha256}
        self._rows = 0
        self._printed_at = time.monotonic()
        self._counts = False

    def start(self, total_steps: int, what: str) -> None:
        """Begin a stage; those without steps answer no new rows."""
        self._counts = bool(total_steps)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Count rows."""
        self._rows += steps if self._counts else 0
        now = time.monotonic()
        if now - self._printed_at >= SECONDS_BETWEEN_LINES:
            self._printed_at = now
            print("outfox-rows", json.dumps({**self._piece, "rows": self._rows}), flush=True)

    def finish(self) -> None:
        """Do nothing: the job prints a line when the piece is complete."""


def _lines(log: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for match in _LINE.finditer(log):
        try:
            line = json.loads(match[2])
        except ValueError:
            continue  # Cut off at the end of the log.
        if isinstance(line, dict) and {"model", "data"} <= line.keys():
            yield match[1], line
