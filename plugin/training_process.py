"""A training as a child process: started by whoever manages rounds, looked after, and its death told with a reason."""

import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common.clock import Clock
from plugin.operator import operator_name
from round_manager.database.store import Store
from round_manager.errors import TrainingBusy
from round_manager.learning.jobs import Trainer, new_token, tell_failure, tell_stop, training_turn
from round_manager.tasks.tasks import find_task

PROGRAM = "from plugin.cli import main; main()"
PREFIX = "outfox: "
# What a training that was started so ends with where somebody else trains the task already.
SOMEBODY_ELSE = 4
MAY_PASS = 3
STOPPED = 130
TELLS_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


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
    token: str = field(default_factory=new_token, init=False)
    _log_began: int = field(default=0, init=False, repr=False)
    _is_stopped: bool = field(default=False, init=False, repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def command(self) -> list[str]:
        """What is run."""
        mode = ["--mode", self.mode] if self.mode else []
        retrain = ["model", "retrain", self.task, "--token", self.token, *mode]
        # -P: whatever lies in the folder that it is started in is not ours to import.
        return [sys.executable, "-P", "-c", PROGRAM, *self.options, *retrain]

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
            self._log_began = log.tell()
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
        self._is_stopped = True
        for how in (signal.SIGTERM, signal.SIGKILL):
            process.send_signal(how)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            return

    def tell_end(self, store: Store, clock: Clock) -> int | None:
        """How it ended, None while it runs; where it could not tell itself how it came to that, that is told for it.

        Whoever was told to end has not failed, and has no job where it had not begun one.
        """
        process = self._process
        code = process.poll() if process else None
        if process is None or code is None:
            return None
        if code not in (0, SOMEBODY_ELSE):
            self._tell(store, clock, process.pid, code)
        return code

    def _tell(self, store: Store, clock: Clock, pid: int, code: int) -> None:
        now, is_told = clock.now(), self._is_stopped or -code in TELLS_TO_END or code == STOPPED
        reason = died_of(-code) if code < 0 else self._last_words() or f"it ended with exit code {code}"
        try:
            with training_turn(store, self.task), store.write() as session:
                task = find_task(session, self.task)
                if is_told:
                    tell_stop(session, task, self.token, reason, now=now)
                else:
                    trainer = Trainer(operator_name(), socket.gethostname(), pid, self.token)
                    tell_failure(session, task, trainer, self.mode, reason, retry=code == MAY_PASS, now=now)
        except TrainingBusy:
            return  # Somebody trains already, and has told of the dead one.

    def _last_words(self) -> str:
        with self.log_file.open("rb") as log:
            # What stands before was said by others.
            log.seek(self._log_began)
            lines = log.read().decode("utf-8", "replace").splitlines()
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
