"""The connection in Label Studio follows the rounds: moved when the round changes, and by nobody else's leave."""

from dataclasses import replace

import pytest

from plugin.labelstudio.errors import LabelStudioError
from plugin.labelstudio.following import find_course, follow
from plugin.labelstudio.studio import BackendAuth, BackendSeen
from tests.fakes.label_studio import Killed
from tests.unit.labelstudio.conftest import BACKEND, World, Worlds

AWAY = LabelStudioError("Label Studio does not answer", retry=True)
TASK = f"{BACKEND}/tasks/sentiment"


def move(world: World) -> str | None:
    course = find_course(world.store, world.name)
    assert course is not None
    return follow(world.store, world.studio, world.name, course, world.clock)


def connection(world: World) -> BackendSeen:
    """Ours, as it stands in Label Studio."""
    return next(one for one in world.studio.backend_of[world.link().project] if one.id == world.link().ml_backend)


def enter(world: World, **changes: object) -> None:
    """The owner changes our connection by hand."""
    changed = replace(connection(world), **changes)  # type: ignore[arg-type]
    project = world.link().project
    world.studio.backend_of[project] = [
        changed if one.id == changed.id else one for one in world.studio.backend_of[project]
    ]


def test_each_round_is_asked_at_its_own_address_and_the_task_while_none_is_live(worlds: Worlds) -> None:
    world = worlds(is_open=False, pushed=False)
    world.connect(auth=BackendAuth("user", "word"))
    seen = [connection(world).url]
    for change in (world.open_round, world.close_round, world.open_round):
        change()
        assert "is another one" in world.status().projects[0].backend
        assert move(world) == connection(world).url
        assert "is another one" not in world.status().projects[0].backend
        seen.append(connection(world).url)
    assert seen == [TASK, f"{TASK}/rounds/1", TASK, f"{TASK}/rounds/2"]
    assert (connection(world).user, world.studio.passwords[connection(world).id]) == ("user", "word")


def test_where_it_is_right_nothing_is_changed(worlds: Worlds) -> None:
    world = worlds()
    world.studio.calls.clear()
    world.studio.changes.clear()
    assert move(world) is None
    enter(world, url=f"{connection(world).url}/")
    assert move(world) is None
    assert (world.studio.calls, world.studio.changes) == (["backends", "backends"], [])


def test_without_a_backend_of_ours_there_is_nothing_to_follow_with(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    assert find_course(world.store, world.name) is None
    project = world.connect(ml_backend=None).projects["create"]
    theirs = world.studio.add_backend(project, f"{TASK}/rounds/7", None)
    assert find_course(world.store, world.name) is None
    assert world.studio.backend_of[project] == [theirs]


def test_what_the_owner_made_of_it_stays(worlds: Worlds) -> None:
    world = worlds()
    project = world.link().project
    theirs = world.studio.add_backend(project, f"{TASK}/rounds/1", None)
    world.close_round()
    world.open_round()
    enter(world, url="http://theirs.test/model")
    assert move(world) is None
    # Another host of the same backend, and no verdicts while people write: only the round is ours to change.
    enter(world, url="http://elsewhere.test/outfox/tasks/sentiment/rounds/1", interactive=False)
    assert move(world) == "http://elsewhere.test/outfox/tasks/sentiment/rounds/2"
    assert connection(world).interactive is False
    assert theirs in world.studio.backend_of[project]
    world.studio.backend_of[project] = [theirs]
    assert move(world) is None
    assert world.studio.backend_of[project] == [theirs]


def test_a_connection_of_another_task_is_not_taken_for_ours(worlds: Worlds) -> None:
    world = worlds()
    world.close_round()
    for url in (f"{BACKEND}/tasks/nli/rounds/1", f"{TASK}_more/rounds/1", f"{TASK}/rounds/1/more"):
        enter(world, url=url)
        assert move(world) is None
        assert connection(world).url == url


@pytest.mark.parametrize("call", ["backends", "change_backend"])
def test_a_label_studio_that_is_away_is_told_and_caught_up_with(worlds: Worlds, call: str) -> None:
    world = worlds()
    world.close_round()
    world.open_round()
    world.studio.before[call] = AWAY
    with pytest.raises(LabelStudioError, match="does not answer"):
        move(world)
    assert "does not answer" in (world.link().last_error or "")
    assert move(world) == f"{TASK}/rounds/2"
    assert world.link().last_error is None


def test_a_backend_that_label_studio_cannot_use_is_told_with_the_address_that_is_still_asked(worlds: Worlds) -> None:
    world = worlds()
    world.close_round()
    world.open_round()
    world.studio.backend_answers = False
    with pytest.raises(LabelStudioError, match=f"still asks the ML backend at {TASK}/rounds/1") as caught:
        move(world)
    assert (caught.value.retry, "outfox labelstudio connect sentiment" in str(caught.value)) == (True, True)
    world.studio.backend_answers = True
    assert move(world) == f"{TASK}/rounds/2"


def test_a_refusal_that_trying_again_does_not_mend_says_so(worlds: Worlds) -> None:
    world = worlds()
    world.close_round()
    world.studio.before["change_backend"] = LabelStudioError("does not accept the token", status=401)
    with pytest.raises(LabelStudioError, match="token") as caught:
        move(world)
    assert not caught.value.retry
    world.studio.before["backends"] = LabelStudioError("answers 404", status=404)
    with pytest.raises(LabelStudioError, match="`outfox labelstudio connect sentiment` makes another"):
        move(world)


def test_killed_after_the_move_or_before_it_the_next_one_finds_the_right_address(worlds: Worlds) -> None:
    world = worlds()
    world.close_round()
    world.open_round()
    for where, moved in ((world.studio.before, f"{TASK}/rounds/2"), (world.studio.after, None)):
        enter(world, url=f"{TASK}/rounds/1")
        where["change_backend"] = Killed()
        with pytest.raises(Killed):
            move(world)
        assert move(world) == moved
        assert connection(world).url == f"{TASK}/rounds/2"


def test_connecting_goes_by_the_round_that_is_live_when_it_comes_to_the_backend(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds()
    hooks = world.studio.hooks

    def open_meanwhile(project: int) -> object:
        if project != world.link().project:
            world.close_round()
            world.open_round()
            assert move(world) == f"{TASK}/rounds/2"
        return hooks(project)

    monkeypatch.setattr(world.studio, "hooks", open_meanwhile)
    world.connect()
    assert connection(world).url == f"{TASK}/rounds/2"
