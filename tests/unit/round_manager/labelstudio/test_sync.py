"""Reading annotations back: each once, nothing lost, whatever happens in between."""

from datetime import timedelta

import pytest

from round_manager.labelstudio import sync
from round_manager.labelstudio.intake import CHANGED
from round_manager.labelstudio.port import LabelStudioUnavailable, NotConnected
from round_manager.labelstudio.sync import OVERLAP, SyncResult, read_projects
from round_manager.models import Example, LabelStudioAnnotation, ProjectKind, Round, Worker
from templates.payloads import Span
from tests.fakes.clock import NOON
from tests.fakes.label_studio import URL, Killed
from tests.unit.round_manager.labelstudio.conftest import World, Worlds

VALIDATE = ProjectKind.VALIDATE


def test_a_submission_becomes_an_example_with_our_own_verdict(worlds: Worlds) -> None:
    world = worlds()
    number = next(one for one in world.tasks() if world.studio.tasks[one].data["target"] == "negative")
    world.studio.annotate(number, world.written("positive at last", feedback="Not fooled, honestly"), user=3)
    assert world.sync() == SyncResult(read=1, examples=1)
    (example,), (author,) = world.rows(Example), world.rows(Worker)
    assert example.fields["text"] == "positive at last"
    assert example.fields["prompt"] == world.studio.tasks[number].data["prompt"]
    assert (example.label, example.fooled, example.active_ms) == ("negative", True, 12_500)
    assert (author.marketplace, author.external_id) == ("label_studio", f"{URL}/users/3")
    assert "feedback" not in example.fields
    (kept,) = world.rows(LabelStudioAnnotation)
    assert kept.example_id == example.id


def test_a_second_sync_finds_nothing_new(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one", "positive two"])
    assert world.sync() == SyncResult()
    assert len(world.rows(Example)) == 2


@pytest.mark.parametrize("edited", [{"prompt": "something else"}, {"target": "neither"}])
def test_a_submission_on_an_edited_task_is_a_problem(worlds: Worlds, edited: dict[str, str]) -> None:
    world = worlds()
    number = world.tasks()[0]
    world.studio.tasks[number].data.update(edited)  # type: ignore[attr-defined]
    world.studio.annotate(number, world.written("a text"))
    assert world.sync() == SyncResult(read=1, problems=1)
    assert f"`{next(iter(edited))}` was changed in Label Studio" in world.status().projects[0].problems[0].text
    assert world.rows(Example) == []


def test_an_answer_is_stored_with_offsets_in_our_passage(worlds: Worlds) -> None:
    world = worlds("qa")
    number = world.tasks()[0]
    passage = world.studio.tasks[number].data["passage"]
    start = passage.index("islands")
    world.studio.annotate(number, world.written("What is it built on?", answer=Span(start, "islands")))
    world.sync()
    (example,) = world.rows(Example)
    assert example.answer == {"text": "islands", "start": start, "end": start + len("islands")}
    assert passage[start:].startswith("islands")


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ([], "`text` is empty"),
        ([{"from_name": "text", "value": {"text": ["  "]}}], "`text` is empty"),
        ([{"from_name": "text", "value": {"text": ["a", "b"]}}], "2 texts"),
        ([{"from_name": "text", "value": {"text": ["x" * 401]}}], "400"),
        ([{"from_name": "text", "value": {"text": ["a\x00b"]}}], "invalid character"),
        ([{"from_name": "text", "value": {"text": ["half \ud83d"]}}], "invalid character"),
        ([{"from_name": "text", "value": {"text": [{"a": 1}]}}], "not a text"),
        ([{"from_name": "text", "value": 7}, "rubbish", None], "`text` is empty"),
    ],
)
def test_an_unreadable_annotation_is_reported_and_blocks_no_other(
    worlds: Worlds, results: list[object], says: str
) -> None:
    world = worlds()
    first, second = world.tasks()[:2]
    bad = world.studio.annotate(first, results)  # type: ignore[arg-type]
    world.studio.annotate(second, world.written("a good one"))
    assert world.sync() == SyncResult(read=2, examples=1, problems=1)
    (problem,) = world.status().projects[0].problems
    assert problem.annotation == bad
    assert says in problem.text
    assert world.sync() == SyncResult()


