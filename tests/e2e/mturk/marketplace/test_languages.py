"""The worker site in every language, in a real browser."""

from playwright.sync_api import Page, expect

from common.pseudo import ACCENTED, MIRRORED
from common.translation import LANGUAGES
from tests.e2e.browser import SCREENSHOTS
from tests.e2e.mturk.marketplace.conftest import DESK, KEYBOARD, LANDSCAPE, PHONE, SiteWorld, fits
from tests.e2e.plugin.web.work.accessibility import violations


def test_every_page_in_every_language_is_accessible_and_fits(site: SiteWorld) -> None:
    ada = site.worker("Ada")
    page = site.signed_in(ada)
    site.post(cents=45, title="Write a review")
    site.accepted(page)
    working = page.url.removeprefix(site.server.url)
    site.post(cents=12_345, title="Another review")
    site.server.message(ada, "Round 2", "It opens on Monday.")
    paths = ["/", "/queue", "/earnings", "/messages", "/account", working, f"{working}/return", "/nowhere"]
    sizes = (DESK, LANDSCAPE, KEYBOARD, PHONE)
    for place, language in enumerate((*LANGUAGES, ACCENTED, MIRRORED)):
        page.goto(f"{site.server.url}/?lang={language}")
        for number, path in enumerate(paths):
            page.goto(f"{site.server.url}{path}")
            expect(page.locator("html")).to_have_attribute("lang", language)
            for size, window in enumerate(sizes):
                page.set_viewport_size(window)
                assert fits(page), (language, path, window)
                if path in ("/", working) and language in LANGUAGES:
                    _keep(page, f"market-{language}-{number}-{window['width']}x{window['height']}")
                # Each language in another window: the rules take longer than all the rest.
                if size == (place + number) % len(sizes):
                    assert violations(page.main_frame) == [], (language, path, window)
    page.goto(f"{site.server.url}/account")
    page.get_by_role("link", name="Deutsch").click()
    expect(page.get_by_role("heading", name="Konto")).to_be_visible()


def _keep(page: Page, name: str) -> None:
    """Save a screenshot of the window."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
