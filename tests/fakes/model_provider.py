"""A model provider whose models a test sets."""

from dataclasses import dataclass

from ml_backend.errors import BackendError
from ml_backend.targets.target import Target, joint_concurrency
from templates.pack import Pack
from tests.fakes.target import FakeTarget


class NotThere(BackendError):
    """Raised while nothing is loaded."""

    code = "not_there"
    retry = True


@dataclass(frozen=True)
class FakeModels:
    """The models that answer now."""

    task: str
    round: int | None
    generation: int
    targets: tuple[Target, ...]

    @property
    def concurrency(self) -> int | None:
        return joint_concurrency(self.targets)


class FakeModelProvider:
    """Provides the models that `place` set."""

    def __init__(self, *packs: Pack) -> None:
        self._placed: dict[tuple[str, int | None], FakeModels] = {}
        self.running = False
        for pack in packs:
            self.place(pack.spec.name, FakeTarget(pack.spec))

    def place(self, task: str, *targets: Target, round: int | None = None) -> None:
        generation = max((one.generation for one in self._placed.values()), default=0) + 1
        self._placed[task, round] = FakeModels(task, round, generation, targets)

    def clear(self) -> None:
        self._placed = {}

    def models_for(self, task: str, round: int | None = None) -> FakeModels:
        found = self._placed.get((task, round)) or self._placed.get((task, None))
        if found is None:
            raise NotThere(f"no model of {task} is loaded yet; try again in a moment")
        return found

    def state(self) -> dict[str, object]:
        return {task: [one.version for one in serving.targets] for (task, _), serving in self._placed.items()}

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False
