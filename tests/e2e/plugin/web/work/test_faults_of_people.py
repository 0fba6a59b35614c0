"""Unexpected actions of workers: one clear message each, nothing lost, nothing doubled."""

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select

from round_manager.models import AuditEntry, HitKind, WorkSession
from tests.e2e.plugin.web.work.books import Stored, entries_of, next_to_be_checked, pay, stored, votes
from tests.e2e.plugin.web.work.conftest import Begin
from tests.e2e.plugin.web.work.hands import Mouse
from tests.e2e.plugin.web.work.hit_page import HitPage
from tests.e2e.plugin.web.work.stage import WorkStage
from tests.e2e.plugin.web.work.writing import Reader, Texts, assigned, newest_session

EMOJI = "I 👩‍👩‍👧‍👦 loved 🙃 it"
RIGHT_TO_LEFT = "\u05e9\u05dc\u05d5\u05dd \u202e\u05d8\u05d5\u05d1"
MARKUP = "<img src=x onerror='top.harmed = harmed = 1'><script>harmed = 1</script>&amp;<b>bold</b>\"'"
ODD = f"{EMOJI} {RIGHT_TO_LEFT} {MARKUP}"

# A script that ignores what the page allows.
ASK_ANYWAY = """async () => {
    const {api, token} = JSON.parse(document.getElementById("setup").textContent);
    const value = {text: ["One more, please."]};
    const result = [{from_name: "text", to_name: "prompt", type: "textarea", value}];
    const browser = localStorage.getItem("outfox.browser");
    const headers = {Authorization: `Bearer ${token}`, "X-Outfox-Browser": browser, "Content-Type": "application/json"};
    const [{mark}] = (await (await fetch(`${api}/state`, {headers})).json()).items;
    const body = JSON.stringify({result, mark});
    const answer = await fetch(`${api}/items/0/tries`, {method: "POST", headers, body});
    return {status: answer.status, ...await answer.json()};
}"""


@pytest.fixture
def stage(shared_stage: WorkStage) -> WorkStage:
    return shared_stage


def _texts(stage: WorkStage, reader: Reader, beginning: int) -> Texts:
    return reader.texts_for(assigned(stage, newest_session(stage)), beginning=beginning)


