"""Judges: they put a text to the pinned model versions on the server, and return the verdict."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from ml_backend.registry.model_pool import Load, prepare
from ml_backend.registry.registry import Registry
from ml_backend.targets.target import Target
from ml_backend.verdict import Verdict, judge
from templates.spec import TaskSpec

MAX_LOADED = 8


@dataclass(frozen=True)
class JudgeRequest:
    """A text and the right answer, and the pinned versions of a round that must answer.

    `holder` is the session that the verdict is signed for; empty if it does not leave the server.
    """

    spec: TaskSpec
    round: int
    versions: Sequence[str]
    fields: Mapping[str, str]
    target: str | None
    holder: str = ""


class Judge(Protocol):
    """Asks pinned model versions. A verdict that a browser or Label Studio reports is never trusted."""

    def judge(self, request: JudgeRequest) -> Verdict:
        """Return the verdict of exactly these versions, in their order, on exactly these inputs."""


def _now() -> datetime:
    return datetime.now(UTC)


class RegistryJudge:
    """Loads each version once, from a registry that is opened when it is first needed. Threads may share it.

    Only the versions that were used last stay loaded, so that memory is bounded.
    """

    def __init__(
        self,
        open_registry: Callable[[], Registry],
        load: Load,
        *,
        now: Callable[[], datetime] = _now,
        max_loaded: int = MAX_LOADED,
    ) -> None:
        self._open_registry = open_registry
        self._load = load
        self._now = now
        self._max_loaded = max_loaded
        self._registry: Registry | None = None
        self._loaded: OrderedDict[tuple[str, str], Target] = OrderedDict()
        self._lock = threading.Lock()

    def judge(self, request: JudgeRequest) -> Verdict:
        """Return the verdict of exactly these versions, in their order, on exactly these inputs."""
        task, fields = request.spec.name, request.fields
        predictions = [(version, self._target(task, version).predict([fields])[0]) for version in request.versions]
        return judge(request.spec, fields, predictions, request.target, now=self._now())

    def _target(self, task: str, version: str) -> Target:
        with self._lock:
            found = self._loaded.get((task, version))
            if found is None:
                self._registry = self._registry or self._open_registry()
                found = self._loaded[task, version] = prepare(self._registry, self._load, task, version)
            self._loaded.move_to_end((task, version))
            while len(self._loaded) > self._max_loaded:
                self._loaded.popitem(last=False)
            return found
