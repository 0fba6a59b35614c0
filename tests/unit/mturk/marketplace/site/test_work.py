import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from flask.testing import FlaskClient

from mturk.marketplace.tables.work import AssignmentStatus
from mturk.marketplace.worker_actions import MAX_HELD
from tests.fakes.market import SITE, StillWorld
from tests.fakes.market_pages import accept_task, csrf, frame_address, has_code, submit_path

FIFTY_APPROVED = {
    "QualificationTypeId": "00000000000000000040",
    "Comparator": "GreaterThanOrEqualTo",
    "IntegerValues": [50],
}


def titles(page: str) -> list[str]:
    return [part.partition("</a>")[0].rpartition(">")[2] for part in page.split("<h2><a ")[1:]]


def next_after(browser: FlaskClient, assignment_id: str, *, keep_going: bool) -> str:
    data = {"csrf": csrf(browser.get("/account").text), **({"keep_going": "yes"} if keep_going else {})}
    location = str(browser.post(f"/work/{assignment_id}/next", data=data).location)
    # The page that follows says how much was submitted.
    return location.replace(f"&of={assignment_id}", "").removesuffix("?said=went_on")


def submit(browser: FlaskClient, assignment_id: str, **fields: str) -> int:
    response = browser.post(submit_path(browser, assignment_id), data={"assignmentId": assignment_id, **fields})
    return response.status_code


def test_a_visitor_who_is_not_signed_in_sees_the_welcome_page(world: StillWorld) -> None:
    page = world.site().test_client().get("/")
    assert (page.status_code, "<form" in page.text) == (200, False)


def test_work_is_listed_with_its_reward_time_and_number_of_tasks(world: StillWorld) -> None:
    world.post("Read a sentence", cents=125, seconds=5_400)
    world.post("Read a sentence", cents=125, seconds=5_400)
    page = world.sign_in(world.make_worker()).get("/").text
    assert titles(page) == ["Read a sentence"]
    for text in ("$1.25", "1 h 30 min", "<b>2</b> available", "Lab", "2 tasks for you now"):
        assert text in page


def test_work_is_sorted_and_searched_with_locked_groups_last(world: StillWorld) -> None:
    world.post("Old and cheap", cents=5, keywords="grammar")
    world.clock.advance(timedelta(hours=1))
    world.post("New and dear", cents=90)
    world.post("For the experienced", cents=500, requirements=[FIFTY_APPROVED])
    world.clock.advance(timedelta(hours=1))
    world.post("Newest", cents=10)
    browser = world.sign_in(world.make_worker())
    assert titles(browser.get("/").text) == ["Newest", "New and dear", "Old and cheap", "For the experienced"]
    assert titles(browser.get("/?sort=reward").text)[:3] == ["New and dear", "Newest", "Old and cheap"]
    assert titles(browser.get("/?q=GRAMMAR").text) == ["Old and cheap"]
    assert titles(browser.get("/?q=dear+new").text) == ["New and dear"]
    assert titles(browser.get("/?sort=<script>").text)[0] == "Newest"
    assert "Nothing matches “&lt;script&gt;”" in browser.get("/?q=<script>").text


def test_an_unqualified_worker_sees_why_and_no_accept_button(world: StillWorld) -> None:
    group = world.group_of(world.post(requirements=[FIFTY_APPROVED]).type_id)
    browser = world.sign_in(world.make_worker())
    for page in (browser.get("/").text, browser.get(f"/groups/{group}").text):
        assert "at least 50" in page
        assert "/accept" not in page
    response = browser.post(f"/groups/{group}/accept", data={"csrf": csrf(browser.get("/account").text)})
    assert (response.status_code, "at least 50" in response.text) == (403, True)


def lead(page: str) -> str:
    """Return the text above the list."""
    return " ".join(re.sub("<[^>]+>", "", page.partition("<h1>Find work</h1>")[2].partition("</div>")[0]).split())


