"""Use case about attempts: store those that an ML backend delivers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.clock import Clock
from ml_backend.artefact import read_manifest
from ml_backend.errors import BackendError
from ml_backend.registry.registry import Registry
from ml_backend.serving.attempt_record import AttemptRecord
from round_manager.database.store import LazyStore
from round_manager.errors import RoundManagerError
from round_manager.examples.attempts import IntakeResult, store_attempts
from round_manager.learning.versions import register_version
from round_manager.tasks.tasks import find_task


@dataclass(frozen=True)
class AttemptIntake:
    """Stores attempts; versions that are not registered yet are looked up in the registry and registered.

    Servers open the database on first use, so this takes a `LazyStore` where other use cases take a `ServiceContext`.
    """

    lazy_store: LazyStore
    open_registry: Callable[[], Registry]
    where: str
    clock: Clock

    def take(self, attempts: Sequence[AttemptRecord]) -> IntakeResult:
        """Store the attempts; raise an error if none was stored and retrying can help."""
        intake = self._store(attempts)
        if not intake.unknown:
            return intake
        known = [self._register(task, version) for task, version in sorted(intake.unknown)]
        if not any(known):
            return intake
        again = self._store([one for one in attempts if one.verdict.id in intake.refused])
        return IntakeResult(intake.stored + again.stored, again.refused, again.unknown)

    def _store(self, attempts: Sequence[AttemptRecord]) -> IntakeResult:
        with self.lazy_store.open().write() as session:
            return store_attempts(session, attempts, now=self.clock.now())

    def _register(self, name: str, version: str) -> bool:
        """Register the version; return False if the registry does not have it either."""
        try:
            manifest = read_manifest(self.open_registry().fetch(name, version))
            with self.lazy_store.open().write() as session:
                uri = f"{self.where.rstrip('/')}/{name}/{version}"
                register_version(session, find_task(session, name), manifest, uri, now=self.clock.now())
        except (BackendError, RoundManagerError) as error:
            if error.retry:
                raise
            return False
        return True