def test_an_unreadable_annotation_is_read_again_after_an_edit(worlds: Worlds) -> None:
    world = worlds()
    number = world.tasks()[0]
    annotation = world.studio.annotate(number, [])
    world.sync()
    world.studio.edit(number, annotation, world.written("now there is a text"))
    assert world.sync() == SyncResult(read=1, examples=1)
    (kept,) = world.rows(LabelStudioAnnotation)
    assert (kept.problem, kept.example_id) == (None, world.rows(Example)[0].id)


def test_an_edit_after_the_read_is_reported_and_changes_nothing(worlds: Worlds) -> None:
    world = worlds()
    number = world.tasks()[0]
    annotation = world.studio.annotate(number, world.written("as it was"))
    world.sync()
    world.studio.edit(number, annotation, world.written("as it is now"))
    assert world.sync() == SyncResult(read=1, problems=1)
    assert world.rows(Example)[0].fields["text"] == "as it was"
    assert world.rows(LabelStudioAnnotation)[0].problem == CHANGED
    assert world.sync() == SyncResult()


def test_a_changed_verdict_is_not_an_edit(worlds: Worlds) -> None:
    world = worlds()
    number = world.tasks()[0]
    annotation = world.studio.annotate(number, world.written("a text", feedback="one verdict"))
    world.sync()
    world.studio.edit(number, annotation, world.written("a text", feedback="another verdict"))
    assert world.sync() == SyncResult()


def test_skipped_tasks_are_ignored(worlds: Worlds) -> None:
    world = worlds()
    world.studio.annotate(world.tasks()[0], world.written("never mind"), was_cancelled=True)
    assert world.sync() == SyncResult()


def test_submissions_wait_until_a_round_is_open(worlds: Worlds) -> None:
    world = worlds(is_open=False)
    numbers = world.tasks()[:3]
    for place, number in enumerate(numbers):
        world.studio.annotate(number, world.written(f"text {place}"))
    assert world.sync() == SyncResult(left=3)
    assert world.status().without_round == (world.name,)
    assert world.status().projects[0].unread == 3
    world.open_round()
    assert world.sync() == SyncResult(read=3, examples=3)


def test_a_round_that_ends_during_a_sync_leaves_the_rest_unread(worlds: Worlds) -> None:
    world = worlds()
    first, second = world.tasks()[:2]
    world.studio.annotate(first, world.written("one"))
    world.studio.annotate(second, world.written("two"))
    world.judge.before = lambda: world.close_round() if len(world.judge.asked) == 1 else None
    assert world.sync().examples == 1
    world.judge.before = lambda: None
    world.open_round()
    assert world.sync() == SyncResult(read=1, examples=1)
    assert [one.round_id for one in world.rows(Example)] == [one.id for one in world.rows(Round)]


def test_other_tasks_in_the_project_are_ignored(worlds: Worlds) -> None:
    world = worlds()
    project = world.link().project
    (strange,) = world.studio.add_tasks(project, [{"data": {"prompt": "theirs"}}])
    world.studio.annotate(strange, world.written("not ours"))
    assert world.sync() == SyncResult()
    assert world.rows(LabelStudioAnnotation) == []


