"""A training as a child process: started by whoever manages rounds, looked after, and its death told with a reason."""

import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plugin.operator import operator_name
from round_manager.clock import Clock
from round_manager.database.store import Store
from round_manager.errors import TrainingBusy
from round_manager.learning.jobs import Trainer, tell_failure, training_turn
from round_manager.tasks.tasks import find_task

PROGRAM = "from plugin.cli import main; main()"
PREFIX = "outfox: "


@dataclass
class TrainingProcess:
    """`outfox model retrain` of one task; what it says goes to a log, and how far it is to the database.

    `options` go before the command, such as `--config FILE`.
    """

    task: str
    environment: Mapping[str, str] = field(repr=False)
    log_file: Path
    mode: str | None = None
    options: Sequence[str] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def command(self) -> list[str]:
        """What is run."""
        mode = ["--mode", self.mode] if self.mode else []
        return [sys.executable, "-c", PROGRAM, *self.options, "model", "retrain", self.task, *mode]

    @property
    def pid(self) -> int | None:
        """Its number while it is ours."""
        return self._process.pid if self._process else None

    @property
    def lives(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it, apart from this process: the Ctrl-C that ends us does not reach it."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self, seconds: float = 30.0) -> None:
        """Asks it to end, so that it tells so itself; kills it where it does not in time."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            process.send_signal(how)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            return

    def tell_end(self, store: Store, clock: Clock) -> int | None:
        """How it ended, None while it runs; where it could not tell itself why it failed, that is told for it."""
        process = self._process
        code = process.poll() if process else None
        if process is None or code is None:
            return None
        if code != 0:
            reason = died_of(-code) if code < 0 else self._last_words() or f"it ended with exit code {code}"
            self._tell(store, clock, Trainer(operator_name(), socket.gethostname(), process.pid), reason)
        return code

    def _tell(self, store: Store, clock: Clock, trainer: Trainer, reason: str) -> None:
        try:
            with training_turn(store, self.task), store.write() as session:
                tell_failure(session, find_task(session, self.task), trainer, self.mode, reason, now=clock.now())
        except TrainingBusy:
            return  # Somebody trains already, and has told of the dead one.

    def _last_words(self) -> str:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        said = [line.removeprefix(PREFIX) for line in lines if line.startswith(PREFIX)]
        return said[-1] if said else ""


def died_of(number: int) -> str:
    """Why a process that a signal ended is gone, in words."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    cause = ": the machine ran out of memory, or somebody killed it" if number == signal.SIGKILL else ""
    return f"its process was ended by {name}{cause}; nothing changed"
