"""A judge that asks the registry's own model versions, one text at a time."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from ml_backend.registry.model_loader import Load, prepare
from ml_backend.registry.registry import Registry
from ml_backend.targets.target import Target
from ml_backend.verdict import Verdict, judge
from templates.spec import TaskSpec

MOST_LOADED = 8


def _now() -> datetime:
    return datetime.now(UTC)


class RegistryJudge:
    """Loads each version once, from the registry that is opened when it is first needed; many threads may ask it.

    It keeps the versions that were asked last, so that a process that judges for years does not fill up.
    """

    def __init__(
        self,
        open_registry: Callable[[], Registry],
        load: Load,
        *,
        now: Callable[[], datetime] = _now,
        most_loaded: int = MOST_LOADED,
    ) -> None:
        self._open_registry = open_registry
        self._load = load
        self._now = now
        self._most_loaded = most_loaded
        self._registry: Registry | None = None
        self._loaded: OrderedDict[tuple[str, str], Target] = OrderedDict()
        self._lock = threading.Lock()

    def judge(self, spec: TaskSpec, versions: Sequence[str], fields: Mapping[str, str], target: str | None) -> Verdict:
        """The verdict of exactly these versions, in their order, on exactly these inputs."""
        answers = [(version, self._predictor(spec.name, version).predict([fields])[0]) for version in versions]
        return judge(spec, fields, answers, target, now=self._now())

    def _predictor(self, task: str, version: str) -> Target:
        with self._lock:
            found = self._loaded.get((task, version))
            if found is None:
                self._registry = self._registry or self._open_registry()
                found = self._loaded[task, version] = prepare(self._registry, self._load, task, version)
            self._loaded.move_to_end((task, version))
            while len(self._loaded) > self._most_loaded:
                self._loaded.popitem(last=False)
            return found
