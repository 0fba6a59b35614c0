"""The contract of the LabelStudio port, for the SDK adapter with a real server and for the fake."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import requests

from plugin.labelstudio.adapter import SdkLabelStudio
from round_manager.labelstudio.port import (
    TASK_KEY,
    WORKER_FIELD,
    BackendAuth,
    LabelStudio,
    LabelStudioRefused,
    ProjectNotFound,
    Webhook,
)
from round_manager.labelstudio.projects import project_settings
from templates import find_pack
from templates.label_config import read_elements
from templates.payloads import results
from tests.e2e.plugin.labelstudio.backend import counting_backend
from tests.fakes.label_studio import FakeLabelStudio
from tests.fakes.label_studio_adapter import tidy_studio

__all__ = ["tidy_studio"]

PACK = find_pack("sentiment")
TICK = timedelta(microseconds=1)


class StudioUnderTest:
    """A LabelStudio, and a way to submit annotations in it."""

    def __init__(self, studio: LabelStudio, token: str = "") -> None:
        self.studio = studio
        self._token = token

    def project(self, template: Any = "create") -> int:
        return self.studio.create_project(project_settings(PACK, template)).id

    def tasks(self, project: int, count: int) -> list[int]:
        data = {"prompt": "p", "target": "positive", "target_title": "Positive", "sentence": ""}
        made = [{"data": data, "meta": {TASK_KEY: f"key:{number}"}} for number in range(count)]
        return self.studio.add_tasks(project, made)

    def annotate(self, task: int, text: str = "a text", **more: Any) -> None:
        result = results(read_elements(PACK.create_xml, "create.xml"), {"text": text})
        if isinstance(self.studio, FakeLabelStudio):
            self.studio.annotate(task, result, **more)
            return
        headers = {"Authorization": f"Token {self._token}"}
        url = f"{self.studio.url}/api/tasks/{task}/annotations/"
        requests.post(url, headers=headers, json={"result": result, **more}, timeout=30).raise_for_status()

    def delete_project(self, project: int) -> None:
        if isinstance(self.studio, FakeLabelStudio):
            del self.studio.projects[project]
            return
        headers = {"Authorization": f"Token {self._token}"}
        requests.delete(f"{self.studio.url}/api/projects/{project}/", headers=headers, timeout=60).raise_for_status()


@pytest.fixture(params=["in memory", "real"])
def tested(request: pytest.FixtureRequest) -> Iterator[StudioUnderTest]:
    if request.param == "in memory":
        yield StudioUnderTest(FakeLabelStudio())
        return
    server = request.getfixturevalue("tidy_studio").server
    yield StudioUnderTest(SdkLabelStudio(server.url, server.token), server.token)


def test_whoami_returns_the_tokens_user(tested: StudioUnderTest) -> None:
    assert tested.studio.whoami() == "owner@example.com"


def test_a_project_is_found_by_number_and_by_title_and_changed_in_part(tested: StudioUnderTest) -> None:
    number = tested.project()
    seen = tested.studio.project(number)
    assert seen is not None
    assert seen.label_config == PACK.create_xml.strip()
    assert number in [one.id for one in tested.studio.find_projects("sentiment: write")]
    assert tested.studio.find_projects("sentiment") == []
    tested.studio.update_project(number, {"description": "another"})
    changed = tested.studio.project(number)
    assert changed is not None
    assert (changed.settings["description"], changed.title) == ("another", "sentiment: write")


def test_a_missing_project_is_none_or_not_found(tested: StudioUnderTest) -> None:
    number = tested.project()
    tested.delete_project(number)
    assert tested.studio.project(number) is None
    for call in (
        lambda: tested.studio.changed_tasks(number, None),
        lambda: tested.studio.tasks_after(number),
        lambda: tested.tasks(number, 1),
    ):
        with pytest.raises(ProjectNotFound):
            call()


def test_tasks_get_ids_in_order_and_keep_their_keys(tested: StudioUnderTest) -> None:
    project = tested.project()
    numbers = tested.tasks(project, 5)
    assert numbers == sorted(numbers)
    page = tested.studio.tasks_after(project, after=numbers[1], size=2)
    assert [(one.id, one.key) for one in page.tasks] == [(numbers[2], "key:2"), (numbers[3], "key:3")]
    assert page.total == 3


def test_annotated_tasks_are_not_deleted(tested: StudioUnderTest) -> None:
    project, other = tested.project(), tested.project()
    annotated, skipped, untouched, gone, kept = tested.tasks(project, 5)
    (elsewhere,) = tested.tasks(other, 1)
    tested.annotate(annotated)
    tested.annotate(skipped, was_cancelled=True)
    assert tested.studio.delete_unannotated(project, [gone]) == set()
    numbers = [annotated, skipped, untouched, gone, elsewhere]
    assert tested.studio.delete_unannotated(project, numbers) == {annotated}
    assert [one.id for one in tested.studio.tasks_after(project).tasks] == [annotated, kept]
    assert [one.id for one in tested.studio.tasks_after(other).tasks] == [elsewhere]
    assert tested.studio.delete_unannotated(project, []) == set()
    assert tested.studio.delete_unannotated(project, [kept]) == set()
    assert [one.id for one in tested.studio.changed_tasks(project, None).tasks] == [annotated]


def test_values_of_a_task_are_set_and_no_others(tested: StudioUnderTest) -> None:
    project = tested.project()
    first, second = tested.tasks(project, 2)
    assert tested.studio.set_values(project, first, {"status": "pending", "target": "positive"})
    data = {task.id: task.data for task in tested.studio.tasks_after(project).tasks}
    assert (data[first]["status"], data[first]["prompt"]) == ("pending", "p")
    assert "status" not in data[second]
    assert not tested.studio.set_values(project, second + 1000, {"status": "pending"})


def test_a_task_that_is_skipped_for_a_user_is_open_for_others_and_can_be_deleted(tested: StudioUnderTest) -> None:
    project = tested.project()
    skipped, annotated = tested.tasks(project, 2)
    tested.annotate(annotated)
    for task in (skipped, skipped, annotated):
        assert tested.studio.skip_for(project, task, 1)
    found = {
        task.id: [one["was_cancelled"] for one in task.annotations] for task in tested.studio.tasks_after(project).tasks
    }
    assert found[skipped] == [True]
    assert tested.studio.changed_tasks(project, None).total == 1
    assert not tested.studio.skip_for(project, annotated + 1000, 1)
    assert tested.studio.delete_unannotated(project, [skipped, annotated]) == {annotated}


def test_changed_tasks_are_annotated_and_ordered_by_change(tested: StudioUnderTest) -> None:
    project = tested.project()
    first, second, third, skipped, _untouched = tested.tasks(project, 5)
    for task in (second, third, first):
        tested.annotate(task)
    tested.annotate(skipped, was_cancelled=True)
    everything = tested.studio.changed_tasks(project, None)
    assert [one.id for one in everything.tasks] == [second, third, first]
    assert everything.total == 3
    at = everything.tasks[1].changed_at
    assert [one.id for one in tested.studio.changed_tasks(project, at).tasks] == [third, first]
    assert [one.id for one in tested.studio.changed_tasks(project, at + TICK).tasks] == [first]
    assert tested.studio.changed_tasks(project, at, size=1).total == 2
    (annotation,) = everything.tasks[0].annotations
    assert annotation["result"][0]["value"]["text"] == ["a text"]
    assert type(annotation["completed_by"]) is int


def test_uploaded_crowd_work_is_not_among_the_changed_tasks(tested: StudioUnderTest) -> None:
    project = tested.project()
    data = {"prompt": "p", "target": "positive", "target_title": "Positive", "sentence": ""}
    data[WORKER_FIELD] = "somebody"
    result = results(read_elements(PACK.create_xml, "create.xml"), {"text": "theirs"})
    made = {"data": data, "meta": {TASK_KEY: "crowd:1"}, "annotations": [{"result": result, "ground_truth": False}]}
    (crowds,) = tested.studio.add_tasks(project, [made])
    (own,) = tested.tasks(project, 1)
    tested.annotate(own)
    assert [one.id for one in tested.studio.changed_tasks(project, None).tasks] == [own]
    moment = tested.studio.tasks_after(project).tasks[0].changed_at
    assert tested.studio.tasks_changed_at(project, moment).tasks == ()
    (seen,) = tested.studio.tasks_after(project, size=1).tasks
    assert (seen.id, seen.key, seen.data[WORKER_FIELD]) == (crowds, "crowd:1", "somebody")
    (annotation,) = seen.annotations
    assert (annotation["result"], annotation["ground_truth"]) == (result, False)


def test_a_refused_task_refuses_the_whole_batch(tested: StudioUnderTest) -> None:
    project = tested.project()
    if isinstance(tested.studio, FakeLabelStudio):
        tested.studio.refuses = lambda task: "prompt" not in task["data"]
    good = {"prompt": "p", "target": "positive", "target_title": "Positive", "sentence": ""}
    with pytest.raises(LabelStudioRefused):
        tested.studio.add_tasks(project, [{"data": good}, {"data": {"target": "positive"}}])
    assert tested.studio.tasks_after(project).total == 0


def test_tasks_of_one_moment_can_be_read_by_id(tested: StudioUnderTest) -> None:
    project = tested.project()
    for task in tested.tasks(project, 3):
        tested.annotate(task)
    middle = tested.studio.changed_tasks(project, None).tasks[1]
    assert [one.id for one in tested.studio.tasks_changed_at(project, middle.changed_at).tasks] == [middle.id]
    assert tested.studio.tasks_changed_at(project, middle.changed_at, after=middle.id).tasks == ()


def test_webhooks_are_created_and_replaced(tested: StudioUnderTest) -> None:
    project = tested.project()
    hook = Webhook("http://127.0.0.1:9/a", {"X-Outfox-Secret": "one"}, frozenset({"ANNOTATION_CREATED"}))
    made = tested.studio.add_webhook(project, hook)
    assert made.webhook == hook
    other = Webhook("http://127.0.0.1:9/b", {"X-Outfox-Secret": "two"}, frozenset({"ANNOTATION_UPDATED"}))
    tested.studio.update_webhook(made.id, other)
    assert [(one.id, one.webhook) for one in tested.studio.webhooks(project)] == [(made.id, other)]


def test_a_backend_can_be_moved_and_keeps_its_user(tested: StudioUnderTest) -> None:
    project = tested.project()
    with counting_backend("prompt") as backend:
        made = tested.studio.add_backend(project, f"{backend.url}/tasks/x", BackendAuth("user", "word"))
        tested.studio.update_backend(project, made, f"{backend.url}/tasks/x/rounds/2", None)
        (seen,) = tested.studio.backends(project)
        assert (seen.id, seen.url, seen.user) == (made.id, f"{backend.url}/tasks/x/rounds/2", "user")
        assert (seen.interactive, seen.state) == (True, "Connected")
        tested.studio.update_backend(project, seen, made.url, None, interactive=False)
        (again,) = tested.studio.backends(project)
    assert (again.url, again.user, again.interactive) == (made.url, "user", False)


def test_predictions_name_their_versions(tested: StudioUnderTest) -> None:
    project = tested.project("validate")
    (task,) = tested.studio.add_tasks(project, [{"data": {"text": "fine"}}])
    said = results(read_elements(PACK.validate_xml, "validate.xml"), {"label": "positive"})
    one = {"task": task, "result": said, "score": 0.5, "model_version": "v7"}
    tested.studio.add_predictions(project, [one])
    assert tested.studio.tasks_after(project).tasks[0].model_versions == {"v7"}
