"""The pages on which texts are checked and quizzes taken, in a real browser."""

import time

from playwright.sync_api import expect

from round_manager.models import AuditEntry, HitKind, QuizResult, WorkItem, WorkSession
from tests.campaign import MINUTE
from tests.e2e.plugin.web.pages.bare_page import BarePage, OpenSite, to_check


def test_texts_are_judged_or_flagged_in_any_order_and_submitted_together(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site()
    began = time.monotonic()
    tab.open(site, to_check(site, 3), "V1").ready()
    site.campaign.clock.advance(5 * MINUTE)
    expect(tab.there("submit")).to_have_text("Save and go on")
    tab.there("submit").click()
    expect(tab.there("trouble")).to_contain_text("Neither a label nor a flag is chosen")
    tab.page.get_by_role("radio", name="Positive").check()
    tab.there("submit").click()
    expect(tab.there("place")).to_have_text("Text 2 of 3")
    expect(tab.there("trouble")).to_be_hidden()
    tab.page.get_by_role("checkbox", name="The sentence makes no sense").check()
    tab.box("comment").fill("<b>What?</b>")
    tab.there("submit").click()
    expect(tab.there("place")).to_have_text("Text 3 of 3")
    once = site.campaign.rows(WorkItem)[0].active_ms
    tab.page.get_by_role("button", name="Text 1 of 3, done").click()
    expect(tab.page.get_by_role("radio", name="Positive")).to_be_checked()
    tab.page.get_by_role("radio", name="Negative").check()
    tab.there("submit").click()
    expect(tab.there("place")).to_have_text("Text 3 of 3")
    tab.page.get_by_role("radio", name="Neutral").check()
    expect(tab.there("submit")).to_have_text("Submit")
    tab.there("submit").click()
    tab.is_handed_in()
    said = [one.judgement or {} for one in site.campaign.rows(WorkItem)]
    assert [(one["label"], one["flag"], one["comment"]) for one in said] == [
        ("negative", None, None),
        (None, "The sentence makes no sense", "<b>What?</b>"),
        ("neutral", None, None),
    ]
    assert len(tab.forms) == 1
    times = [one.active_ms for one in site.campaign.rows(WorkItem)]
    assert min(times) > 0
    assert times[0] > once, "to change one's mind takes time, too"
    (work,) = site.campaign.rows(WorkSession)
    assert sum(times) <= work.active_ms <= (time.monotonic() - began) * 1_000
    site.campaign.confirm(work)
    assert [vote.active_ms for vote in site.campaign.votes()] == times


def test_checking_continues_where_it_was_after_a_reload(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site()
    tab.open(site, to_check(site, 2), "V1").ready()
    tab.page.get_by_role("radio", name="Positive").check()
    tab.there("submit").click()
    expect(tab.there("place")).to_have_text("Text 2 of 2")
    tab.page.get_by_role("radio", name="Neutral").check()
    tab.has_saved()
    tab.page.reload()
    tab.ready()
    expect(tab.there("place")).to_have_text("Text 2 of 2")
    expect(tab.page.get_by_role("radio", name="Neutral")).to_be_checked()


def test_a_quiz_explains_what_was_wrong_and_can_be_taken_again(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site("nli")
    tab.open(site, site.campaign.add_hit(HitKind.QUIZ)).ready()
    questions = tab.page.locator("#quiz fieldset")
    tab.there("submit").click()
    expect(tab.there("trouble")).to_contain_text("Question 1 is not answered yet")
    questions.first.get_by_role("radio").first.check()
    tab.has_saved()
    tab.page.evaluate("sessionStorage.clear()")
    tab.page.reload()
    expect(tab.ready().there("submit-note")).to_contain_text("1 of 4 answered")
    expect(questions.first.get_by_role("radio").first).to_be_checked()
    for number in range(4):
        questions.nth(number).get_by_role("radio").first.check()
    tab.there("submit").click()
    expect(tab.there("quiz-result")).to_have_attribute("data-passed", "false")
    expect(tab.there("quiz-result")).to_contain_text("2 of 4 right")
    expect(tab.there("quiz-result")).to_be_focused()
    expect(tab.page.locator("#quiz .explain:visible")).to_have_count(2)
    expect(tab.there("quiz-left")).to_have_text("1 attempt left")
    tab.keep("quiz")
    tab.page.reload()
    tab.ready()
    expect(tab.there("quiz-result")).to_contain_text("2 of 4 right")
    tab.there("quiz-again").click()
    for number, choice in enumerate((0, 1, 2, 0)):
        questions.nth(number).get_by_role("radio").nth(choice).check()
    tab.there("submit").click()
    expect(tab.there("quiz-result")).to_have_attribute("data-passed", "true")
    tab.there("submit").click()
    tab.is_handed_in()
    assert [one.passed for one in site.campaign.rows(QuizResult)] == [False, True]


def test_a_problem_is_reported_to_the_owner(open_site: OpenSite, tab: BarePage) -> None:
    site = open_site()
    tab.open(site, to_check(site, 1), "V1").ready()
    tab.there("report").click()
    tab.there("report-send").click()
    expect(tab.there("report-trouble")).to_contain_text("Write a sentence")
    tab.there("report-text").fill("There is no text.")
    tab.there("report-send").click()
    expect(tab.there("told")).to_contain_text("Thank you")
    expect(tab.there("report")).to_be_focused()
    assert "There is no text." in [one.reason for one in site.campaign.rows(AuditEntry)]
