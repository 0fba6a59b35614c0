"""Rotating and rolling back through the service: pins, audit entries, and rounds that keep their versions."""

from pathlib import Path

import pytest
from sqlalchemy import select

from ml_backend.errors import NoEarlierPins
from round_manager.database.store import Store
from round_manager.models import AuditEntry
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.model_versions import ModelDeployment
from round_manager.services.rotation import list_pins, list_servers, roll_back_models, rotate_models, verify_versions
from round_manager.tasks.tasks import create_task
from templates import find_pack
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.registry import TASK, QuickRegistry, corrupt, load_fixed, make_version

ACTOR = Actor("ann")


class NoProgress:
    def start(self, total_steps: int, what: str) -> None: ...

    def advance(self, steps: int = 1, note: str = "") -> None: ...

    def finish(self) -> None: ...


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def context(any_store: Store) -> ServiceContext:
    return ServiceContext(any_store, SettableClock())


def deploy(models: Path) -> ModelDeployment:
    return ModelDeployment(QuickRegistry(models), str(models), load_fixed)


def audit(context: ServiceContext) -> list[tuple[str, str, object]]:
    with context.store.read() as session:
        entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id))
        return [(one.actor, one.action, one.after) for one in entries if one.action != "created"]


def test_a_rotation_and_a_rollback_are_pinned_and_audited(context: ServiceContext, models: Path) -> None:
    with context.store.write() as session:
        create_task(session, find_pack(TASK), now=NOON)
    deployment = deploy(models)
    old, new = make_version(models, "positive"), make_version(models, "negative")
    rotate_models(context, ACTOR, deployment, TASK, [old])
    rotation = rotate_models(context, ACTOR, deployment, TASK, [new], reason="better")
    assert (rotation.pins.versions, rotation.servers) == ((new,), ())
    assert roll_back_models(context, ACTOR, deployment, TASK).pins.versions == (old,)
    changes = [
        (actor, action, after["versions"])  # type: ignore[index]
        for actor, action, after in audit(context)
    ]
    assert changes == [("ann", "rotated", [old]), ("ann", "rotated", [new]), ("ann", "rolled back", [old])]
    (record,) = list_pins(deployment.registry)
    assert (record.task, record.round, record.versions, record.who) == (TASK, None, (old,), "ann")
    assert list_servers(deployment.registry) == []


def test_a_task_that_the_database_does_not_know_is_rotated_without_an_audit_entry(
    context: ServiceContext, models: Path
) -> None:
    version = make_version(models)
    rotate_models(context, ACTOR, deploy(models), TASK, [version], round_number=1)
    assert audit(context) == []


def test_without_a_database_a_registry_is_rotated_on_its_own(models: Path) -> None:
    version = make_version(models)
    assert rotate_models(None, ACTOR, deploy(models), TASK, [version]).pins.versions == (version,)
    with pytest.raises(NoEarlierPins):
        roll_back_models(None, ACTOR, deploy(models), TASK)


def test_verification_names_the_damaged_version(models: Path) -> None:
    good, bad = make_version(models, note="1"), make_version(models, note="2")
    corrupt(models / TASK / bad)
    checks = {one.version: one.error for one in verify_versions(QuickRegistry(models), progress=NoProgress())}
    assert checks[good] is None
    assert checks[bad]
