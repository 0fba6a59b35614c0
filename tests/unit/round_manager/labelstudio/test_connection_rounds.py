"""The ML backend connection in Label Studio follows the live round."""

from dataclasses import replace

import pytest

from common.errors import Hint
from round_manager.labelstudio.connection import find_route, move_backend
from round_manager.labelstudio.port import (
    BackendAuth,
    BackendConnection,
    LabelStudioUnavailable,
    MlBackendUnreachable,
    ProjectNotFound,
    TokenRejected,
)
from tests.fakes.label_studio import Killed
from tests.unit.round_manager.labelstudio.conftest import BACKEND, World, Worlds

AWAY = LabelStudioUnavailable("Label Studio does not answer")
TASK = f"{BACKEND}/tasks/sentiment"
CONNECT = Hint("connect_label_studio", task="sentiment")


def move(world: World) -> str | None:
    route = find_route(world.store, world.name)
    assert route is not None
    return move_backend(world.store, world.studio, world.name, route, world.clock)


def connection(world: World) -> BackendConnection:
    """Ours, as it stands in Label Studio."""
    return next(one for one in world.studio.backend_of[world.link().project] if one.id == world.link().ml_backend)


def enter(world: World, **changes: object) -> None:
    """The owner changes our connection by hand."""
    changed = replace(connection(world), **changes)  # type: ignore[arg-type]
    project = world.link().project
    world.studio.backend_of[project] = [
        changed if one.id == changed.id else one for one in world.studio.backend_of[project]
    ]


def test_the_address_follows_the_live_round(worlds: Worlds) -> None:
    world = worlds(is_open=False, pushed=False)
    world.connect(auth=BackendAuth("user", "word"))
    seen = [connection(world).url]
    for change in (world.open_round, world.close_round, world.open_round):
        change()
        assert world.status().projects[0].hint == CONNECT
        assert move(world) == connection(world).url
        assert world.status().projects[0].hint is None
        seen.append(connection(world).url)
    assert seen == [TASK, f"{TASK}/rounds/1", TASK, f"{TASK}/rounds/2"]
    assert (connection(world).user, world.studio.passwords[connection(world).id]) == ("user", "word")


def test_a_correct_address_is_not_changed(worlds: Worlds) -> None:
    world = worlds()
    world.studio.calls.clear()
    world.studio.changes.clear()
    assert move(world) is None
    enter(world, url=f"{connection(world).url}/")
    assert move(world) is None
    assert (world.studio.calls, world.studio.changes) == (["backends", "backends"], [])


def test_without_our_backend_there_is_no_route(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    assert find_route(world.store, world.name) is None
    project = world.connect(ml_backend=None).projects["create"]
    theirs = world.studio.add_backend(project, f"{TASK}/rounds/7", None)
    assert find_route(world.store, world.name) is None
    assert world.studio.backend_of[project] == [theirs]


def test_owners_changes_of_the_connection_stay(worlds: Worlds) -> None:
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


def test_the_connection_of_another_task_is_left_alone(worlds: Worlds) -> None:
    world = worlds()
    world.close_round()
    for url in (f"{BACKEND}/tasks/nli/rounds/1", f"{TASK}_more/rounds/1", f"{TASK}/rounds/1/more"):
        enter(world, url=url)
        assert move(world) is None
        assert connection(world).url == url


@pytest.mark.parametrize("call", ["backends", "update_backend"])
def test_the_move_is_retried_after_an_outage(worlds: Worlds, call: str) -> None:
    world = worlds()
    world.close_round()
    world.open_round()
    world.studio.before[call] = AWAY
    with pytest.raises(LabelStudioUnavailable):
        move(world)
    assert str(AWAY) in (world.link().last_error or "")
    assert move(world) == f"{TASK}/rounds/2"
    assert world.link().last_error is None


def test_an_unreachable_backend_is_reported_with_the_current_address(worlds: Worlds) -> None:
    world = worlds()
    world.close_round()
    world.open_round()
    world.studio.backend_answers = False
    with pytest.raises(MlBackendUnreachable, match=f"{TASK}/rounds/1") as caught:
        move(world)
    assert (caught.value.retry, caught.value.hint) == (True, CONNECT)
    world.studio.backend_answers = True
    assert move(world) == f"{TASK}/rounds/2"


def test_permanent_errors_are_not_marked_for_retry(worlds: Worlds) -> None:
    world = worlds()
    world.close_round()
    world.studio.before["update_backend"] = TokenRejected("does not accept the token", status=401)
    with pytest.raises(TokenRejected) as caught:
        move(world)
    assert not caught.value.retry
    world.studio.before["backends"] = ProjectNotFound("answers 404", status=404)
    with pytest.raises(ProjectNotFound) as gone:
        move(world)
    assert gone.value.hint == CONNECT


def test_an_interrupted_move_is_completed(worlds: Worlds) -> None:
    world = worlds()
    world.close_round()
    world.open_round()
    for where, moved in ((world.studio.before, f"{TASK}/rounds/2"), (world.studio.after, None)):
        enter(world, url=f"{TASK}/rounds/1")
        where["update_backend"] = Killed()
        with pytest.raises(Killed):
            move(world)
        assert move(world) == moved
        assert connection(world).url == f"{TASK}/rounds/2"


def test_connect_uses_the_round_that_is_live_when_it_sets_the_backend(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds()
    webhooks = world.studio.webhooks

    def open_meanwhile(project: int) -> object:
        if project != world.link().project:
            world.close_round()
            world.open_round()
            assert move(world) == f"{TASK}/rounds/2"
        return webhooks(project)

    monkeypatch.setattr(world.studio, "webhooks", open_meanwhile)
    world.connect()
    assert connection(world).url == f"{TASK}/rounds/2"
