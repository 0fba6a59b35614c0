"""Work that Outfox cannot use, in the real Label Studio: its author is told there, and gets it back."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from werkzeug.serving import make_server

from ml_backend.serving.web import backend_app
from round_manager.labelstudio.outcomes import NOT_ACCEPTED, write_outcomes
from round_manager.labelstudio.push import RETURNED
from round_manager.labelstudio.sync import SyncResult
from templates import find_pack
from templates.payloads import Json
from tests.e2e.browser import Complaints
from tests.e2e.plugin.labelstudio.conftest import Studio, submit
from tests.e2e.plugin.labelstudio.projects import Project
from tests.fakes.label_studio_adapter import Adapter, Adapters, adapters, others, tidy_studio
from tests.unit.ml_backend.serving.conftest import ServiceSetup

__all__ = ["adapters", "others", "tidy_studio"]

OpenTask = Callable[[Project, int], Complaints]
FOOLS = "It is positive that this was a waste of an evening."
MESSAGES = find_pack("sentiment").spec.messages


@pytest.fixture
def verdicts() -> Iterator[str]:
    """The address of our ML backend with a model that needs no training: it says what the text names."""
    service = ServiceSetup(find_pack("sentiment")).service
    server = make_server("127.0.0.1", 0, backend_app(service), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def color(page: Page) -> str:
    return str(page.locator(".verdict").evaluate("card => getComputedStyle(card).borderTopColor"))


def ask(box: Locator, text: str) -> None:
    box.fill(text)
    box.press("Shift+Enter")


def data(adapter: Adapter, task: int) -> Json:
    found: Json = adapter.studio.get(f"tasks/{task}/")["data"]
    return found


def sync(adapter: Adapter) -> SyncResult:
    read = adapter.sync()
    write_outcomes(adapter.store, adapter.remote, adapter.name, adapter.clock)
    return read


def test_discarded_work_is_reported_to_its_author_and_returned(
    adapters: Adapters,
    others: list[int],
    studio: Studio,
    page: Page,
    labelling: OpenTask,
    verdicts: str,
    screenshot: Callable[[str], Path],
) -> None:
    adapter = adapters(contexts=6)
    made = adapter.connect(ml_backend=verdicts, web_url=None).projects
    adapter.push()
    project = Project(made["create"], "write", f"{studio.server.url}/projects/{made['create']}/data")
    emptied, long = [one["id"] for one in adapter.tasks(project.id) if one["data"]["target"] == "negative"][:2]
    verdict, card = page.locator(".verdict"), page.locator(".returned")

    # A text that is deleted after its verdict.
    labelling(project, emptied)
    expect(card).to_be_hidden()
    ask(page.locator("textarea[name=text]"), FOOLS)
    expect(verdict).to_contain_text("attempt 1 of 10")
    fooled, box = color(page), page.locator("textarea[name^='text:']")
    ask(box, "It is negative.")
    expect(verdict).to_contain_text("attempt 2 of 10: “It is negative.”")
    not_fooled = color(page)
    ask(box, "Das ist aber gar nicht positive.")
    expect(verdict).to_contain_text(MESSAGES.other_language)
    assert len({fooled, not_fooled, color(page)}) == 3
    screenshot("discarded-advice")
    ask(box, "")
    expect(verdict).to_contain_text(MESSAGES.emptied)
    expect(verdict).not_to_contain_text("You fooled the model!")
    submit(page)
    assert sync(adapter) == SyncResult(read=1, problems=1)
    assert data(adapter, emptied)["status"] == NOT_ACCEPTED

    # 600 characters where 400 are allowed. Its author returns to the task, then corrects what came back.
    labelling(project, long)
    ask(page.locator("textarea[name=text]"), "x" * 600)
    expect(verdict).to_contain_text("Too long")
    submit(page)
    assert sync(adapter) == SyncResult(read=1, problems=1)
    adapter.push()
    back = [one for one in adapter.tasks(project.id) if one["data"]["status"] == RETURNED]
    assert [len(one["data"]["sentence"]) for one in back] == [0, 600]
    labelling(project, back[1]["id"])
    expect(card).to_contain_text("600")
    screenshot("discarded-returned")
    box = page.locator("textarea[name=text]")
    expect(box).to_have_value("x" * 600)
    ask(box, FOOLS)
    expect(verdict).to_contain_text("You fooled the model!")
    submit(page)
    assert sync(adapter) == SyncResult(read=1, examples=1)
    shown = data(adapter, back[1]["id"])
    assert (shown["status"], shown["reason"], shown["sentence"]) == ("pending", "", FOOLS)

    # A vote on one's own example: it is not offered, and refused if it is given all the same.
    adapter.push()
    write_outcomes(adapter.store, adapter.remote, adapter.name, adapter.clock)
    checks = adapter.tasks(made["validate"])
    assert {one["is_labeled"] for one in checks} == {False}
    assert offered(adapter, made["validate"], 1) is None
    assert offered(adapter, made["validate"], others[0]) in {one["id"] for one in checks}
    adapter.annotate(checks[0]["id"], adapter.judged(checks[0]))
    assert sync(adapter) == SyncResult(read=1, problems=1)
    assert data(adapter, checks[0]["id"])["status"] == NOT_ACCEPTED

    # Our own changes lead to nothing more, and the columns are there.
    assert sync(adapter) == SyncResult()
    assert adapter.status().projects[0].unread == 0
    columns = studio.get(f"dm/columns?project={project.id}")["columns"]
    assert {"status", "reason", "sentence", "verdict", "votes"} <= {one["id"] for one in columns}
    page.goto(project.url)
    expect(page.get_by_text(NOT_ACCEPTED).first).to_be_visible()
    screenshot("discarded-data-manager")


def offered(adapter: Adapter, project: int, user: int) -> int | None:
    """Return the task that Label Studio gives to the user next."""
    answer = adapter.request("GET", f"projects/{project}/next", user=user)
    return int(answer.json()["id"]) if answer.status_code == 200 else None