def test_a_submission_on_an_unrecorded_task_is_not_lost(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    world.connect()
    world.studio.after["add_tasks"] = Killed()
    with pytest.raises(Killed):
        world.push()
    world.studio.annotate(world.tasks()[0], world.written("quick work"))
    assert world.sync() == SyncResult(read=1, examples=1)


def test_everything_is_read_when_many_tasks_changed_at_one_moment(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "TASKS_AT_ONCE", 10)
    world = worlds(pushed=False)
    world.connect()
    count = 10 * 2 + 3
    project = world.link().project
    world.push()
    first = world.studio.tasks[world.tasks()[0]]
    made_again = {"data": dict(first.data), "meta": {"outfox": first.key}}
    copies = world.studio.add_tasks(project, [made_again for _ in range(count)])
    moment = world.studio.tick()
    for place, number in enumerate(copies):
        world.studio.annotate(number, world.written(f"text {place}"), at=moment)
    assert world.sync() == SyncResult(read=count, examples=count)


def test_a_sync_with_nothing_new_costs_the_same_however_much_is_there(worlds: Worlds) -> None:
    world = worlds()
    world.examples([f"positive {place}" for place in range(20)])
    later = world.studio.now + 2 * OVERLAP
    world.studio.annotate(world.tasks()[-1], world.written("the last"), at=later)
    world.sync()
    world.studio.calls.clear()
    world.sync()
    assert world.studio.calls == ["changed_tasks", "changed_tasks"]


def test_a_change_that_becomes_visible_late_is_found(worlds: Worlds) -> None:
    world = worlds()
    first, second = world.tasks()[:2]
    at = world.studio.now
    world.studio.annotate(first, world.written("the later one"), at=at + timedelta(seconds=30))
    assert world.sync().examples == 1
    world.studio.annotate(second, world.written("begun before it"), at=at)
    assert world.sync() == SyncResult(read=1, examples=1)


def test_a_corrected_clock_of_label_studio_loses_nothing(worlds: Worlds) -> None:
    world = worlds()
    first, second = world.tasks()[:2]
    right = world.studio.now
    world.studio.annotate(first, world.written("an hour early"), at=right + timedelta(hours=1))
    assert world.sync().examples == 1
    world.studio.annotate(second, world.written("in time"), at=right + timedelta(minutes=1))
    assert world.sync() == SyncResult(read=1, examples=1)


def test_a_sync_from_the_start_duplicates_nothing(worlds: Worlds) -> None:
    world = worlds()
    first, second = world.tasks()[:2]
    world.studio.annotate(first, world.written("now"), at=world.studio.now)
    world.sync()
    world.studio.annotate(second, world.written("with a clock gone wrong"), at=NOON - timedelta(days=9))
    assert world.sync() == SyncResult()
    found = read_projects(world.store, world.studio, world.name, world.judge, world.clock, from_start=True)
    assert found == SyncResult(read=1, examples=1)
    assert world.sync() == SyncResult()


def test_an_interrupted_sync_duplicates_and_loses_nothing(worlds: Worlds) -> None:
    world = worlds()
    numbers = world.tasks()[:5]
    for place, number in enumerate(numbers):
        world.studio.annotate(number, world.written(f"text {place}"))

    def die() -> None:
        raise Killed

    world.judge.before = die
    for _ in numbers:
        with pytest.raises(Killed):
            world.sync()
        world.judge.before = lambda: None
        asked = len(world.judge.asked)
        world.judge.before = lambda asked=asked: die() if len(world.judge.asked) > asked else None  # type: ignore[misc]
    world.judge.before = lambda: None
    world.sync()
    assert sorted(one.fields["text"] for one in world.rows(Example)) == [f"text {place}" for place in range(5)]
    assert world.sync() == SyncResult()


def test_an_outage_is_recorded_with_its_start_and_then_caught_up(worlds: Worlds) -> None:
    world = worlds()
    world.studio.annotate(world.tasks()[0], world.written("meanwhile"))
    world.studio.down = LabelStudioUnavailable("Label Studio does not answer")
    for _ in range(2):
        with pytest.raises(LabelStudioUnavailable):
            world.sync()
        world.clock.advance(timedelta(hours=1))
    found = world.status()
    assert (found.user, found.retry) == (None, True)
    assert found.projects[0].last_error == f"{NOON.isoformat(timespec='seconds')} Label Studio does not answer"
    world.studio.down = None
    assert world.sync() == SyncResult(read=1, examples=1)
    assert world.status().projects[0].last_error is None


def test_a_model_that_cannot_be_loaded_leaves_the_work_for_later(worlds: Worlds) -> None:
    world = worlds()
    world.studio.annotate(world.tasks()[0], world.written("a text"))

    def broken() -> None:
        raise RuntimeError("private text")

    world.judge.before = broken
    with pytest.raises(RuntimeError):
        world.sync()
    assert "private" not in (world.status().projects[0].last_error or "")
    world.judge.before = lambda: None
    assert world.sync().examples == 1


def test_an_unconnected_task_is_refused(worlds: Worlds) -> None:
    with pytest.raises(NotConnected, match="no projects"):
        worlds(pushed=False).sync()


def test_a_task_connected_elsewhere_is_not_read_from_here(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    world: World = worlds()
    monkeypatch.setattr(world.studio, "url", "http://other.test")
    with pytest.raises(NotConnected, match="not to http://other"):
        world.sync()
