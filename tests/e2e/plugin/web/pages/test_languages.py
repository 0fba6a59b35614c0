"""Worker pages in other languages: complete, accessible, and from right to left."""

import re
from collections.abc import Callable, Iterator
from html import unescape

import pytest
from playwright.sync_api import expect

from common.pseudo import ACCENTED, MIRRORED
from common.translation import LANGUAGES, translator
from round_manager.models import Attempt, Context, Example, Hit, HitKind
from tests.e2e.plugin.web.pages.bare_page import BarePage, OpenSite, to_check
from tests.e2e.plugin.web.work.accessibility import violations
from tests.e2e.plugin.web.work.hit_page import fits
from tests.integration.plugin.web.work.work_site import WorkSite
from tests.pseudo import untranslated

TYPED = ("All was well. " * 40, "Positive it was, I would say.", "This is neutral, and more.", "Changed since.")
WORDS = re.compile("[A-Za-z]{2}")
# What Label Studio's editor says by itself, in English only. Its other texts are the pack's, or hidden.
EDITOR_STRINGS = {"Add", "Notifications (F8)"}
EDITOR_TEXTS = """() => {
    const found = [], editor = document.getElementById("editor");
    const walker = document.createTreeWalker(editor, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!element.closest("style") && element.checkVisibility()) found.push(walker.currentNode.textContent);
    }
    for (const one of editor.querySelectorAll("[placeholder], [aria-label], [title]")) {
        for (const name of ["placeholder", "aria-label", "title"]) {
            if (one.checkVisibility()) found.push(one.getAttribute(name) ?? "");
        }
    }
    return found;
}"""
# A phone, with its keyboard open, on its side, and a desktop.
SIZES = ((375, 740), (375, 440), (812, 375), (1280, 800))
HITS: dict[HitKind, Callable[[WorkSite], Hit]] = {
    HitKind.CREATE: lambda site: site.campaign.add_hit(),
    HitKind.VALIDATE: lambda site: to_check(site, 2),
    HitKind.QUIZ: lambda site: site.campaign.add_hit(HitKind.QUIZ),
}


def steps(tab: BarePage, kind: HitKind) -> Iterator[str]:
    """Do what a worker does, and stop at everything that the page shows on the way."""
    tab.in_state("ready")
    yield "instructions"
    tab.ready()
    tab.there("report").click()
    tab.there("report-send").click()
    yield "an empty report"
    tab.there("report-close").click()
    if kind is HitKind.CREATE:
        tab.ask("text", TYPED[0])
        expect(tab.there("trouble")).to_be_visible()
        yield "too long"
        for number, text in enumerate(TYPED[1:3], 1):
            tab.ask("text", text)
            expect(tab.there("verdict-attempt")).to_contain_text(str(number))
            yield f"verdict {number}"
        tab.box("text").fill(TYPED[3])
        yield "changed"
        return
    tab.there("submit").click()
    expect(tab.there("trouble")).to_be_visible()
    yield "nothing chosen"
    if kind is HitKind.VALIDATE:
        tab.page.get_by_role("radio").first.check()
        tab.there("submit").click()
        expect(tab.there("trouble")).to_be_hidden()
        yield "the next one"
    else:
        for one in tab.page.locator("fieldset").all():
            one.get_by_role("radio").last.check()
        tab.there("submit").click()
        expect(tab.there("quiz-result")).to_be_visible()
        yield "not passed"


def texts_of_the_task(site: WorkSite, tab: BarePage) -> str:
    """Return everything that the pack and people wrote, and the editor shows."""
    config = tab.page.evaluate("JSON.parse(document.getElementById('setup').textContent).config")
    labels = site.campaign.spec.labels
    templates = [config.replace("$target_title", label.title).replace("**", "") for label in labels]
    written = [re.sub(r"</?\w+>", "", unescape(text)) for text in templates]
    rows = [one for table in (Context, Example, Attempt) for one in site.campaign.rows(table)]
    return " ".join(" ".join([*written, *(text for row in rows for text in row.fields.values()), *TYPED]).split())


@pytest.mark.parametrize("kind", HITS)
def test_no_text_is_untranslated_outside_label_studios_own_strings(
    open_site: OpenSite, tab: BarePage, kind: HitKind
) -> None:
    site = open_site()
    tab.open(site, HITS[kind](site), language=ACCENTED)
    for step in steps(tab, kind):
        assert untranslated(tab.page.content(), [site.campaign.spec.title]) == [], step
        assert violations(tab.page.main_frame) == [], step
        if kind is not HitKind.QUIZ:
            shown = {" ".join(text.split()) for text in tab.page.evaluate(EDITOR_TEXTS)}
            known = texts_of_the_task(site, tab)
            assert {text for text in shown if WORDS.search(text) and text not in known} <= EDITOR_STRINGS, step


@pytest.mark.parametrize("kind", HITS)
def test_a_page_in_any_language_is_accessible_and_fits(open_site: OpenSite, tab: BarePage, kind: HitKind) -> None:
    site = open_site()
    hit = HITS[kind](site)
    for place, language in enumerate((*LANGUAGES, MIRRORED)):
        tab.open(site, hit, language=language).ready()
        expect(tab.page.locator("html")).to_have_attribute("lang", language)
        expect(tab.page.locator("html")).to_have_attribute("dir", translator(language).direction)
        for size, (width, height) in enumerate(SIZES):
            tab.page.set_viewport_size({"width": width, "height": height})
            assert fits(tab.page), (language, width, height)
            tab.keep(f"{language}-{kind.value}-{width}x{height}")
            # Each language in another window: the rules take longer than all the rest.
            if size == place % len(SIZES):
                assert violations(tab.page.main_frame) == [], (language, width, height)
    assert tab.complaints == []


def test_a_worker_changes_the_language_and_keeps_what_was_written(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site()
    tab.open(site, site.campaign.add_hit()).ready()
    tab.box("text").fill("Half a sentence")
    tab.has_saved()
    tab.page.get_by_role("link", name="Deutsch").click()
    expect(tab.page.locator("html")).to_have_attribute("lang", "de")
    tab.in_state("ready")
    expect(tab.box("text")).to_have_value("Half a sentence")
    expect(tab.there("pay-reward")).to_have_text("0,45\xa0$")
    tab.open(site, site.campaign.add_hit()).in_state("ready")
    expect(tab.page.locator("html")).to_have_attribute("lang", "de")
