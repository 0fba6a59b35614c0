"""A real Chromium for tests: found, or fetched, or a failure that says what to do."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

SCREENSHOTS = Path(__file__).resolve().parents[2] / "test-results" / "screenshots"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Long: other tests use the same two cores. A condition that holds ends the wait.
MILLISECONDS_TO_WAIT = 20_000
ADVICE = "no Chromium was found and none could be fetched; install it (apt-get install chromium) and run again"


@dataclass
class Complaints:
    """What went wrong in a page since it was last asked about: errors in scripts, in the console, in answers."""

    heard: list[str] = field(default_factory=list)

    def listen_to(self, page: Page) -> None:
        """Begins to collect."""
        page.on("pageerror", lambda error: self.heard.append(f"page error: {error}"))
        page.on("console", lambda said: self.heard.append(f"console: {said.text}") if said.type == "error" else None)
        page.on("response", lambda it: self.heard.append(f"{it.status}: {it.url}") if it.status >= 400 else None)
        page.on("request", lambda it: None if _is_local(it.url) else self.heard.append(f"outside: {it.url}"))


def find_chromium(playwright: Playwright) -> str:
    """The path of a Chromium: the machine's, or Playwright's, or one that is fetched now."""
    found = _on_path()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update"], check=False)
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", "chromium"], check=False)
        found = _on_path()
    if found is None and not Path(playwright.chromium.executable_path).is_file():
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
    found = found or playwright.chromium.executable_path
    if not Path(found).is_file():
        pytest.fail(ADVICE, pytrace=False)
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    expect.set_options(timeout=MILLISECONDS_TO_WAIT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(playwright), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, with no cookies."""
    page = browser.new_page(viewport={"width": 1280, "height": 1100})
    yield page
    page.context.close()


@pytest.fixture
def screenshot(page: Page) -> Callable[[str], Path]:
    """Saves what the page shows now under a name."""

    def screenshot(name: str) -> Path:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        page.screenshot(path=path, full_page=True)
        return path

    return screenshot


def _on_path() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _is_local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "http://localhost:", "data:", "blob:"))
