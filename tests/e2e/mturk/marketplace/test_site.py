"""The worker site in a real browser, with the requester's page in a frame from another origin."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Page, Route, ViewportSize, expect

from mturk.marketplace.tables.work import AssignmentStatus
from tests.e2e.mturk.marketplace.conftest import DESK, PHONE, SiteWorld, fits, silent, task_in, write_and_submit

REVIEW = "I came for the view and stayed for the soup; my only complaint is that they close."


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_from_an_invitation_to_earnings(site: SiteWorld, size: ViewportSize) -> None:
    hit = site.post(cents=45)
    page = site.page(viewport=size)
    heard = silent(page)
    page.goto(site.link(site.worker("Ada")))
    expect(page.get_by_role("heading", name="Welcome, Ada")).to_be_visible()
    page.get_by_role("button", name="Start working").click()

    expect(page.get_by_text("1 task for you now")).to_be_visible()
    assert fits(page)
    page.get_by_role("link", name="Preview").click()
    expect(task_in(page).get_by_text("Accept the task to write your review.")).to_be_visible()
    assert fits(page)
    page.get_by_role("button", name="Accept and begin").click()

    timer = page.get_by_role("timer")
    expect(timer).to_have_text(re.compile(r"10:00|09:5\d"))
    expect(timer).not_to_have_text(str(timer.text_content()))
    assert fits(page)
    write_and_submit(page, REVIEW)
    expect(task_in(page).get_by_role("heading", name="Thank you")).to_be_visible()
    expect(page.get_by_text("That was the last one of its kind for you.")).to_be_visible()

    (work,) = site.submitted(hit)
    assert f"<FreeText>{REVIEW}</FreeText>" in work["Answer"]
    site.requester.approve_assignment(AssignmentId=work["AssignmentId"], RequesterFeedback="Well done")
    site.requester.send_bonus(
        WorkerId=work["WorkerId"],
        AssignmentId=work["AssignmentId"],
        BonusAmount="1.50",
        Reason="Two checkers agreed: you fooled the model.",
        UniqueRequestToken="bonus-1",
    )
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Earnings").click()
    expect(page.locator(".figure").first).to_contain_text("$1.95")
    expect(page.get_by_text("Two checkers agreed: you fooled the model.")).to_be_visible()
    expect(page.get_by_text("Well done")).to_be_visible()
    assert fits(page)
    assert heard.heard == []


def test_everything_works_with_the_keyboard_alone(site: SiteWorld) -> None:
    hit = site.post()
    page = site.page()
    page.goto(site.link(site.worker("Ada")))

    def press_tab_to(name: str) -> None:
        for _ in range(25):
            page.keyboard.press("Tab")
            label = page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent.trim()")
            if label.startswith(name):
                return
        pytest.fail(f"the keyboard does not reach {name}")

    press_tab_to("Start working")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Find work")).to_be_visible()
    press_tab_to("Skip to the content")
    page.keyboard.press("Enter")
    press_tab_to("Preview")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Accept and begin")).to_be_visible()
    press_tab_to("Accept and begin")
    page.keyboard.press("Enter")

    # The task has the keyboard as soon as it is there.
    review = task_in(page).get_by_label("Your review")
    expect(review).to_be_visible()
    expect(page.locator("iframe")).to_be_focused()
    page.keyboard.press("Tab")
    expect(review).to_be_focused()
    page.keyboard.type(REVIEW)
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(task_in(page).get_by_role("button", name="Submit")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("That was the last one of its kind for you.")).to_be_visible()
    assert len(site.submitted(hit)) == 1


def test_the_task_gets_the_keyboard_even_if_it_loads_before_the_pages_script(site: SiteWorld) -> None:
    site.post()
    page = site.signed_in(site.worker("Ada"))
    held_up: list[Route] = []
    page.route("**/work.js*", lambda route: held_up.append(route))
    page.get_by_role("button", name="Accept").first.click()
    expect(task_in(page).get_by_label("Your review")).to_be_visible()
    expect(page.locator("iframe")).not_to_be_focused()
    held_up[0].continue_()
    expect(page.locator("iframe")).to_be_focused()


def test_with_keep_going_the_next_task_opens_without_a_click(site: SiteWorld) -> None:
    hits = [site.post(), site.post()]
    page = site.signed_in(site.worker("Ada"))
    first = site.accepted(page)
    expect(page.get_by_label("Then take the next one")).to_be_checked()
    write_and_submit(page, "one")
    page.wait_for_url(lambda url: "/work/" in url and first not in url)
    expect(task_in(page).get_by_label("Your review")).to_be_empty()
    page.get_by_label("Then take the next one").uncheck()
    write_and_submit(page, "two")
    expect(page.get_by_text("That was the last one of its kind for you.")).to_be_visible()
    assert [len(site.submitted(hit)) for hit in hits] == [1, 1]


def test_a_returned_task_is_accepted_by_another_worker_under_the_same_id(site: SiteWorld) -> None:
    hit = site.post()
    ada, bob = site.signed_in(site.worker("Ada")), site.signed_in(site.worker("Bob"))
    assignment = site.accepted(ada)
    bob.goto(site.server.url)
    expect(bob.get_by_text("No work at the moment")).to_be_visible()

    ada.get_by_role("link", name="Return").click()
    ada.get_by_role("button", name="Keep working").click()
    expect(task_in(ada).get_by_label("Your review")).to_be_visible()
    ada.get_by_role("link", name="Return").click()
    ada.get_by_role("button", name="Return it").click()
    expect(ada.get_by_text("Returned. Someone else can take it now.")).to_be_visible()

    assert site.accepted(bob) == assignment
    ada.goto(f"{site.server.url}/work/{assignment}")
    expect(ada.get_by_role("heading", name="Someone else has this task")).to_be_visible()
    write_and_submit(bob, "from Bob")
    expect(bob.get_by_text("That was the last one")).to_be_visible()
    (work,) = site.submitted(hit)
    assert "from Bob" in work["Answer"]
    assert work["AssignmentId"] == assignment


def test_after_the_deadline_the_page_says_so_and_nothing_can_be_submitted(site: SiteWorld) -> None:
    hit = site.post(seconds=600)
    page, late = site.signed_in(site.worker("Ada")), site.page()
    page.clock.install()
    assignment = site.accepted(page)
    expect(page.get_by_role("alertdialog", name="Time is up")).to_be_hidden()
    posted_to = task_in(page).locator("form").get_attribute("action")
    page.clock.fast_forward(600_000)
    site.server.clock.advance(timedelta(seconds=600))
    expect(page.get_by_role("alertdialog", name="Time is up")).to_be_visible()
    expect(page.get_by_role("link", name="Look for another")).to_be_focused()

    # A page that was left open, or does not care.
    late.goto(f"{posted_to}?assignmentId={assignment}&text=late")
    expect(late.get_by_role("heading", name="The time for this task is over")).to_be_visible()
    assert site.submitted(hit) == []
    assert site.assignment(assignment).status is AssignmentStatus.FREE
    page.get_by_role("link", name="Look for another").click()
    expect(page.get_by_role("button", name="Accept and begin")).to_be_visible()


def test_a_task_open_in_two_tabs_is_submitted_once(site: SiteWorld) -> None:
    hit = site.post()
    page = site.signed_in(site.worker("Ada"))
    site.accepted(page)
    again = page.context.new_page()
    again.goto(page.url)
    expect(task_in(again).get_by_label("Your review")).to_be_visible()
    write_and_submit(page, "first")
    expect(page.get_by_text("That was the last one")).to_be_visible()
    write_and_submit(again, "second")
    expect(task_in(again).get_by_role("heading", name="You have already submitted this")).to_be_visible()
    task_in(again).get_by_role("link", name="Earnings").click()
    expect(again.get_by_role("heading", name="Earnings")).to_be_visible()
    (work,) = site.submitted(hit)
    assert "first" in work["Answer"]


def test_a_page_that_claims_another_worker_is_refused(site: SiteWorld) -> None:
    mallory = site.worker("Mallory")
    hit = site.post(query=f"forge={mallory.id}&round=2")
    page = site.signed_in(site.worker("Ada"))
    assignment = site.accepted(page)
    write_and_submit(page, "forged")
    expect(task_in(page).get_by_role("heading", name="Someone else has this task")).to_be_visible()
    assert site.submitted(hit) == []
    assert site.assignment(assignment).status is AssignmentStatus.ACCEPTED
    task_in(page).get_by_role("link", name="Your queue").click()
    expect(page.get_by_role("heading", name="Your queue")).to_be_visible()


def test_a_requesters_page_cannot_navigate_ours_or_impersonate_it(site: SiteWorld) -> None:
    site.post(query="steer=http%3A%2F%2F127.0.0.1%3A9%2Ffake")
    page = site.signed_in(site.worker("Ada"))
    site.accepted(page)
    here = page.url
    frame = page.frames[1]
    expect(task_in(page).locator("textarea")).to_be_visible()
    assert frame.title() == "refused"
    told = {"outfox": "submitted", "assignment": here.rpartition("/")[2]}
    frame.evaluate("told => { top.postMessage(told, '*'); top.postMessage({outfox: 'leave', to: '/'}, '*'); }", told)
    # Messages come in order: after this one, those before it were heard.
    page.evaluate("() => { addEventListener('message', ({data}) => { window.heard = data; }); }")
    frame.evaluate("top.postMessage('last', '*')")
    page.wait_for_function("window.heard === 'last'")
    assert page.get_by_role("status").all_text_contents() == [""]
    assert page.url == here


def test_a_double_click_accepts_one_task(site: SiteWorld) -> None:
    for _ in range(2):
        site.post()
    page = site.signed_in(site.worker("Ada"))
    page.get_by_role("button", name="Accept").dblclick()
    expect(task_in(page).get_by_label("Your review")).to_be_visible()
    page.goto(f"{site.server.url}/queue")
    expect(page.get_by_role("link", name="Work on")).to_have_count(1)


CONTRAST = """() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest(".hidden, noscript, iframe")) continue;
    const [one, two] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.className} ${element.textContent.trim().slice(0, 30)}`);
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_has_contrast_fits_the_window_and_does_not_shift(site: SiteWorld, scheme: str) -> None:
    ada = site.worker("Ada")
    for number in range(4):
        site.post(title=f"A title of some length that has to be broken somewhere, number {number}")
    page = site.signed_in(ada, viewport=PHONE, color_scheme=scheme)
    for decide in ("approve", "reject"):
        work = site.server.submit(site.assignment(site.accepted(page)))
        if decide == "approve":
            site.requester.approve_assignment(AssignmentId=work.id)
        else:
            site.requester.reject_assignment(AssignmentId=work.id, RequesterFeedback="no" * 100)
    site.requester.notify_workers(Subject="Hello", MessageText="word " * 50, WorkerIds=[ada.id])
    site.accepted(page)
    paths = ["/", "/?q=nothing", "/queue", "/earnings", "/messages", "/account", "/nowhere", page.url]
    for path in paths:
        _check_look(page, path if path.startswith("http") else site.server.url + path)
    page.context.clear_cookies()
    _check_look(page, site.server.url)
    _check_look(page, site.link(ada))


def _check_look(page: Page, url: str) -> None:
    page.goto(url)
    assert page.evaluate(CONTRAST) == [], url
    assert fits(page), url
    shift = """() => new Promise((done) => {
      let sum = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((one) => { sum += one.value; }))
        .observe({type: "layout-shift", buffered: true});
      requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
    })"""
    assert page.evaluate(shift) < 0.02, url
