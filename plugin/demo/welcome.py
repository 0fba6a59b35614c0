"""What the demo says when it is ready: what is true of its round now, and what can be tried."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.clock import Clock
from common.text import count
from plugin.demo.typed import typed_path
from round_manager.database.store import Store
from round_manager.loop.manager_record import troubles
from round_manager.loop.overview import task_overview
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task

OPEN = "open"


@dataclass(frozen=True)
class Standing:
    """Where a demo's task stands: its round, what that waits for, and the rounds that researchers can load."""

    round: int
    status: str
    versions: tuple[str, ...]
    waits_for: tuple[str, ...]
    to_check: int
    frozen: tuple[int, ...]

    @property
    def takes_texts(self) -> bool:
        """Whether people can write for it now."""
        return self.status == OPEN


@dataclass(frozen=True)
class Ready:
    """A demo that can be used: where, by whom, with which model, and how long it took to get there."""

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
    standing: Standing
    program: str
    python: str


def standing_of(store: Store, name: str, clock: Clock) -> Standing:
    """The task as it stands now, with what its manager waits for."""
    with store.read() as session:
        task = find_task(session, name)
        seen = task_overview(session, task, now=clock.now())
        noted = [f"{step.name}: {step.waits or step.error}" for step in troubles(session, name)]
        frozen = tuple(one.number for one in list_rounds(session, task) if one.frozen_at is not None)
    status = "paused" if seen.paused else seen.status
    # An open round waits for those who read this; what else is waited for, the status tells.
    waits = () if status == OPEN else (*seen.waits_for, *noted)
    return Standing(seen.round, status, seen.versions, waits, seen.queues.get("hits_to_validate", 0), frozen)


def welcome(ready: Ready) -> str:
    """All of it."""
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
    yield "  Its money is not real."
    yield ""
    yield f"As a researcher, {_researcher_text(ready.standing.frozen)}:"
    yield f"  start     {ready.python}"
    yield "  import outfox"
    yield f'  outfox.load("{ready.task}", path="{ready.archives}")'
    yield ""
    yield f"Ctrl-C ends the demo; what you did is kept in {ready.home}."


def _round_text(standing: Standing) -> str:
    number = standing.round
    if standing.takes_texts:
        return f"Round {number} is open."
    if standing.status == "validating":
        text = f"Round {number} takes no new texts: what was written in it is checked, decided and paid."
    elif standing.status == "closed":
        text = f"Round {number} is closed, and round {number + 1} is not open yet."
    else:
        text = f"Round {number} is {standing.status}."
    return f"{text} What is waited for:" if standing.waits_for else text


def _owner(ready: Ready) -> Iterator[str]:
    if ready.standing.takes_texts:
        model = f"{ready.version} ({ready.accuracy:.1f} % on held-out sentences)"
        yield f"  Open one of the {ready.tasks:,} tasks, write a sentence and press Shift+Enter:"
        yield "  the model answers at once, and tells whether you fooled it."
        yield f"  It is {model}."
        yield "  How the round goes:"
    else:
        yield "  Look around; what is written there now waits until a round is open."
        yield "  How it goes on, and how it went:"
    outfox = f"{ready.program} --config {typed_path(Path(ready.config))}"
    yield f"  {outfox} status"
    if not ready.standing.takes_texts:
        yield f"  {outfox} round metrics {ready.task}"
    if ready.standing.status == "paused":
        yield f"  {outfox} round resume {ready.task}"


def _worker_text(standing: Standing) -> str:
    if standing.takes_texts:
        return "Take the quiz, once; when you have passed it, take HITs to write and to check."
    if standing.status == "validating" and standing.to_check:
        return f"Nothing is to be written now; who has passed the quiz can check ({count(standing.to_check, 'HIT')})."
    return "There is nothing to take until a round is open; what you earned is shown."


def _researcher_text(frozen: Sequence[int]) -> str:
    if not frozen:
        return "once a round is over"
    rounds = ", ".join(map(str, frozen))
    return f"of round {rounds}" if len(frozen) == 1 else f"of rounds {rounds}"
