"""Writing in the real Label Studio against our real backend, from the first try to the example in our database."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from templates import Pack, find_pack
from tests.e2e.browser import Complaints
from tests.e2e.plugin.labelstudio.conftest import Studio, submit
from tests.e2e.plugin.labelstudio.live import Live
from tests.e2e.plugin.labelstudio.projects import Project
from tests.e2e.plugin.labelstudio.test_live_verdicts import drag_over
from tests.e2e.taught import Teach

OpenTask = Callable[[Project, int], Complaints]
# One task whose answer is selected in a text, one with labels, choices and a reason. The templates of all packs are
# tested in test_templates.py.
TASKS = ("qa", "hate_speech")
every_task = pytest.mark.parametrize("name", TASKS)
LIE = "You fooled the model! It was never so wrong (100%)."


@dataclass(frozen=True)
class Writing:
    """A task that is open: two texts of which one fools the model and one does not, and the answer to be selected."""

    pack: Pack
    task: dict[str, Any]
    fooling: str
    failing: str
    span: str | None

    @property
    def input(self) -> str:
        return self.pack.spec.with_role("input")[0].name

    @property
    def target(self) -> str:
        return self.span or self.task["data"]["target"]

    def fields(self, text: str) -> dict[str, str]:
        context = {one.name: self.task["data"][one.name] for one in self.pack.spec.with_role("context")}
        return {**context, self.input: text}


@pytest.fixture(scope="module")
def live(studio: Studio, tmp_path_factory: pytest.TempPathFactory, teach: Teach) -> Iterator[Live]:
    """The tasks, each with its own model and an open round."""
    running = Live(tmp_path_factory.mktemp("live"), studio)
    running.outfox("db", "upgrade")
    for name in TASKS:
        running.open_round(name, teach(name))
    running.start()
    yield running
    running.stop()


@every_task
def test_a_writer_sees_a_verdict_on_every_text_and_the_example_has_the_right_one(
    live: Live, page: Page, labelling: OpenTask, screenshot: Callable[[str], Path], name: str
) -> None:
    project = live.project(name)
    writing = begin(live, project, name, place=0)
    before = len(live.examples(name, 0))
    complaints = labelling(project, writing.task["id"])

    write(page, writing, writing.failing)
    see(page, live, writing, writing.failing, known=False)
    if writing.span:
        drag_over(page, writing.span)
    see(page, live, writing, writing.failing)
    rewrite(page, writing, writing.fooling)
    see(page, live, writing, writing.fooling)
    screenshot(f"live-{name}")
    fill_in_the_rest(page, writing)
    submit(page)
    assert complaints.heard == []

    example = live.examples(name, before + 1)[-1]
    expected = live.verdict(writing.pack, writing.fields(writing.fooling), writing.target)
    assert example.fields[writing.input] == writing.fooling
    assert (example.label or example.answer["text"]) == writing.target
    assert example.fooled is expected.fooled is True
    assert [one["version"] for one in example.verdict["said"]] == [one.version for one in expected.outputs]
    assert example.verdict["said"][0]["prediction"] == expected.shown.prediction
    assert example.status == "pending"
    tries = [one for one in live.attempts(name) if one.example_id == example.id or one.worker_id == example.author_id]
    assert writing.failing in {one.fields[writing.input] for one in tries}
    assert writing.fooling in {one.fields[writing.input] for one in tries}
    assert all(one.latency_us > 0 for one in tries)


@pytest.mark.parametrize("name", TASKS[:1])
def test_a_stale_or_forged_verdict_is_shown_but_never_believed(
    live: Live, page: Page, labelling: OpenTask, screenshot: Callable[[str], Path], name: str
) -> None:
    project = live.project(name)
    writing = begin(live, project, name, place=1)
    before = len(live.examples(name, 0))
    labelling(project, writing.task["id"])

    if writing.span:
        drag_over(page, writing.span)
    write(page, writing, writing.fooling)
    see(page, live, writing, writing.fooling)
    # The text is replaced while the backend is down: the verdict shown is about the old one.
    page.route("**/api/ml/**", lambda route: route.abort())
    page.locator(f"textarea[name^='{writing.input}:']").fill("")
    page.locator("body").click(position={"x": 5, "y": 5})
    page.locator(f"textarea[name^='{writing.input}']").first.fill(writing.failing)
    page.locator(f"textarea[name^='{writing.input}']").first.press("Shift+Enter")
    expect(page.locator(".verdict")).to_contain_text(sentence(live, writing, writing.fooling))
    screenshot(f"live-{name}-stale")
    fill_in_the_rest(page, writing)

    def forge(route: Route) -> None:
        if route.request.method != "POST":
            route.continue_()
            return
        body = json.loads(route.request.post_data or "{}")
        for one in body["result"]:
            if one["from_name"] == "feedback":
                one["value"] = {"text": [LIE]}
        route.continue_(post_data=json.dumps(body))

    page.route(re.compile(r"/api/tasks/\d+/annotations"), forge)
    submit(page)
    (stored,) = live.studio.get(f"tasks/{writing.task['id']}/")["annotations"]
    assert LIE in json.dumps(stored["result"]), "Label Studio keeps the lie"

    example = live.examples(name, before + 1)[-1]
    expected = live.verdict(writing.pack, writing.fields(writing.failing), writing.target)
    assert example.fields[writing.input] == writing.failing
    assert example.fooled is expected.fooled is False
    assert example.verdict["said"][0]["prediction"] == expected.shown.prediction
    assert LIE not in json.dumps(example.verdict)


def begin(live: Live, project: Project, name: str, place: int) -> Writing:
    """A task with texts that the task's own model is and is not fooled by; another one for another place."""
    tasks = live.studio.get(f"tasks/?project={project.id}&page_size=100&fields=all")["tasks"]
    pack = find_pack(name)
    # The same text cannot be submitted twice.
    texts = [row.fields[pack.spec.with_role("input")[0].name] for row in pack.seed[place::29]]
    for task in sorted(tasks, key=lambda one: one["id"])[place::2]:
        found = _qa(live, pack, task, texts) if pack.spec.kind == "qa" else _labels(live, pack, task, texts)
        if found:
            return found
    raise AssertionError("the model answers everything alike")


