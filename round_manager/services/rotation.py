"""Use cases of model rotation: rotate, roll back, list pins, and verify the files of versions.

A registry can be served without a database. `context` is None then: there are no rounds to protect and no audit log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import Hint
from common.progress import Progress
from ml_backend.artefact import version_folder
from ml_backend.errors import ModelError
from ml_backend.registry.pins import Pins
from ml_backend.registry.registry import Registry
from ml_backend.registry.rotation import rollback
from round_manager.audit import note
from round_manager.errors import RoundError, TaskError
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.model_versions import ModelDeployment
from round_manager.tasks.rounds import live_round, pinned_versions
from round_manager.tasks.tasks import find_task


class RoundKeepsVersions(RoundError):
    """A live round keeps the versions that it was opened with: verdicts of others would be refused in it."""


@dataclass(frozen=True)
class Rotation:
    """The new pins, and the processes that serve them."""

    pins: Pins
    servers: tuple[str, ...]


@dataclass(frozen=True)
class PinRecord:
    """The versions pinned for a task or a round, with the change that pinned them."""

    task: str
    round: int | None
    generation: int
    versions: tuple[str, ...]
    when: str
    who: str
    why: str


@dataclass(frozen=True)
class ServerRecord:
    """A process that serves a task: whether it follows the latest pins, and what it could not load."""

    task: str
    name: str
    follows: bool
    errors: tuple[str, ...]


@dataclass(frozen=True)
class VersionCheck:
    """Whether the files of a version match their hashes; `error` says what does not."""

    task: str
    version: str
    error: str | None


def rotate_models(
    context: ServiceContext | None,
    actor: Actor,
    models: ModelDeployment,
    task: str,
    versions: Sequence[str],
    *,
    round_number: int | None = None,
    reason: str = "",
) -> Rotation:
    """Pin other versions and wait until every serving process answers with them."""
    _check_round(context, task, round_number, versions)
    pins = models.rotate(actor, task, versions, round=round_number, reason=reason)
    return _record(context, actor, models.registry, pins, "rotated", reason)


def roll_back_models(
    context: ServiceContext | None,
    actor: Actor,
    models: ModelDeployment,
    task: str,
    *,
    round_number: int | None = None,
    reason: str = "",
) -> Rotation:
    """Rotate to the versions that were pinned before; another call goes one step further back."""
    before = models.registry.pin_set(task).before(round_number)
    _check_round(context, task, round_number, before.versions if before else ())
    pins = rollback(
        models.registry,
        task,
        round=round_number,
        load=models.load,
        timeout=models.timeout,
        progress=models.progress,
        who=actor.name,
        why=reason,
    )
    return _record(context, actor, models.registry, pins, "rolled back", reason or "rollback")


def publish_version(actor: Actor, models: Path, registry: Registry, task: str, version: str) -> None:
    """Copy a version from the folder of models to a registry, where it becomes visible when it is complete."""
    registry.publish(version_folder(models, task, version))


def list_pins(registry: Registry, task: str | None = None) -> list[PinRecord]:
    """Return the pins of a task, or of all tasks."""
    found = []
    for name in [task] if task else registry.tasks():
        pin_set = registry.pin_set(name)
        changes = {change.generation: change for change in pin_set.history}
        for pins in pin_set.all():
            change = changes.get(pins.generation)
            when, who, why = (change.at[:19], change.who, change.why) if change else ("", "", "")
            found.append(PinRecord(name, pins.round, pins.generation, pins.versions, when, who, why))
    return found


def list_servers(registry: Registry, task: str | None = None) -> list[ServerRecord]:
    """Return the processes that serve a task, or any task."""
    found = []
    for name in [task] if task else registry.tasks():
        generation = registry.pin_set(name).generation
        for heartbeat in registry.heartbeats(name):
            followed = heartbeat.tasks[name]
            errors = tuple(failure.error for failure in followed.failures)
            found.append(ServerRecord(name, heartbeat.name, followed.generation == generation, errors))
    return found


def verify_versions(
    registry: Registry, task: str | None = None, version: str | None = None, *, progress: Progress
) -> list[VersionCheck]:
    """Compare the files of versions with their hashes; the registry must not have them in its cache."""
    known = [(name, registry.versions(name)) for name in ([task] if task else registry.tasks())]
    chosen = [(name, one) for name, versions in known for one in ([version] if version else versions)]
    progress.start(len(chosen), "Comparing files with their hashes")
    found = []
    for name, one in chosen:
        try:
            registry.fetch(name, one)
            error = None
        except ModelError as problem:
            error = str(problem)
        found.append(VersionCheck(name, one, error))
        progress.advance(1, one)
    progress.finish()
    return found


def _check_round(context: ServiceContext | None, task: str, round_number: int | None, versions: Sequence[str]) -> None:
    """Raise RoundKeepsVersions if the round is live with other versions."""
    if context is None or round_number is None or not versions:
        return
    with context.store.read() as session:
        try:
            live = live_round(session, find_task(session, task).id)
        except TaskError:
            return
        kept = pinned_versions(session, live) if live and live.number == round_number else tuple(versions)
    if kept != tuple(versions):
        text = f"round {round_number} of {task} is live and keeps {', '.join(kept)}"
        raise RoundKeepsVersions(f"{text}; close it, then open the next round", hint=Hint("close_round", task=task))


def _record(
    context: ServiceContext | None, actor: Actor, registry: Registry, pins: Pins, action: str, reason: str
) -> Rotation:
    """Write the audit entry, if the database knows the task."""
    if context is not None:
        with context.store.write() as session:
            try:
                row = find_task(session, pins.task)
            except TaskError:
                row = None
            if row is not None:
                after = {"versions": list(pins.versions), "round": pins.round, "generation": pins.generation}
                note(session, action, row, actor=actor.name, reason=reason, now=context.now(), of=row, after=after)
    return Rotation(pins, tuple(heartbeat.name for heartbeat in registry.heartbeats(pins.task)))