def test_a_double_click_submits_and_pays_once_and_the_link_expires(
    stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    hit = begin()
    work, texts, link = newest_session(stage), _texts(stage, reader, 3), hit.frame.url
    hit.ask("text", texts.fooling)
    hit.see("fooled")
    hit.there("ask").dblclick()
    hit.submit(twice=True)
    hit.expect_handed_in()
    pay(stage, "sentiment")
    assert stored(stage, work) == Stored(tries=1, examples=1, votes=0)
    assert [(one.kind, one.cents) for one in entries_of(stage, work) if one.sent_at] == [("reward", 45)]

    next_to_be_checked(stage, stage.examples()[-1])
    checking = begin(HitKind.VALIDATE)
    judged = newest_session(stage)
    checking.choose("Neutral")
    checking.submit(twice=True)
    checking.expect_handed_in()
    pay(stage, "sentiment")
    assert stored(stage, judged) == Stored(tries=0, examples=0, votes=1)
    assert [(one.kind, one.cents) for one in entries_of(stage, judged) if one.sent_at] == [("reward", 50)]

    other = checking.page
    other.goto(link.replace(f"assignmentId={work.claimed_assignment}", "assignmentId=ANOTHER"))
    expect(other.locator("#error-title")).to_have_text("This HIT cannot be opened")
    expect(other.locator("#error-text")).to_contain_text("did not confirm that you accepted this HIT")
    other.goto(link.replace("key=", "key=x"))
    expect(other.locator("#error-title")).to_have_text("This link does not work")
    other.screenshot(path=checking.keep("fault-link"))


def test_two_tabs_share_one_session(stage: WorkStage, begin: Begin, reader: Reader) -> None:
    first = begin()
    work, texts = newest_session(stage), _texts(stage, reader, 4)
    second = HitPage(Mouse(first.page.context.new_page()))
    second.page.goto(first.page.url)
    second.wait_until_ready()
    first.ask("text", texts.fooling)
    first.see("fooled")
    second.ask("text", texts.fooling)
    second.see("fooled")
    assert stored(stage, work) == Stored(tries=1, examples=0, votes=0)
    second.ask("text", texts.failing)
    second.see("not-fooled")
    expect(second.there("tries")).to_contain_text("1 of 3 attempts left")
    first.submit()
    first.expect_handed_in()
    second.submit()
    expect(second.body).to_have_attribute("data-state", "submitted")
    expect(second.inside.get_by_role("heading", name="Your work is submitted")).to_be_visible()
    second.keep("fault-two-tabs")
    stage.collect()
    assert stored(stage, work) == Stored(tries=2, examples=1, votes=0)
    assert stage.examples()[-1].fields["text"] == texts.fooling


def test_the_back_button_shows_that_the_hit_is_submitted_and_changes_nothing(
    stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    hit = begin()
    work, texts, link = newest_session(stage), _texts(stage, reader, 5), hit.frame.url
    hit.ask("text", texts.fooling)
    hit.see("fooled")
    hit.submit()
    hit.expect_handed_in()
    hit.page.go_back()
    expect(hit.page.get_by_text("already submitted this").or_(hit.page.get_by_text("work is not here"))).to_be_visible()
    hit.keep("fault-back-button")
    # Outside the marketplace's frame, the browser gives the page other storage, as to another browser.
    hit.page.goto(link)
    expect(hit.page.locator("body")).to_have_attribute("data-state", "error")
    expect(hit.page.locator("#error-text")).to_contain_text("open in another browser")
    hit.keep("fault-back-to-the-page")
    stage.collect()
    assert stored(stage, work) == Stored(tries=1, examples=1, votes=0)


def test_a_forged_worker_id_opens_no_page(stage: WorkStage, begin: Begin) -> None:
    victim, hit = stage.worker("Vic"), begin()
    before = len(stage.sessions())
    forged = hit.frame.url.replace(f"workerId={_worker_in(hit.frame.url)}", f"workerId={victim.id}")
    page: Page = hit.page.context.new_page()
    page.goto(forged)
    expect(page.locator("body")).to_have_attribute("data-state", "error")
    expect(page.locator("#error-text")).to_contain_text("did not confirm that you accepted this HIT")
    page.screenshot(path=hit.keep("fault-not-accepted"))
    assert len(stage.sessions()) == before


def test_reloading_the_marketplaces_page_or_the_frame_keeps_draft_and_consent(
    stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    hit = begin()
    work, texts = newest_session(stage), _texts(stage, reader, 6)
    hit.ask("text", texts.fooling)
    hit.see("fooled")
    hit.page.reload()
    hit.wait_until_ready()
    hit.see("fooled")
    with hit.page.expect_event("framenavigated"):
        hit.frame.evaluate("location.reload()")
    hit.wait_until_ready()
    hit.see("fooled")
    hit.submit()
    hit.expect_handed_in()
    stage.collect()
    assert stored(stage, work) == Stored(tries=1, examples=1, votes=0)


def test_after_the_deadline_the_page_says_so_and_accepts_no_work(
    stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    hit = begin()
    work, texts = newest_session(stage), _texts(stage, reader, 7)
    hit.ask("text", texts.fooling)
    hit.see("fooled")
    with stage.store.write() as session:
        session.get_one(WorkSession, work.id).expires_at = stage.clock.now()
    hit.submit()
    expect(hit.body).to_have_attribute("data-state", "over")
    expect(hit.inside.get_by_text("The time for this HIT is over; return it and take another one.")).to_be_visible()
    hit.keep("fault-time-over")
    assert stored(stage, work) == Stored(tries=1, examples=0, votes=0)


def test_after_the_last_attempt_the_page_says_so_and_an_earlier_text_can_be_submitted(
    stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    hit = begin()
    work, texts = newest_session(stage), _texts(stage, reader, 8)
    for number, text in enumerate((texts.failing, f"{texts.failing} Really.", texts.fooling), 1):
        hit.ask("text", text)
        expect(hit.there("tries")).to_contain_text(f"{3 - number} of 3 attempts left")
    hit.ask("text", "One more, please.")
    expect(hit.there("ask")).to_be_disabled()
    expect(hit.there("submit-note")).to_have_text("Submit a text that you asked about, or skip.")
    told = hit.frame.evaluate(ASK_ANYWAY)
    assert (told["status"], told["kind"]) == (409, "refused")
    assert told["error"] == "All 3 attempts for this example are used; submit one of your texts, or skip this one."
    hit.keep("fault-last-try")
    assert stored(stage, work) == Stored(tries=3, examples=0, votes=0)
    hit.write("text", texts.fooling)
    hit.see("fooled")
    hit.submit()
    hit.expect_handed_in()
    assert stored(stage, work) == Stored(tries=3, examples=1, votes=0)


def test_a_text_of_200_kilobytes_is_refused_and_stays_on_the_page(
    stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    hit = begin()
    work, texts, long = newest_session(stage), _texts(stage, reader, 9), "long " * 40_000
    hit.ask("text", long)
    expect(hit.there("trouble-text")).to_have_text("“Your sentence” has 200,000 characters; at most 400 are accepted.")
    expect(hit.box("text")).to_have_value(long)
    hit.keep("fault-200-kb")
    assert stored(stage, work) == Stored(tries=0, examples=0, votes=0)
    hit.ask("text", texts.fooling)
    hit.see("fooled")
    expect(hit.there("trouble")).to_be_hidden()


def test_emoji_right_to_left_text_and_markup_are_stored_as_typed_in_every_field(
    stage: WorkStage, begin: Begin, reader: Reader
) -> None:
    hit = begin()
    work = newest_session(stage)
    hit.ask("text", ODD)
    expect(hit.there("tries")).to_contain_text("2 of 3 attempts left")
    hit.write("why_right", f"{ODD} 1")
    hit.write("why_wrong", f"{ODD} 2")
    hit.there("report").click()
    hit.there("report-text").fill(f"{ODD} 3")
    hit.there("report-send").click()
    expect(hit.there("told")).to_contain_text("Thank")
    hit.keep("fault-odd-texts")
    hit.expect_saved()
    hit.page.reload()
    hit.wait_until_ready()
    expect(hit.box("text")).to_have_value(ODD)
    expect(hit.box("why_wrong")).to_have_value(f"{ODD} 2")
    hit.submit()
    hit.expect_handed_in()
    stage.collect()
    (example,) = [one for one in stage.examples() if one.session_id == work.id]
    assert example.fields["text"] == ODD
    assert example.explanation == {"why_right": f"{ODD} 1", "why_wrong": f"{ODD} 2"}
    with stage.store.read() as session:
        assert f"{ODD} 3" in set(session.scalars(select(AuditEntry.reason)))

    # Whether the model was fooled does not matter here: the example is validated in any case.
    next_to_be_checked(stage, example)
    checking = begin(HitKind.VALIDATE)
    expect(checking.editor).to_contain_text(ODD)
    checking.choose("Positive")
    checking.write("comment", f"{ODD} 4")
    checking.keep("fault-odd-texts-judged")
    checking.submit()
    checking.expect_handed_in()
    stage.collect()
    (vote,) = [one for one in votes(stage) if one.example_id == example.id]
    assert (vote.label, vote.comment) == ("positive", f"{ODD} 4")
    for page in (hit.page, checking.page):
        assert page.evaluate("typeof harmed") == "undefined"


def _worker_in(url: str) -> str:
    return url.partition("workerId=")[2].partition("&")[0]