def _labels(live: Live, pack: Pack, task: dict[str, Any], texts: list[str]) -> Writing | None:
    trying = Writing(pack, task, "", "", None)
    verdicts = {text: _fooled(live, trying, text, trying.target) for text in texts}
    if set(verdicts.values()) != {True, False}:
        return None
    fooling = next(text for text, fooled in verdicts.items() if fooled)
    failing = next(text for text, fooled in verdicts.items() if not fooled)
    return Writing(pack, task, fooling, failing, None)


def _qa(live: Live, pack: Pack, task: dict[str, Any], texts: list[str]) -> Writing | None:
    """One answer that the model gives to one question, and not to another."""
    trying = Writing(pack, task, "", "", None)
    passage = task["data"]["passage"]
    for failing in texts:
        said = live.verdict(pack, trying.fields(failing), None).shown.prediction
        # A word that stands alone and only once is selected with one drag.
        for word in [one for one in said.split() if one in passage.split() and passage.count(one) == 1]:
            verdicts = {text: _fooled(live, trying, text, word) for text in texts}
            if verdicts[failing] is False and True in verdicts.values():
                return Writing(pack, task, next(text for text, fooled in verdicts.items() if fooled), failing, word)
    return None


def _fooled(live: Live, trying: Writing, text: str, target: str) -> bool | None:
    return live.verdict(trying.pack, trying.fields(text), target).fooled


def write(page: Page, writing: Writing, text: str) -> None:
    box = page.locator(f"textarea[name={writing.input}]")
    box.fill(text)
    box.press("Shift+Enter")


def rewrite(page: Page, writing: Writing, text: str) -> None:
    box = page.locator(f"textarea[name^='{writing.input}:']")
    box.fill(text)
    box.press("Shift+Enter")


def sentence(live: Live, writing: Writing, text: str, *, known: bool = True) -> str:
    target = writing.target if known or not writing.span else None
    return live.verdict(writing.pack, writing.fields(text), target).sentence(writing.pack.spec)


def see(page: Page, live: Live, writing: Writing, text: str, *, known: bool = True) -> None:
    expect(page.locator(".verdict")).to_contain_text(sentence(live, writing, text, known=known))


def fill_in_the_rest(page: Page, writing: Writing) -> None:
    """Whatever else the task's people must say."""
    for one in writing.pack.spec.fields:
        if one.required and one.role == "reason":
            page.locator(f"textarea[name={one.name}]").fill("Anybody would read it that way.")
            page.locator(f"textarea[name={one.name}]").press("Shift+Enter")
        elif one.required and one.choices:
            page.get_by_text("None The post is not hateful.").click()
