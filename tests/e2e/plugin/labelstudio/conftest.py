"""One real Label Studio for all tests of a process, with its own port and folder."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from playwright.sync_api import BrowserContext, Error, Page

from plugin.labelstudio.server import LabelStudioServer
from plugin.server_process import free_port
from templates import Pack
from tests.e2e.browser import Complaints
from tests.e2e.first_start import FirstStart
from tests.e2e.plugin.labelstudio.backend import CountingBackend
from tests.e2e.plugin.labelstudio.projects import LabelStudio, Project


@dataclass(frozen=True)
class Studio:
    """A running Label Studio, and what tests ask it."""

    server: LabelStudioServer
    projects: LabelStudio

    def get(self, path: str) -> Any:
        """Return a response of its API."""
        answer = requests.get(f"{self.server.url}/api/{path}", headers=self._headers, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def delete(self, path: str) -> None:
        """Delete everything in Label Studio."""
        requests.delete(f"{self.server.url}/api/{path}", headers=self._headers, timeout=60).raise_for_status()

    @contextmanager
    def project_with(self, pack: Pack, backend: CountingBackend) -> Iterator[Project]:
        """The pack's project for writers with an ML backend, until the end of the block."""
        project = self.projects.ensure_project(pack, "create")
        connection = {"project": project.id, "url": backend.url, "title": "counting", "is_interactive": True}
        answer = requests.post(f"{self.server.url}/api/ml/", headers=self._headers, json=connection, timeout=30)
        answer.raise_for_status()
        try:
            yield project
        finally:
            # Otherwise later tests would find a project without its backend.
            self.projects.delete_project(project)

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Token {self.server.token}"}


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory, first_start: FirstStart) -> Iterator[Studio]:
    """Label Studio, started for real."""
    folder = tmp_path_factory.mktemp("label-studio") / "data"
    first_start.give_tables(folder)
    token = secrets.token_hex(20)
    server = LabelStudioServer(folder, free_port(), "owner@example.com", secrets.token_urlsafe(12), token)
    with server:
        server.start()
        yield Studio(server, LabelStudio(server.url, token))


@pytest.fixture(scope="session")
def owners_browser(studio: Studio, everyday_browser: BrowserContext) -> BrowserContext:
    """The browser of the owner, who logged in once; after the first visit it has Label Studio's many files."""
    everyday_browser.clear_cookies()
    page = everyday_browser.new_page()
    page.goto(f"{studio.server.url}/user/login/")
    page.fill("#email", studio.server.email)
    page.fill("#password", studio.server.password)
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "login" not in url, wait_until="commit")
    page.close()
    return everyday_browser


@pytest.fixture
def page(owners_browser: BrowserContext) -> Iterator[Page]:
    """A tab of the owner's browser; its local storage is cleared afterwards."""
    page = owners_browser.new_page()
    page.set_viewport_size({"width": 1280, "height": 1100})
    yield page
    # A tab without a page has no local storage.
    with suppress(Error):
        page.evaluate("localStorage.clear()")
    page.close()


@pytest.fixture
def labelling(page: Page) -> Callable[[Project, int], Complaints]:
    """Open a task as the owner, wait for the template, and collect the page's errors from then on."""

    def open_task(project: Project, task_id: int) -> Complaints:
        complaints = Complaints()
        complaints.listen_to(page)
        page.goto(f"{project.url}?task={task_id}")
        page.locator(".outfox").wait_for()
        # Late responses and fonts still change the layout.
        page.wait_for_load_state("networkidle")
        page.evaluate("document.fonts.ready.then(() => null)")
        return complaints

    return open_task


def submit(page: Page) -> None:
    """Submits the annotation and waits until it is stored."""
    with page.expect_response(lambda answer: "/annotations" in answer.url and answer.request.method == "POST") as made:
        page.get_by_role("button", name="Submit").click()
    assert made.value.status == 201
