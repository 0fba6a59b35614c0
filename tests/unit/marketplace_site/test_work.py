import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from flask.testing import FlaskClient

from mturk.marketplace.tables.work import AssignmentStatus
from mturk.marketplace.worker_actions import MAX_HELD
from tests.unit.marketplace_site.stage import SITE, Stage, accepted, csrf, frame_address, has_code, submit_path

FIFTY_APPROVED = {
    "QualificationTypeId": "00000000000000000040",
    "Comparator": "GreaterThanOrEqualTo",
    "IntegerValues": [50],
}


def titles(page: str) -> list[str]:
    return [part.partition("</a>")[0].rpartition(">")[2] for part in page.split("<h2><a ")[1:]]


def next_after(browser: FlaskClient, assignment_id: str, *, keep_going: bool) -> str:
    data = {"csrf": csrf(browser.get("/account").text), **({"keep_going": "yes"} if keep_going else {})}
    return str(browser.post(f"/work/{assignment_id}/next", data=data).location)


def hand_in(browser: FlaskClient, assignment_id: str, **fields: str) -> int:
    answer = browser.post(submit_path(browser, assignment_id), data={"assignmentId": assignment_id, **fields})
    return answer.status_code


def test_a_visitor_who_is_not_signed_in_is_told_how_to_come_in(stage: Stage) -> None:
    page = stage.site().test_client().get("/")
    assert (page.status_code, "personal invitation link" in page.text) == (200, True)


def test_work_is_listed_with_what_it_pays_how_long_it_may_take_and_how_much_there_is(stage: Stage) -> None:
    stage.post("Read a sentence", cents=125, seconds=5_400)
    stage.post("Read a sentence", cents=125, seconds=5_400)
    page = stage.signed_in(stage.worker()).get("/").text
    assert titles(page) == ["Read a sentence"]
    for told in ("$1.25", "1 h 30 min", "<b>2</b> available", "Lexicon Lab", "2 tasks for you now, in 1 group"):
        assert told in page


def test_work_is_sorted_and_searched_and_what_cannot_be_taken_comes_last(stage: Stage) -> None:
    stage.post("Old and cheap", cents=5, keywords="grammar")
    stage.clock.advance(timedelta(hours=1))
    stage.post("New and dear", cents=90)
    stage.post("For the experienced", cents=500, requirements=[FIFTY_APPROVED])
    stage.clock.advance(timedelta(hours=1))
    stage.post("Newest", cents=10)
    browser = stage.signed_in(stage.worker())
    assert titles(browser.get("/").text) == ["Newest", "New and dear", "Old and cheap", "For the experienced"]
    assert titles(browser.get("/?sort=reward").text)[:3] == ["New and dear", "Newest", "Old and cheap"]
    assert titles(browser.get("/?q=GRAMMAR").text) == ["Old and cheap"]
    assert titles(browser.get("/?q=dear+new").text) == ["New and dear"]
    assert titles(browser.get("/?sort=<script>").text)[0] == "Newest"
    assert "Nothing matches “&lt;script&gt;”" in browser.get("/?q=<script>").text


def test_who_is_not_qualified_sees_why_and_gets_no_button(stage: Stage) -> None:
    group = stage.group_of(stage.post(requirements=[FIFTY_APPROVED]))
    browser = stage.signed_in(stage.worker())
    for page in (browser.get("/").text, browser.get(f"/groups/{group}").text):
        assert "at least 50" in page
        assert "/accept" not in page
    answer = browser.post(f"/groups/{group}/accept", data={"csrf": csrf(browser.get("/account").text)})
    assert (answer.status_code, "at least 50" in answer.text) == (403, True)


def lead(page: str) -> str:
    """What is said above the list."""
    return " ".join(re.sub("<[^>]+>", "", page.partition("<h1>Find work</h1>")[2].partition("</div>")[0]).split())


