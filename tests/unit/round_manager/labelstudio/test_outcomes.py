"""What became of submissions and votes is written to their tasks, and refused submissions come back as tasks."""

import pytest

from round_manager.labelstudio.intake import CHANGED
from round_manager.labelstudio.outcomes import NOT_ACCEPTED
from round_manager.labelstudio.port import LabelStudioRefused, LabelStudioUnavailable
from round_manager.labelstudio.push import RETURNED, PushResult
from round_manager.labelstudio.sync import SyncResult
from round_manager.loop.overview import task_overview
from round_manager.models import ExampleStatus, LabelStudioTask, ProjectKind
from round_manager.tasks.tasks import find_task
from tests.fakes.clock import NOON
from tests.unit.round_manager.labelstudio.conftest import World, Worlds
from tests.unit.round_manager.labelstudio.test_push_stale_checks import becomes

VALIDATE = ProjectKind.VALIDATE
LONG = "x" * 600


def refused(world: World) -> tuple[int, int]:
    """Submit a text that is too long; return the numbers of its task and of the one that returns it."""
    number = world.tasks()[0]
    world.studio.annotate(number, world.written(LONG))
    assert world.sync() == SyncResult(read=1, problems=1)
    assert world.push() == PushResult(contexts=1)
    return number, world.tasks()[-1]


def test_an_examples_task_shows_its_status_and_verdict_and_votes_only_after_the_decision(worlds: Worlds) -> None:
    world = worlds()
    (number,) = world.examples(["positive, they said"])
    assert world.write_outcomes() == 1
    shown = world.data(number)
    assert (shown["status"], shown["reason"], shown["sentence"]) == ("pending", "", "positive, they said")
    assert shown["verdict"].startswith("You fooled the model!")
    world.push()
    world.write_outcomes()
    for task, label in zip(world.tasks(VALIDATE), ("negative", "positive"), strict=True):
        world.studio.annotate(task, world.judged(label=label), user=10 + task)
    assert world.sync().votes == 2
    assert world.write_outcomes() == 0
    assert world.data(number)["votes"] == ""
    becomes(world, ExampleStatus.VERIFIED)
    assert world.write_outcomes() == 1
    assert (world.data(number)["status"], world.data(number)["votes"]) == ("verified", "Negative; Positive")
    # Our own changes are read and lead to nothing.
    assert (world.sync(), world.write_outcomes(), world.sync()) == (SyncResult(cleared=0), 0, SyncResult())
    assert [world.data(task) for task in world.tasks(VALIDATE)] == [{"text": "positive, they said"}] * 2


def test_a_refused_submission_is_marked_and_returned_with_its_text_and_the_reason(worlds: Worlds) -> None:
    world = worlds()
    number, returned = refused(world)
    with world.store.read() as session:
        queues = task_overview(session, find_task(session, world.name), now=NOON).queues
    assert queues["refused_in_label_studio"] == 1
    assert world.write_outcomes() == 1
    marked, back = world.data(number), world.data(returned)
    assert (marked["status"], back["status"]) == (NOT_ACCEPTED, RETURNED)
    assert marked["sentence"] == back["sentence"] == LONG
    assert marked["reason"] == back["reason"]
    assert world.pack.spec.with_role("input")[0].title in back["reason"]
    assert (marked["prompt"], marked["target"]) == (back["prompt"], back["target"])

    world.studio.annotate(returned, world.written("short enough"))
    assert world.sync() == SyncResult(read=1, examples=1)
    assert world.write_outcomes() == 1
    assert (world.data(returned)["reason"], world.data(returned)["sentence"]) == ("", "short enough")
    assert world.push().contexts == 0


def test_a_submission_that_is_refused_again_is_returned_again(worlds: Worlds) -> None:
    world = worlds()
    _, returned = refused(world)
    world.studio.annotate(returned, world.written(""))
    assert world.sync() == SyncResult(read=1, problems=1)
    assert world.push() == PushResult(contexts=1)
    assert "empty" in world.data(world.tasks()[-1])["reason"]


@pytest.mark.parametrize("pushed", [True, False])
def test_a_submission_that_is_corrected_in_its_place_is_not_returned(worlds: Worlds, pushed: bool) -> None:
    world = worlds()
    number, before = world.tasks()[0], len(world.tasks())
    annotation = world.studio.annotate(number, world.written(LONG))
    world.sync()
    if pushed:
        world.push()
    world.write_outcomes()
    world.studio.edit(number, annotation, world.written("short enough"))
    assert world.sync() == SyncResult(read=1, examples=1, cleared=int(pushed))
    assert world.push().contexts == 0
    assert len(world.tasks()) == before
    # If the corrected text fools the model, its author also skips the checks of it.
    assert world.write_outcomes() >= 1
    assert world.data(number)["status"] != NOT_ACCEPTED
    assert world.data(number)["reason"] == ""


def test_a_change_after_an_example_was_read_is_explained(worlds: Worlds) -> None:
    world = worlds()
    (number,) = world.examples(["positive, they said"])
    world.write_outcomes()
    world.studio.edit(number, world.studio.tasks[number].annotations[0]["id"], world.written("another"))
    assert world.sync() == SyncResult(read=1, problems=1)
    assert world.write_outcomes() == 1
    assert world.data(number)["reason"].lower() == f"{CHANGED}.".lower()
    assert world.data(number)["sentence"] == "positive, they said"
    assert world.push().contexts == 0


def test_authors_skip_the_checks_of_their_own_examples(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive, they said"], user=7)
    world.push()
    world.write_outcomes()
    for number in world.tasks(VALIDATE):
        (skipped,) = world.studio.tasks[number].annotations
        assert (skipped["completed_by"], skipped["was_cancelled"]) == (7, True)
    assert world.write_outcomes() == 0
    assert world.sync() == SyncResult()


def test_a_refused_vote_is_marked(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive, they said"], user=7)
    world.push()
    world.write_outcomes()
    number, other = world.tasks(VALIDATE)
    world.studio.annotate(number, world.judged(label="negative"), user=7)
    assert world.sync() == SyncResult(read=1, problems=1)
    assert world.write_outcomes() == 1
    assert world.data(number)["status"] == NOT_ACCEPTED
    assert world.data(number)["reason"]
    assert "status" not in world.data(other)
    assert world.write_outcomes() == 0


def test_a_label_studio_that_is_down_gets_the_outcomes_later(worlds: Worlds) -> None:
    world = worlds()
    (number,) = world.examples(["positive, they said"])
    world.studio.down = LabelStudioUnavailable("does not respond")
    with pytest.raises(LabelStudioUnavailable):
        world.write_outcomes()
    world.studio.down = None
    assert world.write_outcomes() == 1
    assert world.data(number)["status"] == "pending"


def test_a_change_that_label_studio_refuses_blocks_no_other(worlds: Worlds) -> None:
    world = worlds()
    first, second = world.examples(["positive one", "positive two"])
    world.studio.before["set_values"] = LabelStudioRefused("refuses what was sent", status=400)
    assert world.write_outcomes() == 2
    assert (world.data(first)["status"], world.data(second)["status"]) == ("", "pending")
    assert world.write_outcomes() == 0


def test_a_deleted_task_is_left_alone(worlds: Worlds) -> None:
    world = worlds()
    (number,) = world.examples(["positive, they said"])
    del world.studio.tasks[number]
    assert world.write_outcomes() == 1
    assert world.write_outcomes() == 0
    assert {one.outcome for one in world.rows(LabelStudioTask)} == {None, "pending"}