def test_the_text_above_the_list_matches_the_list(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
    assert lead(browser.get("/").text) == "Nothing for you at the moment"
    world.post("For the experienced", requirements=[FIFTY_APPROVED])
    assert "needs a qualification that you do not have" in lead(browser.get("/").text)
    group = world.group_of(world.post("For all").type_id)
    assert lead(browser.get("/").text) == "1 task for you now"
    accept_task(browser, group)
    assert "needs a qualification that you do not have" in lead(browser.get("/").text)
    assert lead(browser.get("/").text).endswith("Finish the task in your queue")


def test_a_worker_who_holds_all_work_is_sent_to_the_queue(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
    accept_task(browser, world.group_of(world.post().type_id))
    page = browser.get("/").text
    assert lead(page) == "Nothing more for you at the moment Finish the task in your queue"
    assert '<a href="/queue">Finish' in page


def test_a_full_queue_is_announced_above_the_list(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
    hits = [world.post() for _ in range(MAX_HELD + 1)]
    group = world.group_of(hits[0].type_id)
    for _ in range(MAX_HELD):
        accept_task(browser, group)
    assert lead(browser.get("/").text).startswith("Your queue is full")


def test_a_locked_preview_shows_no_frame(world: StillWorld) -> None:
    group = world.group_of(world.post(requirements=[{**FIFTY_APPROVED, "ActionsGuarded": "PreviewAndAccept"}]).type_id)
    page = world.sign_in(world.make_worker()).get(f"/groups/{group}")
    assert page.status_code == 200
    assert "<iframe" not in page.text


def test_a_preview_has_no_assignment_and_accepts_none(world: StillWorld) -> None:
    hit = world.post()
    page = world.sign_in(world.make_worker()).get(f"/groups/{world.group_of(hit.type_id)}")
    assert parse_qs(urlsplit(frame_address(page.text)).query) == {
        "part": ["3"],
        "assignmentId": ["ASSIGNMENT_ID_NOT_AVAILABLE"],
        "hitId": [hit.id],
    }
    with world.market.read():
        assert "<b>1</b> available" in page.text


@pytest.mark.parametrize(
    ("page_url", "prefix"),
    [
        ("http://task.example:8000/a", "http://task.example:8000/a?assignmentId="),
        ("http://task.example", "http://task.example/?assignmentId="),
        ("https://task.example/a?", "https://task.example/a?assignmentId="),
        ("https://task.example/a?x=1&y=%2F+z", "https://task.example/a?x=1&y=%2F+z&assignmentId="),
        ("https://task.example/a?x=1#part", "https://task.example/a?x=1&assignmentId="),
    ],
)
def test_the_frame_gets_mturks_parameters_after_its_own(world: StillWorld, page_url: str, prefix: str) -> None:
    worker, hit = world.make_worker(), world.post(page_url=page_url)
    browser = world.sign_in(worker)
    assignment = accept_task(browser, world.group_of(hit.type_id))
    page = browser.get(f"/work/{assignment}")
    address = frame_address(page.text)
    assert address.startswith(prefix)
    parameters = parse_qs(urlsplit(address).query)
    assert parameters.pop("turkSubmitTo")[0].startswith(f"{SITE}/s/")
    assert {name: parameters[name] for name in ("assignmentId", "hitId", "workerId")} == {
        "assignmentId": [assignment],
        "hitId": [hit.id],
        "workerId": [worker.id],
    }
    assert urlsplit(address).fragment == urlsplit(page_url).fragment
    origin = "://".join(urlsplit(page_url)[:2])
    assert f"frame-src {origin} {SITE}" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("page_url", ["http://a..b.é/", f"http://{'é' * 80}/", "http://a;b/", "http://x:99999/"])
def test_a_page_with_an_invalid_url_is_not_framed(world: StillWorld, page_url: str) -> None:
    page = world.sign_in(world.make_worker()).get(f"/groups/{world.group_of(world.post(page_url=page_url).type_id)}")
    assert page.status_code == 200
    assert "frame-src 'none'" in page.headers["Content-Security-Policy"]


def test_an_accepted_task_is_in_the_queue_with_its_remaining_time(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
    assignment = accept_task(browser, world.group_of(world.post(seconds=600).type_id))
    world.clock.advance(timedelta(seconds=61))
    page = browser.get("/queue").text
    assert f"/work/{assignment}" in page
    assert "08:59" in page
    assert 'data-milliseconds-left="539000"' in browser.get(f"/work/{assignment}").text
    world.clock.advance(timedelta(seconds=539))
    assert "/work/" not in browser.get("/queue").text
    response = browser.get(f"/work/{assignment}")
    assert (response.status_code, has_code(response, "assignment_expired")) == (410, True)


def test_a_returned_task_goes_to_another_worker_with_the_same_assignment_id(world: StillWorld) -> None:
    ada, bob = world.sign_in(world.make_worker("Ada")), world.sign_in(world.make_worker("Bob"))
    group = world.group_of(world.post().type_id)
    assignment = accept_task(ada, group)
    response = bob.post(f"/groups/{group}/accept", data={"csrf": csrf(bob.get("/account").text)})
    assert (response.status_code, has_code(response, "no_work_left")) == (409, True)
    assert ada.get(f"/work/{assignment}/return").status_code == 200
    response = ada.post(f"/work/{assignment}/return", data={"csrf": csrf(ada.get("/account").text)})
    assert response.location == "/?said=returned"
    assert accept_task(bob, group) == assignment
    response = ada.get(f"/work/{assignment}")
    assert (response.status_code, has_code(response, "not_the_holder")) == (409, True)
    response = ada.post(f"/work/{assignment}/return", data={"csrf": csrf(ada.get("/account").text)})
    assert response.status_code == 409
    assert bob.get(f"/work/{assignment}").status_code == 200


def test_after_a_submission_the_next_task_is_accepted_until_none_is_left(world: StillWorld) -> None:
    browser, group = world.sign_in(world.make_worker()), ""
    for _ in range(2):
        group = world.group_of(world.post().type_id)
    first = accept_task(browser, group)
    assert submit(browser, first) == 200
    second = next_after(browser, first, keep_going=True).removeprefix("/work/")
    assert second != first
    assert browser.get(f"/work/{second}").status_code == 200
    assert submit(browser, second) == 200
    assert next_after(browser, second, keep_going=True) == "/?said=last"


def test_without_keep_going_the_next_task_is_previewed_and_the_choice_remembered(world: StillWorld) -> None:
    browser, group = world.sign_in(world.make_worker()), ""
    for _ in range(2):
        group = world.group_of(world.post().type_id)
    first = accept_task(browser, group)
    assert " checked>" in browser.get(f"/work/{first}").text
    submit(browser, first)
    assert next_after(browser, first, keep_going=False) == f"/groups/{group}?said=submitted"
    assert " checked>" not in browser.get(f"/work/{accept_task(browser, group)}").text


def test_continuing_before_submitting_returns_to_the_task(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
    assignment = accept_task(browser, world.group_of(world.post().type_id))
    assert next_after(browser, assignment, keep_going=True) == f"/work/{assignment}"
    assert world.assignment(assignment).status is AssignmentStatus.ACCEPTED


def test_requesters_texts_are_escaped(world: StillWorld) -> None:
    title, about = '"><script>alert(1)</script>', "<img src=x onerror=alert(1)>"
    group = world.group_of(world.post(title, description=about, page_url='http://task.example/?"><script>').type_id)
    browser = world.sign_in(world.make_worker("<b>Ada</b>"))
    pages = [browser.get("/"), browser.get(f"/groups/{group}"), browser.get(f"/work/{accept_task(browser, group)}")]
    for page in [*pages, browser.get("/queue"), browser.get("/account")]:
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert "<b>Ada" not in page.text


def test_a_page_url_cannot_add_security_directives(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
    group = world.group_of(world.post(page_url="http://task.example; frame-ancestors */page").type_id)
    policy = browser.get(f"/groups/{group}").headers["Content-Security-Policy"]
    assert policy.count("frame-ancestors") == 1
    assert "frame-ancestors 'none'" in policy


def test_a_frame_has_the_height_that_its_requester_asked_for(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
    tall = world.group_of(world.post("Tall", frame_height=1_800).type_id)
    assert 'data-height="1800"' in browser.get(f"/groups/{tall}").text
    assert "data-height" not in browser.get(f"/groups/{world.group_of(world.post('As it comes').type_id)}").text


@pytest.mark.parametrize("path", ["/nowhere", "/groups/X", "/work/X", "/work/X/return", "/pages/find.html", "/pages/x"])
def test_a_missing_page_is_shown_in_the_sites_layout_with_a_link(world: StillWorld, path: str) -> None:
    response = world.sign_in(world.make_worker()).get(path)
    assert response.status_code == 404
    assert 'class="top"' in response.text
    assert 'href="/">Find work' in response.text


def test_an_unexpected_error_shows_no_traceback(world: StillWorld, caplog: pytest.LogCaptureFixture) -> None:
    browser = world.sign_in(world.make_worker())
    world.market.now = lambda: 1 / 0  # type: ignore[assignment,return-value]
    response = browser.get("/queue")
    assert response.status_code == 500
    assert has_code(response, "server_error")
    assert "ZeroDivision" not in response.text
    assert "ZeroDivision" in caplog.text


def test_no_page_can_be_framed_cached_or_run_foreign_scripts(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
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


def test_a_submission_is_confirmed_with_what_is_in_review(world: StillWorld) -> None:
    ann, bob = (world.sign_in(world.make_worker(name)) for name in ("Ann", "Bob"))
    assignment = accept_task(ann, world.group_of(world.post(cents=45).type_id))
    confirmed = ann.post(submit_path(ann, assignment), data={"assignmentId": assignment}).text
    assert 'data-outcome="submitted"' in confirmed
    assert "$0.45 is in review" in confirmed
    assert "$0.45 is in review" in ann.get(f"/?said=last&of={assignment}").text
    # Other workers learn nothing of it.
    assert "$0.45" not in bob.get(f"/?said=last&of={assignment}").text