def test_what_is_said_above_the_list_is_true_of_what_is_listed(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    assert lead(browser.get("/").text) == "Nothing for you at the moment"
    stage.post("For the experienced", requirements=[FIFTY_APPROVED])
    needs = "Nothing that you can take now. 1 group needs a qualification that you do not have; see below."
    moment = "A qualification that you have just earned may take a moment to be granted."
    assert lead(browser.get("/").text) == f"{needs} {moment}"
    stage.post("For others", cents=50, requirements=[FIFTY_APPROVED])
    assert "2 groups need a qualification" in lead(browser.get("/").text)
    group = stage.group_of(stage.post("For all"))
    assert lead(browser.get("/").text) == "1 task for you now, in 1 group"
    accepted(browser, group)
    assert lead(browser.get("/").text).endswith(f"see below. {moment} You have 1 task to finish in your queue.")


def test_who_has_all_there_is_in_the_queue_is_led_there(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    accepted(browser, stage.group_of(stage.post()))
    page = browser.get("/").text
    assert lead(page) == "Nothing more for you at the moment You have 1 task to finish in your queue."
    assert '<a href="/queue">your queue</a>' in page


def test_who_holds_as_much_as_one_may_is_told_before_they_try(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    hits = [stage.post() for _ in range(MAX_HELD + 1)]
    group = stage.group_of(hits[0])
    for _ in range(MAX_HELD):
        accepted(browser, group)
    assert lead(browser.get("/").text).startswith("Your queue is full")


def test_a_preview_that_is_closed_shows_no_frame(stage: Stage) -> None:
    group = stage.group_of(stage.post(requirements=[{**FIFTY_APPROVED, "ActionsGuarded": "PreviewAndAccept"}]))
    page = stage.signed_in(stage.worker()).get(f"/groups/{group}")
    assert page.status_code == 200
    assert "<iframe" not in page.text


def test_a_preview_carries_no_assignment_and_takes_none(stage: Stage) -> None:
    hit = stage.post()
    page = stage.signed_in(stage.worker()).get(f"/groups/{stage.group_of(hit)}")
    assert parse_qs(urlsplit(frame_address(page.text)).query) == {
        "part": ["3"],
        "assignmentId": ["ASSIGNMENT_ID_NOT_AVAILABLE"],
        "hitId": [hit.id],
    }
    with stage.market.read():
        assert "<b>1</b> available" in page.text


@pytest.mark.parametrize(
    ("page_url", "begins"),
    [
        ("http://task.example:8000/a", "http://task.example:8000/a?assignmentId="),
        ("http://task.example", "http://task.example/?assignmentId="),
        ("https://task.example/a?", "https://task.example/a?assignmentId="),
        ("https://task.example/a?x=1&y=%2F+z", "https://task.example/a?x=1&y=%2F+z&assignmentId="),
        ("https://task.example/a?x=1#part", "https://task.example/a?x=1&assignmentId="),
    ],
)
def test_the_frame_gets_mturks_parameters_behind_whatever_the_address_has(
    stage: Stage, page_url: str, begins: str
) -> None:
    worker, hit = stage.worker(), stage.post(page_url=page_url)
    browser = stage.signed_in(worker)
    assignment = accepted(browser, stage.group_of(hit))
    page = browser.get(f"/work/{assignment}")
    address = frame_address(page.text)
    assert address.startswith(begins)
    told = parse_qs(urlsplit(address).query)
    assert told.pop("turkSubmitTo")[0].startswith(f"{SITE}/s/")
    assert {name: told[name] for name in ("assignmentId", "hitId", "workerId")} == {
        "assignmentId": [assignment],
        "hitId": [hit.id],
        "workerId": [worker.id],
    }
    assert urlsplit(address).fragment == urlsplit(page_url).fragment
    origin = "://".join(urlsplit(page_url)[:2])
    assert f"frame-src {origin} {SITE}" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("page_url", ["http://a..b.é/", f"http://{'é' * 80}/", "http://a;b/", "http://x:99999/"])
def test_a_page_that_no_browser_finds_is_shown_as_nothing(stage: Stage, page_url: str) -> None:
    page = stage.signed_in(stage.worker()).get(f"/groups/{stage.group_of(stage.post(page_url=page_url))}")
    assert page.status_code == 200
    assert "frame-src 'none'" in page.headers["Content-Security-Policy"]


def test_an_accepted_task_waits_in_the_queue_with_the_time_that_is_left(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    assignment = accepted(browser, stage.group_of(stage.post(seconds=600)))
    stage.clock.advance(timedelta(seconds=61))
    page = browser.get("/queue").text
    assert f"/work/{assignment}" in page
    assert "08:59" in page
    assert 'data-milliseconds-left="539000"' in browser.get(f"/work/{assignment}").text
    stage.clock.advance(timedelta(seconds=539))
    assert "Your queue is empty" in browser.get("/queue").text
    answer = browser.get(f"/work/{assignment}")
    assert (answer.status_code, has_code(answer, "assignment_expired")) == (410, True)


def test_a_returned_task_goes_to_another_worker_with_the_same_assignment_id(stage: Stage) -> None:
    ada, bob = stage.signed_in(stage.worker("Ada")), stage.signed_in(stage.worker("Bob"))
    group = stage.group_of(stage.post())
    assignment = accepted(ada, group)
    answer = bob.post(f"/groups/{group}/accept", data={"csrf": csrf(bob.get("/account").text)})
    assert (answer.status_code, has_code(answer, "no_work_left")) == (409, True)
    assert "Return this task?" in ada.get(f"/work/{assignment}/return").text
    answer = ada.post(f"/work/{assignment}/return", data={"csrf": csrf(ada.get("/account").text)})
    assert answer.location == "/?said=returned"
    assert accepted(bob, group) == assignment
    answer = ada.get(f"/work/{assignment}")
    assert (answer.status_code, has_code(answer, "not_the_holder")) == (409, True)
    answer = ada.post(f"/work/{assignment}/return", data={"csrf": csrf(ada.get("/account").text)})
    assert answer.status_code == 409
    assert bob.get(f"/work/{assignment}").status_code == 200


def test_after_a_task_the_next_of_its_group_is_taken_and_after_the_last_the_list_is_shown(stage: Stage) -> None:
    browser, group = stage.signed_in(stage.worker()), ""
    for _ in range(2):
        group = stage.group_of(stage.post())
    first = accepted(browser, group)
    assert hand_in(browser, first) == 200
    second = next_after(browser, first, keep_going=True).removeprefix("/work/")
    assert second != first
    assert browser.get(f"/work/{second}").status_code == 200
    assert hand_in(browser, second) == 200
    assert next_after(browser, second, keep_going=True) == "/?said=last"


def test_who_does_not_want_to_keep_going_gets_a_preview_and_is_remembered(stage: Stage) -> None:
    browser, group = stage.signed_in(stage.worker()), ""
    for _ in range(2):
        group = stage.group_of(stage.post())
    first = accepted(browser, group)
    assert " checked>" in browser.get(f"/work/{first}").text
    hand_in(browser, first)
    assert next_after(browser, first, keep_going=False) == f"/groups/{group}?said=submitted"
    assert " checked>" not in browser.get(f"/work/{accepted(browser, group)}").text


def test_a_task_that_was_not_handed_in_leads_back_to_itself(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    assignment = accepted(browser, stage.group_of(stage.post()))
    assert next_after(browser, assignment, keep_going=True) == f"/work/{assignment}"
    assert stage.assignment(assignment).status is AssignmentStatus.ACCEPTED


def test_what_a_requester_writes_is_shown_as_text(stage: Stage) -> None:
    title, about = '"><script>alert(1)</script>', "<img src=x onerror=alert(1)>"
    group = stage.group_of(stage.post(title, description=about, page_url='http://task.example/?"><script>'))
    browser = stage.signed_in(stage.worker("<b>Ada</b>"))
    pages = [browser.get("/"), browser.get(f"/groups/{group}"), browser.get(f"/work/{accepted(browser, group)}")]
    for page in [*pages, browser.get("/queue"), browser.get("/account")]:
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert "<b>Ada" not in page.text


def test_an_address_cannot_add_rules_to_our_own(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    group = stage.group_of(stage.post(page_url="http://task.example; frame-ancestors */page"))
    policy = browser.get(f"/groups/{group}").headers["Content-Security-Policy"]
    assert policy.count("frame-ancestors") == 1
    assert "frame-ancestors 'none'" in policy


def test_a_frame_is_as_high_as_its_requester_asks(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    tall = stage.group_of(stage.post("Tall", frame_height=1_800))
    assert 'data-height="1800"' in browser.get(f"/groups/{tall}").text
    assert "data-height" not in browser.get(f"/groups/{stage.group_of(stage.post('As it comes'))}").text


@pytest.mark.parametrize("path", ["/nowhere", "/groups/X", "/work/X", "/work/X/return", "/pages/find.html", "/pages/x"])
def test_whatever_is_not_there_is_told_in_the_sites_own_look_with_a_way_on(stage: Stage, path: str) -> None:
    answer = stage.signed_in(stage.worker()).get(path)
    assert answer.status_code == 404
    assert 'class="top"' in answer.text
    assert 'href="/">Find work' in answer.text


def test_a_failure_of_ours_shows_no_traceback(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    browser = stage.signed_in(stage.worker())
    stage.market.now = lambda: 1 / 0  # type: ignore[assignment,return-value]
    answer = browser.get("/queue")
    assert answer.status_code == 500
    assert has_code(answer, "server_error")
    assert "ZeroDivision" not in answer.text
    assert "ZeroDivision" in caplog.text


def test_no_page_of_ours_can_be_framed_cached_or_run_foreign_scripts(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    for path in ("/", "/queue", "/earnings", "/messages", "/account", "/nowhere"):
        headers = browser.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "script-src 'self';" in policy
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
    file = browser.get("/").text.partition('rel="stylesheet" href="')[2].partition('"')[0]
    assert "max-age=31536000" in browser.get(file).headers["Cache-Control"]
    assert "max-age=0" in browser.get(file.partition("?")[0]).headers["Cache-Control"]
