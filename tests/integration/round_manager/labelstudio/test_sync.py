"""The Label Studio sync on PostgreSQL, which is stricter than SQLite."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from round_manager.models import Example, LabelStudioAnnotation, ProjectKind, Vote
from round_manager.tasks.tasks import create_task
from templates import find_pack
from tests.fakes.clock import NOON
from tests.integration.databases import Databases
from tests.unit.round_manager.labelstudio.conftest import World
from tests.unit.round_manager.labelstudio.test_parallel_processes import both


@pytest.fixture
def world(postgresql_databases: Databases) -> Iterator[World]:
    with postgresql_databases.opened() as store:
        made = World(find_pack("sentiment"), store)
        with store.write() as session:
            create_task(session, made.pack, now=NOON)
        made.open_round()
        made.connect()
        made.push()
        yield made


def test_from_contexts_to_votes_and_on_to_another_project(world: World) -> None:
    world.examples(["positive one", "positive two"])
    assert world.push().validations == 4
    for number in world.tasks(ProjectKind.VALIDATE)[:2]:
        world.studio.annotate(number, world.judged(label="negative"), user=8)
    assert world.sync().votes == 1
    assert world.push().validations == 1
    assert world.sync().read == 0
    world.close_round()
    world.open_round()
    assert world.push().contexts == 2
    del world.studio.projects[world.link().project]
    world.connect()
    assert world.push().contexts == len(world.pack.contexts)
    assert [len(world.rows(one)) for one in (Example, Vote, LabelStudioAnnotation)] == [2, 1, 4]
    assert world.status().projects[0].counts.sent == len(world.pack.contexts)


def test_two_syncs_at_once_read_everything_once(world: World) -> None:
    for place, number in enumerate(world.tasks()[:4]):
        world.studio.annotate(number, world.written(f"text {place}"))
    meeting = threading.Barrier(2, timeout=1)

    def meet() -> None:
        with suppress(threading.BrokenBarrierError):
            meeting.wait()

    world.judge.before = meet
    assert len(both(world.sync)) == 2, "one of them failed"
    assert len(world.rows(Example)) == 4
    assert [one.problem for one in world.rows(LabelStudioAnnotation)] == [None] * 4
