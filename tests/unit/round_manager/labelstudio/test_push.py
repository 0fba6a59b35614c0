"""Pushing: each context and each wanted vote is one task, however often we fill_projects and wherever we are killed."""

from collections import Counter

import pytest

from round_manager.labelstudio.port import LabelStudioError, LabelStudioUnavailable
from round_manager.labelstudio.push import TASKS_AT_ONCE, PushResult
from round_manager.labelstudio.tasks import mark_sent
from round_manager.models import Example, LabelStudioTask, ProjectKind
from tests.fakes.creation_tasks import creation_tasks
from tests.fakes.label_studio import Killed
from tests.unit.round_manager.labelstudio.conftest import World, Worlds

VALIDATE = ProjectKind.VALIDATE


def keys(world: World, kind: ProjectKind = ProjectKind.CREATE) -> list[str | None]:
    return [world.studio.tasks[number].key for number in world.tasks(kind)]


@pytest.mark.parametrize("name", ["sentiment", "qa", "nli", "hate_speech"])
def test_each_context_becomes_one_task_as_the_pack_would_make_it(worlds: Worlds, name: str) -> None:
    world = worlds(name, pushed=False)
    world.connect()
    assert world.push() == PushResult(contexts=len(world.pack.contexts))
    data = [dict(world.studio.tasks[number].data) for number in world.tasks()]
    assert data == [task["data"] for task in creation_tasks(world.pack.spec, world.pack.contexts)]
    assert len(set(keys(world))) == len(world.pack.contexts)
    assert world.push() == PushResult()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupted_push_sends_nothing_twice(worlds: Worlds, moment: str) -> None:
    world = worlds(pushed=False)
    world.connect()
    getattr(world.studio, moment)["add_tasks"] = Killed()
    with pytest.raises(Killed):
        world.push()
    pushed = world.push()
    assert pushed.contexts + pushed.found == len(world.pack.contexts)
    assert len(keys(world)) == len(set(keys(world))) == len(world.pack.contexts)
    assert {row.external_id for row in world.rows(LabelStudioTask)} == set(world.tasks())


def test_a_lost_answer_sends_nothing_twice(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    world.connect()
    world.studio.after["add_tasks"] = LabelStudioUnavailable("takes too long")
    with pytest.raises(LabelStudioError):
        world.push()
    assert "takes too long" in (world.status().projects[0].last_error or "")
    world.push()
    assert len(keys(world)) == len(world.pack.contexts)


def test_two_pushes_at_once_leave_no_duplicates(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    world.connect()
    add = world.studio.add_tasks

    def slow(project: int, tasks: list[dict[str, object]]) -> list[int]:
        world.studio.add_tasks = add  # type: ignore[method-assign]
        world.push()
        return add(project, tasks)

    world.studio.add_tasks = slow  # type: ignore[method-assign,assignment]
    world.push()
    assert len(keys(world)) == len(set(keys(world))) == len(world.pack.contexts)


def test_many_are_sent_in_batches_with_progress(worlds: Worlds) -> None:
    from round_manager.labelstudio.push import fill_projects

    world = worlds(pushed=False)
    world.connect()
    seen: list[tuple[int, int]] = []
    fill_projects(world.store, world.studio, world.name, world.clock, lambda done, total: seen.append((done, total)))
    count = len(world.pack.contexts)
    assert seen == [*((done, count) for done in range(0, count, TASKS_AT_ONCE)), (count, count)]


def test_a_new_context_gets_the_least_requested_label(worlds: Worlds) -> None:
    world = worlds()
    asked = Counter(world.studio.tasks[number].data["target"] for number in world.tasks())
    assert max(asked.values()) - min(asked.values()) <= 1


def test_pending_examples_get_one_task_per_missing_vote(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one", "positive two", "positive three"])
    assert world.push() == PushResult(validations=6)
    assert world.push() == PushResult()
    found = keys(world, VALIDATE)
    ids = [str(one.public_id) for one in world.rows(Example)]
    assert found == [f"example:{one}:{number}" for one in ids for number in (1, 2)]


def test_a_validation_task_shows_neither_author_nor_target_nor_model(worlds: Worlds) -> None:
    world = worlds("nli")
    world.examples([])
    number = world.tasks()[0]
    world.studio.annotate(number, world.written("some hypothesis", why_right="my secret reason"))
    world.sync()
    (example,) = world.rows(Example)
    with world.store.write() as session:
        session.get_one(Example, example.id).status = type(example.status).PENDING
        session.get_one(Example, example.id).votes_wanted = 1
    world.push()
    (task,) = [world.studio.tasks[one] for one in world.tasks(VALIDATE)]
    assert set(task.data) == {"premise", "hypothesis"}


def test_more_votes_wanted_make_more_tasks(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one"])
    world.push()
    with world.store.write() as session:
        session.get_one(Example, world.rows(Example)[0].id).votes_wanted = 5
    assert world.push() == PushResult(validations=3)


def test_examples_of_a_closed_round_are_not_sent(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one"])
    world.close_round()
    assert world.push() == PushResult()


def test_the_next_round_gets_new_tasks_for_contexts_that_were_written_on(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one", "positive two"])
    count = len(world.pack.contexts)
    world.close_round()
    assert world.push() == PushResult()
    world.open_round()
    assert world.push() == PushResult(contexts=2)
    assert world.push() == PushResult()
    assert len(keys(world)) == len(set(keys(world))) == count + 2
    number = world.tasks()[-1]
    world.studio.annotate(number, world.written("in the second round"))
    assert world.sync().examples == 1
    assert world.push().contexts == 0


def test_recording_a_task_id_twice_changes_nothing(worlds: Worlds) -> None:
    world = worlds()
    row = world.rows(LabelStudioTask)[0]
    with world.store.write() as session:
        assert mark_sent(session, {row.id: row.external_id}) == []
        assert mark_sent(session, {row.id: 99_999}) == [99_999]
