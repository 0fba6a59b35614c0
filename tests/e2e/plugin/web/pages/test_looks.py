"""How the page looks, loads and behaves before any work is done, on every screen."""

import re
import threading
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from round_manager.models import Hit, HitKind, WorkSession
from tests.campaign import MINUTE
from tests.e2e.plugin.web.pages.bare_page import BarePage, OpenSite, to_check
from tests.e2e.plugin.web.work.accessibility import serious_problems
from tests.e2e.plugin.web.work.hit_page import fits
from tests.fakes.registry import eventually
from tests.integration.plugin.web.work.work_site import WorkSite

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
FIRST_VISIT_BYTES = 2_200_000
NEXT_HIT_BYTES = 60_000
PAINTS = "performance.getEntriesByName('first-contentful-paint').length"
NOT_THERE_YET = re.compile(r"/work[a-z-]*\.[^/]*(css|js)|/editor/")
BLOCKED = """for (const name of ['localStorage', 'sessionStorage'])
    Object.defineProperty(window, name, {get() { throw new DOMException('blocked', 'SecurityError'); }});"""
ON_TOP = """(element) => {
    const {left, right, top, bottom} = element.getBoundingClientRect();
    return [top + 4, bottom - 4].every((y) => element.contains(document.elementFromPoint((left + right) / 2, y)));
}"""
MAKERS: dict[str, Callable[[WorkSite], Hit]] = {
    "create": lambda site: site.campaign.add_hit(),
    "validate": lambda site: to_check(site, 3),
    "quiz": lambda site: site.campaign.add_hit(HitKind.QUIZ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_the_page_fits_desktops_and_phones_and_has_no_serious_accessibility_problem(
    open_site: OpenSite, tab: BarePage, kind: str
) -> None:
    site = open_site()
    tab.open(site, MAKERS[kind](site)).in_state("ready")
    frame = tab.page.main_frame
    assert serious_problems(frame) == []
    tab.ready()
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        assert serious_problems(frame) == []
        for width in (1280, 360):
            tab.page.set_viewport_size({"width": width, "height": 800})
            expect(tab.there("submit")).to_be_in_viewport()
            assert fits(tab.page)
            tab.keep(f"{kind}-{scheme}-{width}")
    assert tab.complaints == []


def test_on_a_phone_an_error_message_leaves_room_for_the_text(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site()
    tab.page.set_viewport_size({"width": 360, "height": 740})
    tab.open(site, site.campaign.add_hit()).ready()
    tab.ask("text", "All was well.")
    tab.sees("not-fooled")
    tab.ask("text", "All was well. " * 40)
    expect(tab.there("trouble-text")).to_contain_text("at most")
    dock = tab.page.locator(".work-dock").bounding_box()
    assert dock is not None
    tab.keep("too-long-360")
    assert dock["height"] <= 740 / 3
    tab.there("trouble-close").click()
    expect(tab.there("verdict")).to_be_visible()


def test_on_a_slow_connection_the_first_bytes_say_that_the_task_is_loading(
    open_site: OpenSite, browser: Browser
) -> None:
    site, held, is_quick = open_site(), list[Route](), threading.Event()
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        tab = BarePage(context.new_page())
        tab.page.route(NOT_THERE_YET, lambda route: route.continue_() if is_quick.is_set() else held.append(route))
        tab.open(site, site.campaign.add_hit(), wait=False)
        # Painted, and not only there: a sheet that is awaited keeps a browser from showing anything.
        eventually(lambda: tab.page.evaluate(PAINTS), "something is painted")
        expect(tab.there("loading")).to_be_visible()
        expect(tab.there("loading")).to_have_text("Loading the task …")
        tab.keep("loading")
        is_quick.set()
        for route in held:
            route.continue_()
        tab.in_state("ready")
        expect(tab.there("loading")).to_be_hidden()
        assert (len(held) > 1, tab.complaints) == (True, [])
    finally:
        context.close()


def test_no_content_is_shown_or_loaded_before_the_warning_is_confirmed(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site("hate_speech")
    loaded: list[str] = []
    tab.page.on("request", lambda request: loaded.append(request.url))
    tab.open(site, site.campaign.add_hit()).in_state("consent")
    expect(tab.there("consent")).to_contain_text("texts that attack people")
    expect(tab.there("work")).to_be_hidden()
    assert serious_problems(tab.page.main_frame) == []
    tab.there("consent-no").click()
    expect(tab.there("consent-refused")).to_contain_text("Return this HIT")
    assert not [url for url in loaded if "/editor/" in url or "/work/" in url]
    tab.there("consent-yes").click()
    tab.in_state("ready")
    tab.page.reload()
    tab.in_state("ready")


@pytest.mark.parametrize("kind", MAKERS)
def test_a_preview_shows_the_whole_page_and_sends_no_requests(open_site: OpenSite, tab: BarePage, kind: str) -> None:
    site = open_site()
    tab.open(site, MAKERS[kind](site), assignmentId=PREVIEW).in_state("ready")
    expect(tab.there("preview-note")).to_be_visible()
    part = "How does the writer feel?" if kind == "validate" else "What you do"
    expect(tab.there("instructions")).to_contain_text(part)
    for button in tab.page.locator(".work-side button").all():
        expect(button).to_be_disabled()
    tab.keep(f"preview-{kind}")
    assert (tab.calls, tab.complaints) == ([], [])


def test_the_first_visit_is_light_and_the_next_hit_lighter(open_site: OpenSite, browser: Browser) -> None:
    site = open_site()
    context = browser.new_context()
    weights = []
    for _ in range(2):
        tab = BarePage(context.new_page())
        session = context.new_cdp_session(tab.page)
        session.send("Network.enable")
        came: list[float] = []
        session.on("Network.loadingFinished", lambda it, came=came: came.append(it["encodedDataLength"]))
        tab.open(site, site.campaign.add_hit(), "W1").in_state("ready")
        weights.append(sum(came))
    context.close()
    assert NEXT_HIT_BYTES < weights[0] <= FIRST_VISIT_BYTES
    assert weights[1] <= NEXT_HIT_BYTES


def test_the_page_works_in_a_browser_without_storage(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site("hate_speech")
    tab.page.add_init_script(BLOCKED)
    tab.open(site, site.campaign.add_hit())
    tab.there("consent-yes").click()
    tab.ready()
    tab.page.reload()
    tab.in_state("consent")
    assert tab.complaints == []


def test_instructions_open_once_for_a_worker_and_again_with_their_button(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site()
    tab.open(site, site.campaign.add_hit()).in_state("ready")
    expect(tab.there("instructions")).to_be_visible()
    assert serious_problems(tab.page.main_frame) == []
    with tab.page.expect_response("**/work/instructions"):
        tab.page.keyboard.press("Escape")
    tab.page.evaluate("localStorage.clear()")
    tab.open(site, site.campaign.add_hit()).in_state("ready")
    expect(tab.there("instructions")).to_be_hidden()
    tab.there("instructions-open").click()
    expect(tab.there("instructions")).to_contain_text("What you do")
    tab.there("instructions-close").click()
    tab.open(site, to_check(site, 1)).in_state("ready")
    expect(tab.there("instructions")).to_contain_text("How does the writer feel?")
    expect(tab.there("instructions")).not_to_contain_text("Fair ways to fool")
    tab.there("instructions-close").click()
    tab.open(site, site.campaign.add_hit(), "W2").in_state("ready")
    expect(tab.there("instructions")).to_be_visible()
    assert tab.complaints == []


@pytest.mark.parametrize(("width", "height"), [(375, 740), (1280, 800)])
def test_on_arrival_the_label_the_context_and_the_text_box_are_in_sight(
    open_site: OpenSite, tab: BarePage, width: int, height: int
) -> None:
    site = open_site()
    tab.page.set_viewport_size({"width": width, "height": height})
    tab.open(site, site.campaign.add_hit()).ready()
    context = site.campaign.context_of(site.campaign.rows(WorkSession)[-1]).fields["prompt"]
    for shown in (
        tab.page.get_by_text("reads as: Positive").locator("visible=true"),
        tab.page.get_by_text(context),
        tab.box("text"),
    ):
        expect(shown).to_have_count(1)
        expect(shown).to_be_in_viewport(ratio=1)
        assert _is_on_top(shown)


@pytest.mark.parametrize(("width", "height"), [(375, 740), (375, 394), (812, 329)])
def test_on_phones_the_label_the_text_and_the_verdict_are_used_together(
    open_site: OpenSite, tab: BarePage, width: int, height: int
) -> None:
    """The heights are what the marketplace's bar leaves, also above an open keyboard, and of a phone on its side."""
    site = open_site()
    tab.page.set_viewport_size({"width": width, "height": 740})
    tab.open(site, site.campaign.add_hit()).ready()
    tab.box("text").click()
    # The keyboard opens.
    tab.page.set_viewport_size({"width": width, "height": height})
    for text, outcome in (("All was well.", "not-fooled"), ("All was neutral, not well.", "fooled")):
        tab.box("text").fill(text)
        before = tab.there("ask").bounding_box()
        tab.there("ask").click()
        tab.sees(outcome)
        # The keyboard stays, and the next press meets the same button.
        expect(tab.box("text")).to_be_focused()
        assert tab.there("ask").bounding_box() == before
        for shown in (
            tab.there("goal"),
            tab.box("text"),
            tab.there("verdict-title"),
            tab.there("ask"),
            tab.there("submit"),
        ):
            expect(shown).to_be_in_viewport(ratio=1)
            assert _is_on_top(shown)
    expect(tab.there("verdict")).to_contain_text("Fooled")
    expect(tab.there("verdict-attempt")).to_have_text("attempt 2 of 10")
    assert serious_problems(tab.page.main_frame) == []
    tab.keep(f"together-{width}-{height}")
    tab.there("submit").click()
    tab.is_handed_in()
    assert [one for one in tab.calls if "/tries" in one] == ["POST /items/0/tries"] * 2


def _is_on_top(shown: Locator) -> bool:
    """Return whether nothing covers the middle of the element's upper and lower edge."""
    found: bool = shown.evaluate(ON_TOP)
    return found


def test_working_time_is_reported_and_continues_after_a_reload(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site()
    tab.open(site, site.campaign.add_hit()).ready()
    site.campaign.clock.advance(MINUTE)
    tab.box("text").press_sequentially("All was well.")
    tab.page.reload()
    tab.in_state("ready")
    (work,) = site.campaign.rows(WorkSession)
    assert 0 < work.active_ms < MINUTE.total_seconds() * 1_000


def test_a_hit_that_cannot_be_opened_is_explained_with_a_retry_button(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site()
    tab.open(site, site.campaign.add_hit(), turkSubmitTo="https://elsewhere.example").in_state("error")
    expect(tab.there("error-title")).to_have_text("This HIT cannot be opened")
    expect(tab.there("error-again")).to_be_visible()
    assert serious_problems(tab.page.main_frame) == []


def test_a_page_whose_files_are_missing_says_so(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site()
    tab.page.route("**/main.js", lambda route: route.abort())
    tab.open(site, site.campaign.add_hit()).in_state("error")
    expect(tab.there("error-title")).to_have_text("This page did not load")
    tab.page.unroute("**/main.js")
    tab.there("error-again").click()
    tab.in_state("ready")
