"""The use cases of Label Studio: audit entries, changed packs, and connected tasks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from round_manager.labelstudio.connection import ConnectionOptions
from round_manager.labelstudio.crowd_upload import CrowdUpload
from round_manager.labelstudio.sync import SyncResult
from round_manager.models import AuditEntry
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.label_studio import (
    ConnectedLabelStudio,
    PackChanged,
    TaskSync,
    connect_task,
    connected_tasks,
)
from round_manager.tasks.tasks import create_task
from templates import load_pack
from tests.conftest import replace_in
from tests.fakes.clock import NOON
from tests.unit.round_manager.labelstudio.conftest import BACKEND, SECRETS, World, Worlds

OWNER = Actor("owner@test")
OPTIONS = ConnectionOptions(SECRETS, ml_backend=BACKEND)


def context_of(world: World) -> ServiceContext:
    return ServiceContext(world.store, world.clock)


def test_a_connection_is_audited_once(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    made = connect_task(context_of(world), OWNER, world.studio, world.name, OPTIONS)
    assert connect_task(context_of(world), OWNER, world.studio, world.name, OPTIONS).changes == ()
    (entry,) = [one for one in world.rows(AuditEntry) if one.action == "connected"]
    assert (entry.actor, entry.after["projects"]) == ("owner@test", dict(made.projects))


def test_a_changed_pack_is_refused_before_label_studio_is_contacted(
    worlds: Worlds, copy_of: Callable[[str], Path]
) -> None:
    world = worlds(is_open=False, pushed=False)
    folder = copy_of("sentiment")
    with world.store.write() as session:
        create_task(session, load_pack(folder), now=NOON)
    replace_in(folder / "task.yaml", "tries: 10", "tries: 9")
    with pytest.raises(PackChanged) as caught:
        connect_task(context_of(world), OWNER, world.studio, world.name, OPTIONS)
    assert caught.value.hint is not None
    assert world.studio.calls == []


def test_a_connected_task_is_read_filled_and_pointed_at_the_live_round(worlds: Worlds) -> None:
    world = worlds(is_open=False, pushed=False)
    connected = ConnectedLabelStudio(lambda: context_of(world), OWNER, world.studio, world.judge)
    assert connected.tasks() == []
    connect_task(context_of(world), OWNER, world.studio, world.name, OPTIONS)
    assert connected.tasks() == connected_tasks(context_of(world)) == [world.name]
    world.open_round()
    assert connected.push(world.name).contexts == len(world.pack.contexts)
    assert connected.follow(world.name) == f"{BACKEND}/tasks/{world.name}/rounds/1"
    assert connected.follow(world.name) is None
    world.studio.annotate(world.tasks()[0], world.written("a text"))
    assert connected.read(world.name) == TaskSync(SyncResult(read=1, examples=1), CrowdUpload(), outcomes=1)
