"""A page belongs to the browser that opened it: with a worker's ids alone, another person gets nothing of it."""

from dataclasses import replace

import pytest
import requests

from round_manager.work.browsers import QUIET, SEEN_EVERY
from tests.campaign import MINUTE
from tests.integration.plugin.web.work.work_site import SUBMIT_TO, Page, WorkSite, setup_in

OTHER = "the-key-of-another-browser"
PATIENCE = 30

# One kind is enough: nothing here depends on the database.
pytestmark = pytest.mark.any_database


def in_other_browser(page: Page) -> Page:
    """Open the page as a person does who knows the ids in its address."""
    claim = {"assignmentId": f"AS-{page.hit.key}", "hitId": "H", "workerId": "W1", "turkSubmitTo": SUBMIT_TO}
    answer = requests.get(page.site.claimed_address(page.hit, **claim), timeout=PATIENCE)
    return replace(page, setup=setup_in(answer), browser=OTHER)


def with_draft(site: WorkSite) -> tuple[Page, dict[str, object]]:
    page = site.open("W1")
    body = page.fooling()
    page.put("/items/0/draft", body)
    return page, body


def is_refused(page: Page, body: object) -> bool:
    """Whether the page can neither be read nor changed."""
    read = page.refused("/state", method="GET")
    written = page.refused("/items/0/draft", body, "PUT")
    return {read["code"], written["code"]} == {"page_in_other_browser"} and read["status"] == 409


def test_another_browser_with_a_copied_token_reads_and_changes_nothing(site: WorkSite) -> None:
    page, body = with_draft(site)
    assert is_refused(replace(page, browser=OTHER), page.written("overwritten"))
    assert page.state()["items"][0]["draft"] == {"result": body["result"]}


def test_a_call_without_a_key_is_refused(site: WorkSite) -> None:
    page = site.open("W1")
    for key in ("", "short", "x" * 65, "a key with spaces in it"):
        assert replace(page, browser=key).refused("/state", method="GET")["code"] == "page_gone"


def test_a_reload_and_a_second_tab_of_the_same_browser_see_the_same_page(site: WorkSite) -> None:
    page, body = with_draft(site)
    second = site.open("W1", page.hit)
    assert second.state()["items"][0]["draft"] == page.state()["items"][0]["draft"] == {"result": body["result"]}


def test_opening_the_hit_again_on_the_marketplace_moves_the_page_with_its_draft(site: WorkSite) -> None:
    page, body = with_draft(site)
    site.campaign.clock.advance(MINUTE)
    moved = replace(site.open("W1", page.hit), browser=OTHER)
    assert moved.state()["items"][0]["draft"] == {"result": body["result"]}
    assert is_refused(page, body)


def test_a_proof_that_was_used_does_not_move_the_page(site: WorkSite) -> None:
    page, body = with_draft(site)
    site.campaign.clock.advance(2 * QUIET)
    assert is_refused(replace(page, browser=OTHER), body)


def test_where_nothing_is_proven_another_browser_waits_while_the_page_is_used(unproven_site: WorkSite) -> None:
    page, body = with_draft(unproven_site)
    other = in_other_browser(page)
    assert is_refused(other, body)
    for _ in range(3):
        unproven_site.campaign.clock.advance(QUIET / 2)
        page.post("/beat", {"active_ms": 1})
        assert is_refused(other, body)


def test_after_a_quiet_time_it_is_a_guest_that_sees_and_replaces_nothing_that_was_typed(
    unproven_site: WorkSite,
) -> None:
    page, body = with_draft(unproven_site)
    page.post("/items/0/tries", body)
    other = in_other_browser(page)
    unproven_site.campaign.clock.advance(QUIET + SEEN_EVERY)
    shown = other.state()["items"][0]
    assert (shown["draft"], shown["verdicts"], shown["last"]) == (None, [], None)
    assert shown["tries_used"] == 1
    own = other.written("Something else that is negative")
    assert other.put("/items/0/draft", own) == {"stored": False}
    assert other.post("/items/0/tries", own)["tries_used"] == 2
    assert page.state()["items"][0]["draft"] == {"result": body["result"]}


def test_a_worker_who_changed_the_device_can_complete_the_hit(unproven_site: WorkSite) -> None:
    page = unproven_site.open("W1")
    page.state()
    unproven_site.campaign.clock.advance(QUIET + SEEN_EVERY)
    other = in_other_browser(page)
    body = other.fooling()
    other.post("/items/0/tries", body)
    assert other.post("/items/0/hand-in", body)["done"]
    assert other.post("/finish")["submit"]["fields"]["assignmentId"] == f"AS-{page.hit.key}"


def test_a_guest_leaves_when_the_pages_own_browser_is_back(unproven_site: WorkSite) -> None:
    page, body = with_draft(unproven_site)
    other = in_other_browser(page)
    unproven_site.campaign.clock.advance(QUIET + SEEN_EVERY)
    other.state()
    assert page.state()["items"][0]["draft"] == {"result": body["result"]}
    assert is_refused(other, body)


def test_a_page_whose_time_was_over_belongs_to_the_browser_that_starts_it_again(unproven_site: WorkSite) -> None:
    page, _ = with_draft(unproven_site)
    unproven_site.campaign.clock.advance(30 * MINUTE)
    again = in_other_browser(page)
    assert again.state()["items"][0]["draft"] is None
    assert page.refused("/state", method="GET")["code"] == "page_in_other_browser"
