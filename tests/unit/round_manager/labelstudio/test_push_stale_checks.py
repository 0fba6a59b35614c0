"""Checks that can no longer take a vote are deleted; annotated ones stay."""

from collections.abc import Callable

import pytest

from round_manager.labelstudio.port import LabelStudioError, LabelStudioUnavailable
from round_manager.labelstudio.push import PushResult
from round_manager.labelstudio.sync import SyncResult
from round_manager.models import Example, ExampleStatus, LabelStudioTask, ProjectKind
from tests.fakes.clock import NOON
from tests.fakes.label_studio import Killed
from tests.unit.round_manager.labelstudio.conftest import World, Worlds

VALIDATE = ProjectKind.VALIDATE
DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED, ExampleStatus.WITHDRAWN)


def with_checks(worlds: Worlds, *texts: str) -> World:
    world = worlds()
    world.examples(list(texts))
    assert world.push() == PushResult(validations=2 * len(texts))
    return world


def becomes(world: World, status: ExampleStatus, index: int = 0) -> None:
    """What deciding, its owner or a flag makes of an example."""
    with world.store.write() as session:
        example = session.get_one(Example, world.rows(Example)[index].id)
        example.status, example.gold_label = status, example.label
        example.decided_at = NOON if status in DECIDED else None


def test_checks_of_a_closed_round_are_deleted(worlds: Worlds) -> None:
    world = with_checks(worlds, "positive one", "positive two")
    world.close_round()
    assert world.sync() == SyncResult(cleared=4)
    assert world.tasks(VALIDATE) == []
    assert world.status().projects[1].counts.sent == 0
    before = len(world.studio.changes)
    assert (world.sync(), world.push()) == (SyncResult(), PushResult())
    assert len(world.studio.changes) == before


@pytest.mark.parametrize("status", DECIDED)
def test_checks_of_a_decided_example_are_deleted_and_others_stay(worlds: Worlds, status: ExampleStatus) -> None:
    world = with_checks(worlds, "positive one", "positive two")
    becomes(world, status)
    other = world.tasks(VALIDATE)[2:]
    assert world.push() == PushResult(cleared=2)
    assert world.tasks(VALIDATE) == other


def test_a_flagged_example_keeps_its_checks(worlds: Worlds) -> None:
    world = with_checks(worlds, "positive one")
    becomes(world, ExampleStatus.FLAGGED)
    assert world.sync() == SyncResult()
    assert len(world.tasks(VALIDATE)) == 2


def test_creation_tasks_are_never_deleted(worlds: Worlds) -> None:
    world = with_checks(worlds, "positive one")
    before = world.tasks()
    world.close_round()
    world.sync()
    assert world.tasks() == before


def test_an_annotated_check_stays_and_its_vote_is_refused(worlds: Worlds) -> None:
    world = with_checks(worlds, "positive one")
    first, _ = world.tasks(VALIDATE)
    world.close_round()
    world.studio.annotate(first, world.judged(label="negative"), user=8)
    assert world.push() == PushResult(cleared=1)
    assert world.tasks(VALIDATE) == [first]
    assert world.sync() == SyncResult(read=1, problems=1)
    assert world.sync() == SyncResult()
    assert world.tasks(VALIDATE) == [first]


def test_a_check_that_is_submitted_meanwhile_stays(worlds: Worlds) -> None:
    world = with_checks(worlds, "positive one")
    _, second = world.tasks(VALIDATE)
    world.close_round()
    remove = world.studio.delete_unannotated

    def somebody_is_quicker(project: int, numbers: list[int]) -> set[int]:
        world.studio.annotate(second, world.judged(label="negative"), user=8)
        return remove(project, numbers)

    world.studio.delete_unannotated = somebody_is_quicker  # type: ignore[method-assign,assignment]
    assert world.sync() == SyncResult(cleared=1)
    world.studio.delete_unannotated = remove  # type: ignore[method-assign]
    assert world.tasks(VALIDATE) == [second]
    assert world.sync() == SyncResult(read=1, problems=1)


def test_a_skipped_check_is_deleted(worlds: Worlds) -> None:
    world = with_checks(worlds, "positive one")
    world.studio.annotate(world.tasks(VALIDATE)[0], [], user=8, was_cancelled=True)
    world.close_round()
    assert world.sync() == SyncResult(cleared=2)
    assert world.tasks(VALIDATE) == []


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("fault", [Killed, lambda: LabelStudioUnavailable("takes too long")])
def test_the_next_sync_finishes_an_interrupted_deletion(
    worlds: Worlds, moment: str, fault: Callable[[], BaseException]
) -> None:
    world = with_checks(worlds, "positive one")
    world.close_round()
    getattr(world.studio, moment)["delete_unannotated"] = fault()
    with pytest.raises((Killed, LabelStudioError)):
        world.sync()
    assert world.sync() == SyncResult(cleared=2)
    assert world.tasks(VALIDATE) == []
    assert world.sync() == SyncResult()


def test_a_check_that_was_sent_but_not_recorded_is_found_and_deleted(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one"])
    world.studio.after["add_tasks"] = Killed()
    with pytest.raises(Killed):
        world.push()
    assert len(world.tasks(VALIDATE)) == 2
    world.close_round()
    assert world.sync() == SyncResult(cleared=2)
    assert world.tasks(VALIDATE) == []


def test_a_check_that_was_planned_in_a_closed_round_is_not_sent_in_the_next(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one"])
    world.studio.before["add_tasks"] = Killed()
    with pytest.raises(Killed):
        world.push()
    world.close_round()
    world.open_round()
    assert world.push().validations == 0
    assert world.tasks(VALIDATE) == []
    assert all(row.external_id is not None for row in world.rows(LabelStudioTask))


def test_an_example_that_needs_votes_again_gets_new_checks(worlds: Worlds) -> None:
    world = with_checks(worlds, "positive one")
    becomes(world, ExampleStatus.WITHDRAWN)
    world.sync()
    becomes(world, ExampleStatus.PENDING)
    assert world.push() == PushResult(validations=2)
