"""Opening a round: its versions registered, then pinned for everybody who serves, and only then open.

Each step can be done again, so whoever was killed between two of them runs the command again. The database decides:
where it says that the round is open, its versions are pinned again and nothing else changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from common.clock import Clock
from common.progress import Progress
from ml_backend.registry.model_loader import Load
from ml_backend.registry.registry import Registry
from ml_backend.registry.rotation import rotate
from plugin.errors import PluginError
from round_manager.database.store import Store
from round_manager.errors import RoundError
from round_manager.learning.versions import find_versions
from round_manager.services.context import ServiceContext
from round_manager.services.model_versions import register_versions
from round_manager.specs import spec_of
from round_manager.tasks.affordability import check_can_open
from round_manager.tasks.rounds import draft_round, live_round, open_round, pinned_versions
from round_manager.tasks.tasks import find_task
from templates import TaskSpec


@dataclass(frozen=True)
class Opened:
    """The round that is open now, and whether it was open before."""

    task: str
    number: int
    versions: tuple[str, ...]
    already: bool


@dataclass(frozen=True)
class _Now:
    """Where the task stands: the round that is live or to be opened, its spec, and what a live one pins."""

    number: int
    spec: TaskSpec
    pinned: tuple[str, ...]


@dataclass(frozen=True)
class RoundOpening:
    """Opens rounds of the tasks in a store against the versions of a registry; `where` is the registry's address."""

    store: Store
    registry: Registry
    where: str
    load: Load
    clock: Clock
    timeout: float
    progress: Progress | None = None

    def open(self, name: str, versions: Sequence[str], *, who: str, why: str) -> Opened:
        """The task's next round, open against these versions, else those pinned for it, else the newest."""
        stands = self._stands(name)
        chosen = tuple(versions) or stands.pinned or self._default(name, stands.number)
        if stands.pinned:
            if chosen != stands.pinned:
                text = f"round {stands.number} of {name} is live with {', '.join(stands.pinned)}"
                raise RoundError(f"{text}; close it before the next one is opened")
            self._pin(name, stands.number, chosen, who, why)
            return Opened(name, stands.number, chosen, already=True)
        self._register(name, stands.spec, chosen)
        self._pin(name, stands.number, chosen, who, why)
        try:
            with self.store.write() as session:
                task = find_task(session, name)
                registered = find_versions(session, task, chosen)
                opened = open_round(session, task, registered, now=self.clock.now(), who=who, why=why)
                return Opened(name, opened.number, chosen, already=False)
        except RoundError:
            # Somebody else opened it meanwhile, against others: those are the ones that must answer.
            now = self._stands(name)
            if now.pinned:
                self._pin(name, now.number, now.pinned, who, "the round was opened against these")
            raise

    def _stands(self, name: str) -> _Now:
        with self.store.write() as session:
            task = find_task(session, name)
            live = live_round(session, task.id)
            if live is not None:
                return _Now(live.number, spec_of(live), pinned_versions(session, live))
            draft = draft_round(session, task, now=self.clock.now())
            # Before anything is pinned: what cannot be opened changes nothing that serves.
            check_can_open(session, task, draft)
            return _Now(draft.number, spec_of(draft), ())

    def _default(self, name: str, number: int) -> tuple[str, ...]:
        pins = self.registry.pins(name, number)
        if pins is not None:
            return pins.versions
        known = self.registry.versions(name)
        if not known:
            raise PluginError(f"{name} has no model to play against; `outfox model train {name}` makes one")
        return (known[0],)

    def _register(self, name: str, spec: TaskSpec, versions: Sequence[str]) -> None:
        context = ServiceContext(self.store, self.clock)
        register_versions(context, self.registry, self.where, name, versions, spec)

    def _pin(self, name: str, number: int, versions: Sequence[str], who: str, why: str) -> None:
        book = self.registry.pin_set(name)
        # A backend is up when it has something for the task itself: the first round's versions, until it is rotated.
        for round in (None, number) if book.own(None) is None else (number,):
            pinned = book.own(round)
            if pinned is None or pinned.versions != tuple(versions):
                rotate(
                    self.registry,
                    name,
                    versions,
                    round=round,
                    load=self.load,
                    timeout=self.timeout,
                    progress=self.progress,
                    who=who,
                    why=why or f"round {number} opens",
                )
