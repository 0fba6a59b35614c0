"""The demo's welcome: the state of its round, and what to try as owner, worker and researcher."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.text import count
from plugin.hints import with_command
from round_manager.services.context import ServiceContext
from round_manager.services.tasks import list_rounds, show_overview

OPEN = "open"


@dataclass(frozen=True)
class DemoStatus:
    """The state of the demo's task: its round, what that waits for, and the rounds that researchers can load."""

    round: int
    status: str
    versions: tuple[str, ...]
    waits_for: tuple[str, ...]
    to_check: int
    frozen: tuple[int, ...]

    @property
    def takes_texts(self) -> bool:
        """Whether submissions are open."""
        return self.status == OPEN


@dataclass(frozen=True)
class Ready:
    """A demo that is ready: its addresses, logins and model, and how long the start took."""

    url: str
    project: int
    tasks: int
    email: str
    password: str
    version: str
    accuracy: float
    backend: str
    marketplace: str
    invitation: str
    archives: str
    config: str
    home: str
    seconds: float
    task: str
    standing: DemoStatus
    program: str
    python: str
    colleagues: int = 0


def demo_status(context: ServiceContext, name: str) -> DemoStatus:
    """Return the current state of the task, with what the manager waits for."""
    overview = show_overview(context, name, has_marketplace=True)
    (seen,) = overview.tasks
    noted = [f"{step.name}: {step.waits or step.error}" for step in overview.problems]
    frozen = tuple(one.round.number for one in list_rounds(context, name) if one.round.frozen_at is not None)
    status = "paused" if seen.paused else seen.status
    # An open round waits for the reader of this text; `status` shows what else it waits for.
    waits = () if status == OPEN else (*(with_command(one.text, one.hint) for one in seen.waits_for), *noted)
    return DemoStatus(seen.round, status, seen.versions, waits, seen.queues.get("hits_to_validate", 0), frozen)


def welcome(ready: Ready) -> str:
    """Return the welcome text."""
    return "\n".join(["", *_lines(ready), ""])


def _lines(ready: Ready) -> Iterator[str]:
    yield f"Ready after {ready.seconds:.0f} s. {_round_text(ready.standing)}"
    yield from (f"  - {reason}" for reason in ready.standing.waits_for)
    yield ""
    yield "As the owner of the task:"
    yield f"  open      {ready.url}"
    yield f"  log in    {ready.email}"
    yield f"  password  {ready.password}"
    yield from _owner(ready)
    yield ""
    yield f"As a worker (the link works once; the marketplace is {ready.marketplace}):"
    yield f"  open      {ready.invitation}"
    yield f"  {_worker_text(ready.standing)}"
    yield "  No real money is involved."
    yield ""
    yield f"As a researcher, {_researcher_text(ready.standing.frozen)}:"
    yield f"  start     {ready.python}"
    yield "  import outfox"
    yield f'  outfox.load("{ready.task}", path="{ready.archives}")'
    yield ""
    if ready.colleagues:
        yield f"{ready.colleagues} simulated colleagues (programs) write and validate beside you, and assume that you"
        yield "wrote what you were asked for. Write an example and watch its progress here: it is"
        yield "validated, on the marketplace its bonus is paid, and in about ten minutes the round ends, the"
        yield "model learns from it and the next round opens. To start without them: --no-crowd."
        yield ""
    yield f"Ctrl-C ends the demo; what you did is kept in {ready.home}."


def _round_text(standing: DemoStatus) -> str:
    number = standing.round
    if standing.takes_texts:
        return f"Round {number} is open."
    if standing.status == "validating":
        text = f"Round {number} takes no new submissions: what was written is being checked, decided and paid."
    elif standing.status == "closed":
        text = f"Round {number} is closed, and round {number + 1} is not open yet."
    else:
        text = f"Round {number} is {standing.status}."
    return f"{text} Waiting for:" if standing.waits_for else text


def _owner(ready: Ready) -> Iterator[str]:
    if ready.standing.takes_texts:
        model = f"{ready.version} ({ready.accuracy:.1f} % on held-out sentences)"
        yield f"  Open one of the {ready.tasks:,} tasks, write a sentence and press Shift+Enter:"
        yield "  the model answers at once, and you see whether you fooled it."
        yield f"  The model is {model}."
        yield "  See how the round is going:"
    else:
        yield "  Look around; what you write now waits until a round is open."
        yield "  See what happens next, and how the round went:"
    outfox = outfox_command(ready)
    yield f"  {outfox} status"
    if not ready.standing.takes_texts:
        yield f"  {outfox} round metrics {ready.task}"
    if ready.standing.status == "paused":
        yield f"  {outfox} round resume {ready.task}"


def outfox_command(ready: Ready) -> str:
    """Return how to type a command about the demo, up to the name of the command."""
    return f"{ready.program} --config {shell_path(Path(ready.config))}"


def _worker_text(standing: DemoStatus) -> str:
    if standing.takes_texts:
        return "Take the quiz once; after you pass, accept HITs to write and to check."
    if standing.status == "validating" and standing.to_check:
        return (
            f"There is nothing to write now; if you passed the quiz, you can check ({count(standing.to_check, 'HIT')})."
        )
    return "There are no HITs until a round is open; you can see what you earned."


def _researcher_text(frozen: Sequence[int]) -> str:
    if not frozen:
        return "once a round is frozen"
    rounds = ", ".join(map(str, frozen))
    return f"of round {rounds}" if len(frozen) == 1 else f"of rounds {rounds}"


def shell_program(name: str) -> str:
    """Return how to type a program of this environment: its name if it is on the PATH, else its path."""
    mine = Path(sys.executable).with_name(name)
    if not mine.exists():
        return name
    found = shutil.which(name)
    if found and Path(found).absolute() == mine.absolute():
        return name
    typed = shell_path(mine)
    # A shell looks up a bare name on the PATH only.
    return typed if "/" in typed else f"./{typed}"


def shell_path(path: Path) -> str:
    """Return how to type a path: relative to the current folder if that is shorter."""
    return shlex.quote(min(str(path), os.path.relpath(path), key=len))
