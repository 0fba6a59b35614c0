"""Opens rounds in tests, with a registry and a loader of the test's choice."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.clock import Clock
from ml_backend.registry.model_pool import Load
from ml_backend.registry.registry import Registry
from round_manager.database.store import Store
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.model_versions import ModelDeployment
from round_manager.services.rounds import RoundOpened, open_round


@dataclass(frozen=True)
class RoundOpener:
    """The use case `open_round` with everything that it needs."""

    store: Store
    registry: Registry
    uri: str
    load: Load
    clock: Clock
    timeout: float

    @property
    def models(self) -> ModelDeployment:
        return ModelDeployment(self.registry, self.uri, self.load, self.timeout)

    def open(self, task: str, versions: Sequence[str] = (), *, actor: str = "owner", reason: str = "") -> RoundOpened:
        services = ServiceContext(self.store, self.clock)
        return open_round(services, Actor(actor), task, versions, models=self.models, reason=reason)
