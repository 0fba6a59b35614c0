"""Ways for a backend's tries to reach the store: in this process, or by a signed post to the web app."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.clock import Clock, SystemClock
from ml_backend.artefact import read_manifest
from ml_backend.errors import BackendError
from ml_backend.registry.registry import Registry, open_registry
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.errors import Undeliverable
from plugin.attempt_post import AttemptPost, NotTaken
from plugin.lazy_store import LazyStore
from plugin.settings import Settings
from round_manager.errors import RoundManagerError
from round_manager.examples.attempts import IntakeResult, store_attempts
from round_manager.learning.versions import register_version
from round_manager.tasks.tasks import find_task

Deliver = Callable[[Sequence[AttemptRecord]], None]


@dataclass(frozen=True)
class AttemptIntake:
    """Takes tries into a store; versions that answer without ever having been registered are found in the registry."""

    lazy_store: LazyStore
    open_registry: Callable[[], Registry]
    where: str
    clock: Clock

    def take(self, tries: Sequence[AttemptRecord]) -> IntakeResult:
        """What became of the tries; an error where none of them was stored and trying again may help."""
        intake = self._stored(tries)
        if not intake.unknown:
            return intake
        known = [self._registered(task, version) for task, version in sorted(intake.unknown)]
        if not any(known):
            return intake
        again = self._stored([one for one in tries if one.verdict.id in intake.refused])
        return IntakeResult(intake.stored + again.stored, again.refused, again.unknown)

    def _stored(self, tries: Sequence[AttemptRecord]) -> IntakeResult:
        with self.lazy_store.open().write() as session:
            return store_attempts(session, tries, now=self.clock.now())

    def _registered(self, name: str, version: str) -> bool:
        """Whether the version is registered now; False where the registry does not have it either."""
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


def intake_of(settings: Settings, lazy_store: LazyStore) -> AttemptIntake:
    """The intake that the settings describe."""
    place = settings.registry_location
    return AttemptIntake(lazy_store, lambda: open_registry(place, settings.cache_path / "models"), place, SystemClock())


def deliver_to_store(settings: Settings) -> Deliver:
    """What a sink delivers with where the database is within reach; it is opened by the process that first delivers."""
    intake = intake_of(settings, LazyStore(settings.database))

    def deliver(tries: Sequence[AttemptRecord]) -> None:
        try:
            taken = intake.take(tries)
        except RoundManagerError as error:
            raise NotTaken(str(error)) from error
        if taken.refused:
            # The sink then delivers one by one; those that are stored already are stored once all the same.
            raise Undeliverable(next(iter(taken.refused.values())))

    return deliver


def deliver_by_post(settings: Settings) -> Deliver:
    """What a sink delivers with where only the web app can reach the database."""
    return AttemptPost(settings.web_url, settings.signing_secrets())
