"""Killed before or after any call and any transaction, and run again: the end is the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from round_manager.models import Example, LabelStudioAnnotation, ProjectKind, Vote
from tests.fakes.label_studio import FakeLabelStudio, Killed
from tests.unit.round_manager.labelstudio.conftest import World, Worlds

CALLS = [name for name in vars(FakeLabelStudio) if not name.startswith("_") and callable(vars(FakeLabelStudio)[name])]
NOT_CALLS = ("annotate", "edit", "tick", "numbers")


class Reaper:
    """Kills at one step; the steps are the moments before and after each call and each transaction."""

    def __init__(self, world: World) -> None:
        self.left: int | None = None
        for name in CALLS:
            if name not in NOT_CALLS:
                setattr(world.studio, name, self._watched(getattr(world.studio, name)))
        write = world.store.write

        @contextmanager
        def watched_write() -> Iterator[Any]:
            self.step()
            with write() as session:
                yield session
                self.step()  # undone
            self.step()  # done, but the answer is lost

        world.store.write = watched_write  # type: ignore[method-assign]

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Killed

    def _watched(self, call: Any) -> Any:
        def watched(*given: Any, **more: Any) -> Any:
            self.step()
            answer = call(*given, **more)
            self.step()
            return answer

        return watched


def until_done(reaper: Reaper, action: Any) -> int:
    """Kills the action at its first step, then at its second, and so on, until it comes through."""
    for step in range(500):
        reaper.left = step
        try:
            action()
        except Killed:
            continue
        reaper.left = None
        return step
    raise AssertionError("it never came through")


def test_a_whole_campaign_ends_the_same(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    reaper = Reaper(world)
    assert until_done(reaper, world.connect) > 10
    until_done(reaper, world.push)
    studio = world.studio
    assert len(studio.projects) == 2
    assert [len(one) for one in studio.backend_of.values()] == [1]
    assert [len(one) for one in studio.webhook_of.values()] == [1, 1]
    keys = [studio.tasks[number].key for number in world.tasks()]
    assert len(keys) == len(set(keys)) == len(world.pack.contexts)

    chosen = [number for number in world.tasks() if studio.tasks[number].data["target"] == "negative"][:3]
    for place, number in enumerate(chosen):
        studio.annotate(number, world.written(f"positive {place}"))
    studio.annotate(world.tasks()[0], [])
    assert until_done(reaper, world.sync) > 5
    assert sorted(one.fields["text"] for one in world.rows(Example)) == [f"positive {place}" for place in range(3)]
    assert len(world.rows(LabelStudioAnnotation)) == 4
    until_done(reaper, world.write_outcomes)
    statuses = sorted(world.data(number)["status"] for number in world.tasks())
    assert statuses[-4:] == ["not accepted", "pending", "pending", "pending"]

    until_done(reaper, world.push)
    (returned,) = [number for number in world.tasks() if world.data(number)["status"] == "returned"]
    assert world.data(returned)["reason"]
    until_done(reaper, world.write_outcomes)
    checking = world.tasks(ProjectKind.VALIDATE)
    keys = [studio.tasks[number].key for number in checking]
    assert len(keys) == len(set(keys)) == 6
    skipped = [[one["completed_by"] for one in studio.tasks[number].annotations] for number in checking]
    assert skipped == [[7]] * 6
    for number in checking:
        studio.annotate(number, world.judged(label="negative"), user=10 + number)
    until_done(reaper, world.sync)
    assert len(world.rows(Vote)) == 6


@pytest.mark.parametrize("kind", list(ProjectKind))
def test_a_replaced_project_ends_the_same(worlds: Worlds, kind: ProjectKind) -> None:
    world = worlds()
    world.examples(["positive one"])
    world.push()
    del world.studio.projects[world.link(kind).project]
    reaper = Reaper(world)
    until_done(reaper, world.connect)
    until_done(reaper, world.push)
    assert len(world.studio.projects) == 2
    assert len(world.tasks()) == len(world.pack.contexts)
    assert len(world.tasks(ProjectKind.VALIDATE)) == 2
