"""A real Chromium for tests: an installed or a downloaded one, or else a failure that says what to do."""

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
# The shell is the same browser without windows, and uses a quarter less CPU.
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
    # A headless browser draws the address bar's suggestions in each window, at half the cost of a page.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
    # One process for all pages compiles the editor's scripts once, which saves a quarter of each page's time.
    "--renderer-process-limit=1",
    "--process-per-site",
    "--disable-site-isolation-trials",
]
# A connection opened in advance could lead to the server of an earlier test at the same address.
NO_GUESSES = {"net": {"network_prediction_options": 2}}
# Long: other tests use the same two cores. A condition that holds ends the wait.
MILLISECONDS_TO_WAIT = 60_000
ADVICE = "no Chromium was found and none could be fetched; install it (apt-get install chromium) and run again"


@dataclass
class Complaints:
    """Errors in a page's scripts, console and responses."""

    heard: list[str] = field(default_factory=list)

    def listen_to(self, page: Page) -> None:
        """Start to collect the page's errors."""
        page.on("pageerror", lambda error: self.heard.append(f"page error: {error}"))
        page.on("console", lambda said: self.heard.append(f"console: {said.text}") if said.type == "error" else None)
        page.on("response", lambda it: self.heard.append(f"{it.status}: {it.url}") if it.status >= 400 else None)
        page.on("request", lambda it: None if _is_local(it.url) else self.heard.append(f"outside: {it.url}"))


def find_chromium(playwright: Playwright) -> str:
    """Return the path of a Chromium: the machine's, Playwright's, or one that is downloaded now.

    A lock lets one test process at a time in, because others could find a half-installed browser.
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
    """A returning user's browser, shared by all tests of a process; signing in clears its cookies.

    Unlike a private window, it keeps compiled scripts, so that Label Studio's editor opens in two thirds of the time.
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
    """The same browser, to open private windows for first-time visitors."""
    browser = everyday_browser.browser
    assert browser is not None
    return browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in a private window, without cookies."""
    page = browser.new_page(viewport={"width": 1280, "height": 1100})
    yield page
    page.context.close()


@pytest.fixture
def screenshot(page: Page) -> Callable[[str], Path]:
    """Save a screenshot of the page under a name."""

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
    # Another process may be installing a package.
    patient = [apt, "-o", "DPkg::Lock::Timeout=600"]
    subprocess.run([*patient, "update"], check=False)
    for name in PACKAGES:
        if subprocess.run([*patient, "install", "-y", "--no-install-recommends", name], check=False).returncode == 0:
            break
    return _on_path()


def _is_local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "http://localhost:", "data:", "blob:"))
