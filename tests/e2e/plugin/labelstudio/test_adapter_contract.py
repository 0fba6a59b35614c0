"""What every LabelStudio does: the real one, and the one in memory that the quick tests use."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import requests

from plugin.labelstudio.adapter import SdkLabelStudio
from round_manager.labelstudio.errors import LabelStudioError
from round_manager.labelstudio.port import TASK_KEY, WORKER_FIELD, BackendAuth, LabelStudio, Webhook
from round_manager.labelstudio.projects import project_settings
from templates import find_pack
from templates.payloads import results
from templates.xml_lines import read_elements
from tests.e2e.plugin.labelstudio.backend import counting_backend
from tests.fakes.label_studio import FakeLabelStudio
from tests.fakes.label_studio_adapter import tidy_studio

__all__ = ["tidy_studio"]

PACK = find_pack("sentiment")
TICK = timedelta(microseconds=1)


class Bench:
    """A LabelStudio, and a way to submit work in it."""

    def __init__(self, studio: LabelStudio, token: str = "") -> None:
        self.studio = studio
        self._token = token

    def project(self, template: Any = "create") -> int:
        return self.studio.create_project(project_settings(PACK, template)).id

    def tasks(self, project: int, count: int) -> list[int]:
        data = {"prompt": "p", "target": "positive", "target_title": "Positive"}
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
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "in memory":
        yield Bench(FakeLabelStudio())
        return
    server = request.getfixturevalue("tidy_studio").server
    yield Bench(SdkLabelStudio(server.url, server.token), server.token)


def test_it_knows_whose_token_it_has(bench: Bench) -> None:
    assert bench.studio.whoami() == "owner@example.com"


def test_a_project_is_found_by_number_and_by_title_and_changed_in_part(bench: Bench) -> None:
    number = bench.project()
    seen = bench.studio.project(number)
    assert seen is not None
    assert seen.label_config == PACK.create_xml.strip()
    assert number in [one.id for one in bench.studio.find_projects("sentiment: write")]
    assert bench.studio.find_projects("sentiment") == []
    bench.studio.update_project(number, {"description": "another"})
    changed = bench.studio.project(number)
    assert changed is not None
    assert (changed.settings["description"], changed.title) == ("another", "sentiment: write")


def test_what_is_gone_is_none_or_refused_with_404(bench: Bench) -> None:
    number = bench.project()
    bench.delete_project(number)
    assert bench.studio.project(number) is None
    for call in (
        lambda: bench.studio.changed_tasks(number, None),
        lambda: bench.studio.tasks_after(number),
        lambda: bench.tasks(number, 1),
    ):
        with pytest.raises(LabelStudioError) as caught:
            call()
        assert caught.value.status == 404


def test_tasks_get_numbers_in_their_order_and_keep_their_keys(bench: Bench) -> None:
    project = bench.project()
    numbers = bench.tasks(project, 5)
    assert numbers == sorted(numbers)
    page = bench.studio.tasks_after(project, after=numbers[1], size=2)
    assert [(one.id, one.key) for one in page.tasks] == [(numbers[2], "key:2"), (numbers[3], "key:3")]
    assert page.total == 3


def test_of_tasks_that_are_to_go_those_that_somebody_annotated_stay(bench: Bench) -> None:
    project, other = bench.project(), bench.project()
    annotated, skipped, untouched, gone, kept = bench.tasks(project, 5)
    (elsewhere,) = bench.tasks(other, 1)
    bench.annotate(annotated)
    bench.annotate(skipped, was_cancelled=True)
    assert bench.studio.delete_unannotated(project, [gone]) == set()
    numbers = [annotated, skipped, untouched, gone, elsewhere]
    assert bench.studio.delete_unannotated(project, numbers) == {annotated}
    assert [one.id for one in bench.studio.tasks_after(project).tasks] == [annotated, kept]
    assert [one.id for one in bench.studio.tasks_after(other).tasks] == [elsewhere]
    assert bench.studio.delete_unannotated(project, []) == set()
    assert bench.studio.delete_unannotated(project, [kept]) == set()
    assert [one.id for one in bench.studio.changed_tasks(project, None).tasks] == [annotated]


def test_changed_tasks_are_those_with_work_the_longest_unchanged_first(bench: Bench) -> None:
    project = bench.project()
    first, second, third, skipped, _untouched = bench.tasks(project, 5)
    for task in (second, third, first):
        bench.annotate(task)
    bench.annotate(skipped, was_cancelled=True)
    everything = bench.studio.changed_tasks(project, None)
    assert [one.id for one in everything.tasks] == [second, third, first]
    assert everything.total == 3
    at = everything.tasks[1].changed_at
    assert [one.id for one in bench.studio.changed_tasks(project, at).tasks] == [third, first]
    assert [one.id for one in bench.studio.changed_tasks(project, at + TICK).tasks] == [first]
    assert bench.studio.changed_tasks(project, at, size=1).total == 2
    (annotation,) = everything.tasks[0].annotations
    assert annotation["result"][0]["value"]["text"] == ["a text"]
    assert type(annotation["completed_by"]) is int


def test_tasks_that_show_crowd_work_come_with_it_and_are_not_among_the_changed_ones(bench: Bench) -> None:
    project = bench.project()
    data = {"prompt": "p", "target": "positive", "target_title": "Positive", WORKER_FIELD: "somebody"}
    result = results(read_elements(PACK.create_xml, "create.xml"), {"text": "theirs"})
    made = {"data": data, "meta": {TASK_KEY: "crowd:1"}, "annotations": [{"result": result, "ground_truth": False}]}
    (crowds,) = bench.studio.add_tasks(project, [made])
    (own,) = bench.tasks(project, 1)
    bench.annotate(own)
    assert [one.id for one in bench.studio.changed_tasks(project, None).tasks] == [own]
    moment = bench.studio.tasks_after(project).tasks[0].changed_at
    assert bench.studio.tasks_changed_at(project, moment).tasks == ()
    (seen,) = bench.studio.tasks_after(project, size=1).tasks
    assert (seen.id, seen.key, seen.data[WORKER_FIELD]) == (crowds, "crowd:1", "somebody")
    (annotation,) = seen.annotations
    assert (annotation["result"], annotation["ground_truth"]) == (result, False)


def test_of_tasks_of_which_one_is_refused_none_is_made(bench: Bench) -> None:
    project = bench.project()
    if isinstance(bench.studio, FakeLabelStudio):
        bench.studio.refuses = lambda task: "prompt" not in task["data"]
    good = {"prompt": "p", "target": "positive", "target_title": "Positive"}
    with pytest.raises(LabelStudioError) as caught:
        bench.studio.add_tasks(project, [{"data": good}, {"data": {"target": "positive"}}])
    assert (caught.value.status, caught.value.retry) == (400, False)
    assert bench.studio.tasks_after(project).total == 0


def test_the_tasks_of_one_moment_can_be_read_by_number(bench: Bench) -> None:
    project = bench.project()
    for task in bench.tasks(project, 3):
        bench.annotate(task)
    middle = bench.studio.changed_tasks(project, None).tasks[1]
    assert [one.id for one in bench.studio.tasks_changed_at(project, middle.changed_at).tasks] == [middle.id]
    assert bench.studio.tasks_changed_at(project, middle.changed_at, after=middle.id).tasks == ()


def test_a_hook_is_what_it_was_made_or_changed_to(bench: Bench) -> None:
    project = bench.project()
    hook = Webhook("http://127.0.0.1:9/a", {"X-Outfox-Secret": "one"}, frozenset({"ANNOTATION_CREATED"}))
    made = bench.studio.add_webhook(project, hook)
    assert made.webhook == hook
    other = Webhook("http://127.0.0.1:9/b", {"X-Outfox-Secret": "two"}, frozenset({"ANNOTATION_UPDATED"}))
    bench.studio.update_webhook(made.id, other)
    assert [(one.id, one.webhook) for one in bench.studio.webhooks(project)] == [(made.id, other)]


def test_a_backend_moves_and_keeps_its_user(bench: Bench) -> None:
    project = bench.project()
    with counting_backend("prompt") as backend:
        made = bench.studio.add_backend(project, f"{backend.url}/tasks/x", BackendAuth("user", "word"))
        bench.studio.update_backend(project, made, f"{backend.url}/tasks/x/rounds/2", None)
        (seen,) = bench.studio.backends(project)
        assert (seen.id, seen.url, seen.user) == (made.id, f"{backend.url}/tasks/x/rounds/2", "user")
        assert (seen.interactive, seen.state) == (True, "Connected")
        bench.studio.update_backend(project, seen, made.url, None, interactive=False)
        (again,) = bench.studio.backends(project)
    assert (again.url, again.user, again.interactive) == (made.url, "user", False)


def test_predictions_name_their_versions(bench: Bench) -> None:
    project = bench.project("validate")
    (task,) = bench.studio.add_tasks(project, [{"data": {"text": "fine"}}])
    said = results(read_elements(PACK.validate_xml, "validate.xml"), {"label": "positive"})
    one = {"task": task, "result": said, "score": 0.5, "model_version": "v7"}
    bench.studio.add_predictions(project, [one])
    assert bench.studio.tasks_after(project).tasks[0].model_versions == {"v7"}
