"""The worker site in every language, in a real browser."""

from playwright.sync_api import expect

from common.pseudo import ACCENTED, MIRRORED
from common.translation import LANGUAGES
from tests.e2e.mturk.marketplace.conftest import DESK, LANDSCAPE, PHONE, SiteWorld, fits
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
    for language in (*LANGUAGES, ACCENTED, MIRRORED):
        page.goto(f"{site.server.url}/?lang={language}")
        for path in paths:
            page.goto(f"{site.server.url}{path}")
            expect(page.locator("html")).to_have_attribute("lang", language)
            assert violations(page.main_frame) == [], (language, path)
            for size in (DESK, LANDSCAPE, PHONE):
                page.set_viewport_size(size)
                assert fits(page), (language, path)
    page.goto(f"{site.server.url}/account")
    page.get_by_role("link", name="Deutsch").click()
    expect(page.get_by_role("heading", name="Konto")).to_be_visible()
