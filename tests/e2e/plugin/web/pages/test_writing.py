"""The page on which examples are written, in a real browser."""

import time

import pytest
from playwright.sync_api import expect

from round_manager.models import Attempt, AuditEntry, Duplicate, Example, WorkItem, WorkSession
from tests.campaign import MINUTE
from tests.e2e.plugin.web.pages.bare_page import BarePage, OpenSite, OpenTab
from tests.integration.plugin.web.work.work_site import WorkSite

NAUGHTY = '<img src=x onerror="window.hurt=1"> \u202e😀 "quotes" & שלום עולם'


@pytest.fixture
def site(open_site: OpenSite) -> WorkSite:
    """Positive sentences are asked for first; the model calls everything positive that names no other label."""
    return open_site(work={"tries": 4, "tries_before_skip": 2})


def test_examples_are_tried_changed_and_submitted_one_after_the_other(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site(work={"tries": 4, "tries_before_skip": 2, "examples_per_hit": 2})
    began = time.monotonic()
    tab.open(site, site.campaign.add_hit()).ready()
    site.campaign.clock.advance(5 * MINUTE)
    expect(tab.there("place")).to_have_text("Example 1 of 2")
    expect(tab.there("tries")).to_have_text("4 of 4 attempts left")
    expect(tab.there("submit")).to_be_disabled()
    tab.ask("text", "All was well.")
    tab.sees("not-fooled", "the model says Positive (75%)")
    expect(tab.there("tries")).to_have_text("3 of 4 attempts left")
    expect(tab.there("submit")).to_be_disabled()
    tab.box("text").fill("All was neutral, not well.")
    tab.sees("stale")
    tab.box("text").press("Shift+Enter")
    tab.sees("fooled", "You fooled the model!")
    expect(tab.page.locator("#verdict-said li")).to_contain_text(f"Model {site.campaign.version}")
    tab.keep("fooled")
    expect(tab.there("pay-reward")).to_have_text("$0.45")
    tab.box("why_right").fill("It was well.")
    half = time.monotonic()
    tab.there("submit").click()
    expect(tab.there("place")).to_have_text("Example 2 of 2")
    at_most_first = time.monotonic() - began
    expect(tab.there("pay-bonus")).to_contain_text("+ $0.60 once others agree")
    expect(tab.page.locator("#items button").first).to_have_attribute("aria-label", "Example 1 of 2, done")
    expect(tab.box("text")).to_have_value("")
    tab.box("text").fill("Nobody was positive about it.")
    # Label Studio's own button would be a second one for the same.
    expect(tab.page.get_by_role("button", name="Add")).to_have_count(0)
    tab.there("ask").click()
    tab.sees("fooled")
    tab.there("submit").click()
    tab.is_handed_in()
    first, second = site.campaign.rows(Example)
    assert first.fields["text"] == "All was neutral, not well."
    assert first.explanation == {"why_right": "It was well."}
    assert second.fooled
    (work,) = site.campaign.rows(WorkSession)
    assert 0 < first.active_ms <= at_most_first * 1_000
    assert 0 < second.active_ms <= (time.monotonic() - half) * 1_000
    assert first.active_ms + second.active_ms <= work.active_ms
    assert tab.forms == [{"assignmentId": "AS-h-1-W1", "session": work.public_id.hex}]
    assert tab.complaints == []


def test_a_text_that_earns_no_bonus_is_submitted_only_after_a_warning(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site(work={"tries": 4, "tries_before_skip": 2, "examples_per_hit": 2})
    tab.open(site, site.campaign.add_hit()).in_state("ready")
    expect(tab.there("new-texts")).to_contain_text("70%")
    tab.ready().ask("text", "All was neutral, not well.")
    tab.sees("fooled")
    tab.there("submit").click()
    expect(tab.there("place")).to_have_text("Example 2 of 2")
    tab.ask("text", "All was neutral, not well!")
    expect(tab.there("verdict-warning")).to_contain_text("All was neutral, not well.")
    assert tab.complaints == []
    for width in (1280, 375):
        tab.page.set_viewport_size({"width": width, "height": 800})
        tab.keep(f"warned-{width}")
    # The warning survives a reload, so that the worker who submits now has read it.
    tab.page.reload()
    expect(tab.ready().there("verdict-warning")).to_contain_text("All was neutral, not well.")
    tab.there("submit").click()
    tab.is_handed_in()
    assert [example.duplicate for example in site.campaign.rows(Example)] == [None, Duplicate.EXACT]


def test_a_text_that_another_worker_wrote_meanwhile_is_submitted_only_after_a_warning(
    open_site: OpenSite, tab: BarePage
) -> None:
    site = open_site(work={"examples_per_hit": 1})
    tab.open(site, site.campaign.add_hit()).ready().ask("text", "All was neutral, not well.")
    tab.sees("fooled")
    expect(tab.there("verdict-warning")).to_be_hidden()
    known = "ALL WAS NEUTRAL, not well"
    other = site.campaign.open_page("W-OTHER")
    site.campaign.ask_target(other, known)
    site.campaign.submit_example(other, known)
    site.campaign.confirm(site.campaign.finish_page(other))
    tab.there("submit").click()
    expect(tab.there("trouble-text")).to_contain_text("earns no bonus")
    expect(tab.there("trouble-text")).not_to_contain_text("ALL WAS")
    assert len(site.campaign.rows(Example)) == 1
    tab.there("trouble-again").click()
    tab.is_handed_in()
    assert [example.duplicate for example in site.campaign.rows(Example)] == [None, Duplicate.EXACT]


def test_a_reload_restores_unsent_text_and_the_last_verdict(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    tab.ask("text", "All was well.")
    tab.sees("not-fooled")
    tab.box("text").fill("All was so so.")
    tab.box("why_wrong").fill("It cannot count.")
    tab.has_saved()
    tab.page.reload()
    tab.ready()
    expect(tab.box("text")).to_have_value("All was so so.")
    expect(tab.box("why_wrong")).to_have_value("It cannot count.")
    tab.sees("stale", "the model says Positive (75%)")
    expect(tab.there("tries")).to_have_text("3 of 4 attempts left")
    tab.box("text").fill("All was well.")
    tab.sees("not-fooled")
    assert len(site.campaign.rows(Attempt)) == 1


def test_a_reload_right_after_typing_keeps_text_that_only_the_browser_has(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    tab.page.evaluate("() => { window.fetch = () => Promise.reject(new TypeError('no line')); }")
    tab.box("text").fill("Typed a moment ago.")
    tab.page.reload()
    tab.ready()
    expect(tab.box("text")).to_have_value("Typed a moment ago.")
    tab.has_saved()
    (item,) = site.campaign.rows(WorkItem)
    assert "Typed a moment ago." in str(item.draft)


def test_an_earlier_text_can_be_submitted_when_all_attempts_are_used(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site("qa", work={"tries": 2, "tries_before_skip": 2})
    tab.open(site, site.campaign.add_hit()).ready()
    (work,) = site.campaign.rows(WorkSession)
    first, *_, last = site.campaign.context_of(work).fields["passage"].split()
    tab.there("span").locator("summary").click()
    for answer, question in ((last, "What comes last?"), (first, "What comes first?")):
        tab.there("span-text").fill(answer)
        tab.there("span-mark").click()
        tab.ask("question", question)
        tab.sees("fooled" if answer == last else "not-fooled")
    expect(tab.there("ask")).to_be_disabled()
    tab.page.reload()
    tab.ready()
    tab.there("earlier").locator("summary").click()
    tab.page.get_by_role("button", name="Use again: attempt 1").click()
    tab.sees("fooled")
    expect(tab.box("question")).to_have_value("What comes last?")
    tab.there("submit").click()
    tab.is_handed_in()
    (example,) = site.campaign.rows(Example)
    assert (example.fields["question"], (example.answer or {})["text"]) == ("What comes last?", last)


def test_leaving_a_field_uses_no_attempt_and_the_same_text_is_sent_once(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    tab.box("text").fill("All was well.")
    tab.box("text").press("Shift+Enter")
    tab.sees("not-fooled")
    tab.box("text").fill("All was so so.")
    tab.box("why_wrong").focus()
    tab.sees("stale")
    tab.has_saved()
    tab.ask("text", "All was well.")
    expect(tab.there("told")).to_contain_text("no attempt was used")
    assert [one.fields["text"] for one in site.campaign.rows(Attempt)] == ["All was well."]


def test_the_page_reports_a_model_outage_and_retries_automatically(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    site.backend.stop()
    tab.ask("text", "It is neutral.")
    tab.sees("away", "no attempt was used, your text is kept, and we ask again ourselves")
    tab.keep("model-away")
    site.backend.start()
    tab.sees("fooled")
    expect(tab.box("text")).to_have_value("It is neutral.")
    expect(tab.there("tries")).to_have_text("3 of 4 attempts left")


def test_text_changed_during_a_model_outage_is_not_sent_automatically(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    site.backend.stop()
    tab.ask("text", "It is neutral.")
    tab.sees("away")
    tab.box("text").fill("It is neu")
    tab.sees("none", "You changed your text while we waited")
    site.backend.start()
    tab.there("ask").click()
    tab.sees("not-fooled")
    assert [one.fields["text"] for one in site.campaign.rows(Attempt)] == ["It is neu"]


def test_a_server_outage_loses_nothing_and_the_page_continues_afterwards(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    site.web.stop()
    tab.box("text").fill("It is neutral.")
    expect(tab.there("saved")).to_have_attribute("data-draft", "away")
    tab.there("ask").click()
    tab.sees("away", "We cannot be reached")
    site.web.start()
    tab.sees("fooled")
    site.web.stop()
    tab.there("submit").click()
    expect(tab.there("trouble")).to_contain_text("We cannot be reached")
    site.web.start()
    tab.is_handed_in()
    assert len(site.campaign.rows(Example)) == 1


def test_two_clicks_submit_once_and_the_back_button_shows_that_it_is_submitted(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    tab.ask("text", "It is neutral.")
    tab.sees("fooled")
    tab.there("submit").dblclick()
    tab.is_handed_in()
    assert len(tab.forms) == 1
    assert [one for one in tab.calls if "hand-in" in one or "finish" in one] == [
        "POST /items/0/hand-in",
        "POST /finish",
    ]
    tab.page.go_back()
    tab.in_state("submitted")
    tab.there("submit-again").click()
    tab.is_handed_in()
    assert tab.forms[0] == tab.forms[1]
    assert len(site.campaign.rows(Example)) == 1


def test_a_second_tab_shows_what_the_first_one_did(site: WorkSite, tab: BarePage, open_tab: OpenTab) -> None:
    hit = site.campaign.add_hit()
    tab.open(site, hit).ready()
    other = open_tab().open(site, hit).ready()
    tab.ask("text", "It is neutral.")
    tab.sees("fooled")
    other.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(other.there("tries")).to_have_text("3 of 4 attempts left")
    tab.there("submit").click()
    tab.is_handed_in()
    other.ask("text", "It is negative.")
    other.in_state("submitted")
    assert len(site.campaign.rows(Example)) == 1


def test_a_text_can_be_skipped_after_enough_attempts(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    expect(tab.there("skip")).to_be_disabled()
    expect(tab.there("skip-note")).to_have_text("after 2 more attempts")
    for number in range(2):
        tab.ask("text", f"Attempt {number}.")
        expect(tab.there("tries")).to_have_text(f"{3 - number} of 4 attempts left")
    (before,) = site.campaign.rows(WorkItem)
    tab.there("skip").click()
    tab.there("skip-reason").fill("Too dull.")
    tab.there("skip-yes").click()
    expect(tab.there("told")).to_have_text("Here is another text.")
    expect(tab.there("tries")).to_have_text("4 of 4 attempts left")
    expect(tab.box("text")).to_have_value("")
    expect(tab.box("text")).to_be_focused()
    tab.sees("none")
    (after,) = site.campaign.rows(WorkItem)
    assert after.context_id != before.context_id
    assert any("Too dull." in str(one.reason) for one in site.campaign.rows(AuditEntry))


def test_an_answer_is_selected_and_a_question_asked_with_the_keyboard(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site("qa")
    tab.open(site, site.campaign.add_hit()).ready()
    (work,) = site.campaign.rows(WorkSession)
    passage = site.campaign.context_of(work).fields["passage"]
    word = passage.split()[-1].strip(".")
    tab.there("span").locator("summary").press("Enter")
    tab.there("span-text").fill("these words are not there")
    tab.there("span-text").press("Enter")
    expect(tab.there("span-note")).to_contain_text("do not stand in the passage")
    tab.there("span-text").fill(word.upper())
    tab.there("span-text").press("Enter")
    expect(tab.there("span-note")).to_contain_text(f"“{word}”")
    expect(tab.page.locator("#editor .htx-highlight").first).to_have_text(word)
    tab.box("question").fill("What is it that comes last?")
    tab.box("question").press("Shift+Enter")
    tab.sees("fooled", f'your answer is "{word}"')
    tab.page.reload()
    tab.ready()
    tab.sees("fooled")
    tab.there("submit").press("Enter")
    tab.is_handed_in()
    (example,) = site.campaign.rows(Example)
    assert example.answer is not None
    assert example.answer["text"] == word


def test_typed_markup_is_shown_as_text(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    tab.ask("text", f"neutral {NAUGHTY}")
    tab.sees("fooled")
    tab.box("why_right").fill(NAUGHTY)
    tab.has_saved()
    tab.page.reload()
    tab.ready()
    expect(tab.box("text")).to_have_value(f"neutral {NAUGHTY}")
    expect(tab.box("text")).to_have_attribute("dir", "auto")
    tab.sees("fooled")
    tab.there("submit").click()
    tab.is_handed_in()
    (example,) = site.campaign.rows(Example)
    assert example.fields["text"] == f"neutral {NAUGHTY}"
    assert example.explanation == {"why_right": NAUGHTY}
    assert not tab.page.evaluate("window.hurt")
    assert tab.complaints == []


def test_after_the_deadline_the_page_says_what_to_do(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    expect(tab.there("timer")).to_contain_text(":")
    site.campaign.clock.advance(30 * MINUTE)
    tab.ask("text", "It is neutral.")
    tab.in_state("over")
    expect(tab.there("over-text")).to_contain_text("return it and take another one")
    assert site.campaign.rows(Attempt) == []


def test_when_the_round_closes_workers_can_still_submit_their_work(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    site.campaign.mark_closed()
    tab.ask("text", "It is neutral.")
    expect(tab.there("trouble")).to_contain_text("submit the HIT as it is")
    tab.there("submit").click()
    tab.is_handed_in()
    assert len(tab.forms) == 1


def test_a_refusal_is_explained_on_the_page(site: WorkSite, tab: BarePage) -> None:
    tab.open(site, site.campaign.add_hit()).ready()
    tab.there("ask").click()
    expect(tab.there("trouble")).to_contain_text("“Your sentence” is empty")
    tab.ask("text", "x" * 500)
    expect(tab.there("trouble")).to_contain_text("400")
    expect(tab.there("tries")).to_have_text("4 of 4 attempts left")
    tab.box("text").fill("Shorter.")
    expect(tab.there("trouble")).to_be_hidden()


def test_a_missing_field_gets_the_focus(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site("nli")
    tab.open(site, site.campaign.add_hit()).ready()
    tab.ask("hypothesis", "It is neutral.")
    tab.sees("fooled")
    tab.there("submit").click()
    expect(tab.there("trouble")).to_contain_text("“Why is your label right?” is empty")
    expect(tab.box("why_right")).to_be_focused()
    tab.box("why_right").fill("It says so.")
    tab.there("submit").click()
    tab.is_handed_in()
