"""Two windows of one worker: a text skipped in one is neither sent nor overwritten by the other."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from round_manager.models import Attempt, WorkItem, WorkSession
from tests.e2e.plugin.web.pages.bare_page import BarePage, OpenSite, OpenTab
from tests.integration.plugin.web.work.work_site import WorkSite

CHANGED = "This example has another text now; here it is."


@pytest.fixture
def site(open_site: OpenSite) -> WorkSite:
    return open_site(work={"tries": 4, "tries_before_skip": 0})


def _skip(tab: BarePage) -> None:
    tab.there("skip").click()
    tab.there("skip-yes").click()


def _ask(tab: BarePage) -> None:
    tab.ask("text", "It is neutral.")


def _write(tab: BarePage) -> None:
    tab.box("text").fill("Half of a text")


@pytest.mark.parametrize("act", [_ask, _write, _skip], ids=["asks", "writes", "skips"])
def test_a_window_with_a_text_that_was_skipped_elsewhere_shows_the_new_one(
    site: WorkSite, tab: BarePage, open_tab: OpenTab, act: Callable[[BarePage], None]
) -> None:
    hit = site.campaign.add_hit()
    tab.open(site, hit).ready()
    other = open_tab().open(site, hit).ready()
    _skip(tab)
    expect(tab.there("told")).to_have_text("Here is another text.")
    (work,) = site.campaign.rows(WorkSession)
    prompt = site.campaign.context_of(work).fields["prompt"]
    expect(other.there("editor")).not_to_contain_text(prompt)
    (before,) = site.campaign.rows(WorkItem)

    act(other)
    expect(other.there("trouble-text")).to_have_text(CHANGED)
    expect(other.there("editor")).to_contain_text(prompt)
    expect(other.box("text")).to_have_value("")
    (after,) = site.campaign.rows(WorkItem)
    assert (after.context_id, after.draft) == (before.context_id, {})
    assert site.campaign.rows(Attempt) == []

    other.ask("text", "It is neutral.")
    expect(other.there("tries")).to_have_text("3 of 4 attempts left")
    expect(other.there("trouble")).to_be_hidden()


def test_skipping_while_typing_shows_no_error(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    for number in range(3):
        (before,) = site.campaign.rows(WorkItem)
        tab.box("text").fill(f"Half of text {number}")
        _skip(tab)
        expect(tab.box("text")).to_have_value("")
        expect(tab.there("saved")).to_have_attribute("data-draft", "saved")
        (after,) = site.campaign.rows(WorkItem)
        assert (after.context_id != before.context_id, after.draft) == (True, {})
        expect(tab.there("trouble")).to_be_hidden()
