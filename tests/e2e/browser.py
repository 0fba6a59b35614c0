"""A real Chromium for tests: found, or fetched, or a failure that says what to do."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

SCREENSHOTS = Path(__file__).resolve().parents[2] / "test-results" / "screenshots"
# The shell is the same browser without windows of its own, and takes a quarter less of two cores.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = NAMES[:2]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Each window of a headless browser would draw an address bar's suggestions, for half of what a page takes.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
    # One process for all pages, so that the editor's scripts are compiled once: a quarter less for each page.
    "--renderer-process-limit=1",
    "--process-per-site",
    "--disable-site-isolation-trials",
]
# Connections that it opens before anybody asks would lead to a server of an earlier test at the same address.
NO_GUESSES = {"net": {"network_prediction_options": 2}}
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
    """The path of a Chromium: the machine's, or Playwright's, or one that is fetched now.

    Test processes come one after the other: those that come while one is being installed would find half of it.
    """
    with (Path(tempfile.gettempdir()) / f"outfox-chromium-{os.geteuid()}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        found = _on_path() or _fetched_by_apt() or playwright.chromium.executable_path
        if not Path(found).is_file():
            subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
    if not Path(found).is_file():
        pytest.fail(ADVICE, pytrace=False)
    return found


@pytest.fixture(scope="session")
def everyday_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """The browser of somebody who was here before, one for all tests of a process; who signs in clears its cookies.

    Unlike a private window it keeps what it has compiled: Label Studio's editor opens for two thirds of the work.
    """
    expect.set_options(timeout=MILLISECONDS_TO_WAIT)
    with sync_playwright() as playwright:
        profile, path = tmp_path_factory.mktemp("profile"), find_chromium(playwright)
        (profile / "Default").mkdir()
        (profile / "Default" / "Preferences").write_text(json.dumps(NO_GUESSES), encoding="utf-8")
        context = playwright.chromium.launch_persistent_context(profile, executable_path=path, args=FLAGS)
        yield context
        context.close()


@pytest.fixture(scope="session")
def browser(everyday_browser: BrowserContext) -> Browser:
    """The same one, to open private windows of: whoever uses them comes for the first time."""
    browser = everyday_browser.browser
    assert browser is not None
    return browser


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


def _fetched_by_apt() -> str | None:
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return None
    # Somebody else may be installing something just now.
    patient = [apt, "-o", "DPkg::Lock::Timeout=600"]
    subprocess.run([*patient, "update"], check=False)
    for name in PACKAGES:
        if subprocess.run([*patient, "install", "-y", "--no-install-recommends", name], check=False).returncode == 0:
            break
    return _on_path()


def _is_local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "http://localhost:", "data:", "blob:"))
