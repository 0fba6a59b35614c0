"""Model versions as use cases: register what a registry holds, and trace a version back to its rows."""

from collections.abc import Sequence

from common.errors import Hint
from ml_backend.artefact import read_manifest
from ml_backend.errors import ModelError
from ml_backend.manifest import Manifest
from ml_backend.registry.errors import RegistryError
from ml_backend.registry.registry import Registry
from round_manager.errors import ModelVersionNotFound
from round_manager.learning.lineage import Ancestor, lineage
from round_manager.learning.rows import training_rows
from round_manager.learning.versions import check_fits, register_version
from round_manager.services.context import ServiceContext
from round_manager.specs import spec_of
from round_manager.tasks.tasks import find_task
from templates import SeedRow, TaskSpec

MAX_ANCESTORS = 100


def register_versions(
    context: ServiceContext,
    registry: Registry,
    location: str,
    task: str,
    versions: Sequence[str],
    spec: TaskSpec | None = None,
) -> None:
    """Register versions of a registry at `location` in the database, parents first; all or none, safe to repeat.

    With a spec, raise ModelVersionMismatch unless each of them fits it.
    """
    lines = [_ancestry(registry, task, version) for version in versions]
    if spec is not None:
        for line in lines:
            check_fits(spec, line[-1])
    with context.store.write() as session:
        row = find_task(session, task)
        for manifest in (one for line in lines for one in line):
            uri = f"{location.rstrip('/')}/{task}/{manifest.version}"
            register_version(session, row, manifest, uri, now=context.now())


def trace_versions(
    context: ServiceContext, registry: Registry, task: str, version: str | None = None
) -> list[list[Ancestor]]:
    """Return the lineage of a version, by default of each version that serves now."""
    with context.store.read() as session:
        found = find_task(session, task)
        chosen = [version] if version else _serving(registry, task)
        return [lineage(session, found, one, lambda name: _manifest(registry, task, name)) for one in chosen]


def changed_sources(
    context: ServiceContext, task: str, seed: Sequence[SeedRow], versions: Sequence[Ancestor]
) -> list[str]:
    """Return the sources whose rows have another hash now than when the versions were trained."""
    changed = dict[str, None]()
    with context.store.read() as session:
        row = find_task(session, task)
        for version in (one for one in versions if one.rounds):
            current = training_rows(session, row, spec_of(row), seed, up_to=max(version.rounds))
            hashes = {"seed" if one.round is None else f"round {one.round}": one.sha256 for one in current.sources}
            changed |= {one.source: None for one in version.learned if hashes.get(one.source) != one.sha256}
    return list(changed)


def _serving(registry: Registry, task: str) -> Sequence[str]:
    pins = registry.pins(task)
    if pins is None:
        hint = Hint("list_models", task=task)
        raise ModelVersionNotFound(f"no version of {task} serves yet; name a version", hint=hint)
    return pins.versions


def _manifest(registry: Registry, task: str, version: str) -> Manifest | None:
    """Return the manifest of a version; None if the registry has no complete one."""
    try:
        return read_manifest(registry.fetch(task, version))
    except ModelError:
        return None


def _ancestry(registry: Registry, task: str, version: str) -> list[Manifest]:
    """Return the version's manifest after those of its parents, as far back as the registry still has them."""
    line = [read_manifest(registry.fetch(task, version))]
    while line[0].parent and len(line) < MAX_ANCESTORS:
        try:
            line.insert(0, read_manifest(registry.fetch(task, line[0].parent)))
        except (ModelError, RegistryError) as error:
            if error.retry:  # A parent that is only unreachable now must not be left out.
                raise
            break
    return line
