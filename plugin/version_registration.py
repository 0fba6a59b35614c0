"""Registering model versions: what a registry holds, made known to the database with all that it descends from."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.clock import Clock
from ml_backend.artefact import read_manifest
from ml_backend.errors import ModelError
from ml_backend.manifest import Manifest
from ml_backend.registry.errors import RegistryError
from ml_backend.registry.registry import Registry
from round_manager.database.store import Store
from round_manager.learning.versions import check_fits, register_version
from round_manager.tasks.tasks import find_task
from templates import TaskSpec

MOST_ANCESTORS = 100


@dataclass(frozen=True)
class VersionRegistration:
    """Registers versions of a registry, whose address is `where`, in a store; safe to do again."""

    store: Store
    registry: Registry
    where: str
    clock: Clock

    def register(self, name: str, versions: Sequence[str], spec: TaskSpec | None = None) -> None:
        """The task's versions, parents first, all or none; with a spec, only where each of them fits it."""
        lines = [self._ancestry(name, version) for version in versions]
        for line in lines:
            if spec is not None:
                check_fits(spec, line[-1])
        with self.store.write() as session:
            task = find_task(session, name)
            for manifest in (one for line in lines for one in line):
                uri = f"{self.where.rstrip('/')}/{name}/{manifest.version}"
                register_version(session, task, manifest, uri, now=self.clock.now())

    def _ancestry(self, name: str, version: str) -> list[Manifest]:
        """The version's manifest after those of its parents, as far back as the registry still has them."""
        line = [read_manifest(self.registry.fetch(name, version))]
        while line[0].parent and len(line) < MOST_ANCESTORS:
            try:
                line.insert(0, read_manifest(self.registry.fetch(name, line[0].parent)))
            except (ModelError, RegistryError) as error:
                if error.retry:  # A parent that is only out of reach now must not be left out for ever.
                    raise
                break
        return line
