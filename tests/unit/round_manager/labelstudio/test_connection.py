"""Connecting a task: made once, kept up to date, and what belongs to others left alone."""

from dataclasses import replace

import pytest

from common.errors import Hint
from round_manager.errors import TaskNotFound
from round_manager.labelstudio.port import BackendAuth, MlBackendUnreachable, ProjectNotFound, Webhook
from round_manager.labelstudio.projects import (
    WEBHOOK_HEADER,
    is_webhook_secret,
    lock_link,
    project_settings,
    webhook_secret,
)
from round_manager.models import Example, LabelStudioAnnotation, LabelStudioTask, ProjectKind
from templates import find_pack
from templates.payloads import TEMPLATES
from tests.fakes.label_studio import FakeLabelStudio, Killed
from tests.unit.round_manager.labelstudio.conftest import BACKEND, SECRETS, WEB, Worlds

VALIDATE = ProjectKind.VALIDATE


def test_connecting_makes_two_projects_with_webhooks_and_one_backend(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    made = world.connect()
    create, validate = made.projects["create"], made.projects["validate"]
    assert world.studio.projects[create]["title"] == "sentiment: write"
    (backend,) = world.studio.backend_of[create]
    assert (backend.url, backend.interactive) == (f"{BACKEND}/tasks/sentiment/rounds/1", True)
    assert validate not in world.studio.backend_of
    for project in (create, validate):
        (seen,) = world.studio.webhook_of[project]
        assert seen.webhook.url == f"{WEB}/webhooks/label-studio/sentiment"
        assert seen.webhook.headers == {WEBHOOK_HEADER: webhook_secret(SECRETS, "sentiment")}
        assert not seen.webhook.payload


def test_validators_get_a_description_of_their_own() -> None:
    pack = find_pack("sentiment")
    texts = [project_settings(pack, template)["description"] for template in TEMPLATES]
    assert texts[0] == pack.spec.description
    assert texts[1] not in ("", texts[0])
    validation = pack.spec.validation.model_copy(update={"description": "Judge each sentence."})
    own = replace(pack, spec=pack.spec.model_copy(update={"validation": validation}))
    assert project_settings(own, "validate")["description"] == "Judge each sentence."


@pytest.mark.parametrize("auth", [None, BackendAuth("user", "word")])
def test_connecting_again_changes_nothing(worlds: Worlds, auth: BackendAuth | None) -> None:
    world = worlds(pushed=False)
    world.connect(auth=auth)
    world.studio.changes.clear()
    assert world.connect(auth=auth).changes == ()
    assert world.connect(ml_backend=None, web_url=None).changes == ()
    assert world.studio.changes == []


@pytest.mark.parametrize("call", ["create_project", "add_backend", "add_webhook"])
def test_an_interrupted_connect_creates_nothing_twice(worlds: Worlds, call: str) -> None:
    world = worlds(pushed=False)
    world.studio.after[call] = Killed()
    with pytest.raises(Killed):
        world.connect()
    made = world.connect()
    assert sorted(world.studio.projects) == sorted(made.projects.values())
    assert [len(one) for one in world.studio.backend_of.values()] == [1]
    assert [len(one) for one in world.studio.webhook_of.values()] == [1, 1]


def test_owners_changes_stay_except_essential_settings(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    project = world.connect().projects["create"]
    theirs = {"title": "Ours, renamed", "expert_instruction": "read this", "show_collab_predictions": True}
    world.studio.projects[project] |= theirs
    assert world.connect().projects["create"] == project
    now = world.studio.projects[project]
    assert (now["title"], now["expert_instruction"]) == ("Ours, renamed", "read this")
    assert now["show_collab_predictions"] is False


def test_a_changed_pack_changes_the_project_but_not_its_title(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    project = world.connect().projects["create"]
    world.studio.projects[project] |= {"title": "Renamed", "description": "old"}
    with world.store.write() as session:
        lock_link(session, world.link()).settings_sha256 = "0" * 64
    world.connect()
    assert world.studio.projects[project]["description"] == find_pack("sentiment").spec.description
    assert world.studio.projects[project]["title"] == "Renamed"


def test_other_peoples_webhooks_and_backends_are_left_alone(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    project = world.connect(ml_backend=None).projects["create"]
    other = world.studio.add_webhook(project, Webhook("http://theirs.test/", {}, frozenset({"TASKS_CREATED"})))
    backend = world.studio.add_backend(project, "http://theirs.test/", None)
    world.connect()
    assert other in world.studio.webhook_of[project]
    assert backend in world.studio.backend_of[project]
    assert len(world.studio.backend_of[project]) == 2


def test_another_project_of_the_same_name_is_not_used(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    theirs = world.studio.create_project({"title": "sentiment: write", "label_config": "<View/>"})
    assert world.connect().projects["create"] != theirs.id
    assert world.studio.projects[theirs.id]["label_config"] == "<View/>"


def test_the_backend_moves_when_the_round_does_and_keeps_its_password(worlds: Worlds) -> None:
    world = worlds(is_open=False, pushed=False)
    project = world.connect(auth=BackendAuth("user", "word")).projects["create"]
    assert world.studio.backend_of[project][0].url == f"{BACKEND}/tasks/sentiment"
    world.open_round()
    assert world.status().projects[0].hint == Hint("connect_label_studio", task="sentiment")
    world.connect(ml_backend=None)
    (backend,) = world.studio.backend_of[project]
    assert backend.url == f"{BACKEND}/tasks/sentiment/rounds/1"
    assert world.studio.passwords[backend.id] == "word"
    assert "Connected at" in world.status().projects[0].backend


def test_projects_are_created_even_if_the_backend_does_not_respond(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    world.studio.backend_answers = False
    with pytest.raises(MlBackendUnreachable) as caught:
        world.connect()
    assert caught.value.retry
    assert len(world.studio.projects) == 2
    world.studio.backend_answers = True
    assert len(world.connect().changes) == 1


def test_a_deleted_project_is_reported_and_created_again_and_its_examples_stay(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one"])
    world.push()
    old = world.link().project
    del world.studio.projects[old]
    with pytest.raises(ProjectNotFound, match=f"project {old} of sentiment"):
        world.sync()
    assert world.status().projects[0].title == "deleted"
    made = world.connect()
    assert any(f"project {old} was deleted" in change for change in made.changes)
    assert made.projects["create"] != old
    assert world.push().contexts == len(world.pack.contexts)
    assert len(world.rows(Example)) == 1
    number = world.tasks()[0]
    world.studio.annotate(number, world.written("in the new one"))
    assert world.sync().examples == 1


def test_a_new_label_studio_with_the_same_ids_is_recognised(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one"])
    world.studio = FakeLabelStudio()
    # Another project has the id that ours had, and its tasks the ids of ours.
    theirs = world.studio.create_project({"title": "theirs", "label_config": "<View/>"}).id
    world.studio.add_tasks(theirs, [{"data": {}} for _ in world.pack.contexts])
    assert theirs == world.link().project
    assert theirs not in world.connect().projects.values()
    assert world.push().contexts == len(world.pack.contexts)
    number = world.tasks()[0]
    world.studio.annotate(number, world.written("a new beginning"))
    assert world.sync().examples == 1
    assert len(world.rows(LabelStudioAnnotation)) == 2


def test_the_same_label_studio_at_another_address_keeps_everything(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds()
    rows = len(world.rows(LabelStudioTask))
    monkeypatch.setattr(world.studio, "url", "http://moved.test")
    made = world.connect()
    assert made.projects["create"] == world.link().project
    assert world.link().url == "http://moved.test"
    assert world.push().contexts == 0
    assert len(world.rows(LabelStudioTask)) == rows


def test_an_unknown_task_is_refused(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    world.pack = find_pack("nli")
    with pytest.raises(TaskNotFound):
        world.connect()


def test_secrets_differ_by_task_and_older_ones_are_still_known() -> None:
    old, new = "o" * 32, "n" * 32
    given = webhook_secret([old], "nli")
    assert given != webhook_secret([old], "qa")
    assert is_webhook_secret([old, new], "nli", given)
    assert not is_webhook_secret([new], "nli", given)
    assert not is_webhook_secret([old, new], "qa", given)
    assert not is_webhook_secret([old], "nli", "\ud800")


def test_repr_shows_no_passwords_and_secrets(worlds: Worlds) -> None:
    world = worlds(pushed=False)
    world.connect(auth=BackendAuth("user", "a-password"))
    shown = repr((BackendAuth("user", "a-password"), world.studio.webhook_of, world.studio.backend_of))
    assert "a-password" not in shown
    assert webhook_secret(SECRETS, "sentiment") not in shown
