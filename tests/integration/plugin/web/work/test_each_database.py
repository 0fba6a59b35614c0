"""Behaviour of the pages that may depend on the database: every workflow, concurrency, and unusual texts."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from round_manager.models import Attempt, AuditEntry, Example, ExampleStatus, Vote, WorkSession
from tests.conftest import PACKS
from tests.fakes.target import Hold
from tests.integration.plugin.web.work.conftest import OpenSite
from tests.integration.plugin.web.work.test_page_validation import validating
from tests.integration.plugin.web.work.work_site import SUBMIT_TO, WorkSite

ODD_TEXTS = {
    "emoji": "I loved it 🥹👩‍👩‍👧‍👦",
    "right to left": "\u202e\u05e9\u05dc\u05d5\u05dd!\u202c",
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>&amp;",
    "quotes": 'it\'s "fine" \\u0000 {{ 7*7 }} ${x}',
}


@pytest.mark.parametrize("name", PACKS)
def test_from_an_attempt_to_the_form_that_submits(open_site: OpenSite, name: str) -> None:
    site = open_site(name)
    page = site.open("W1")
    state = page.state()
    assert state["missing"] == "Not done yet: 1."
    assert state["items"][0]["task"].items() >= state["items"][0]["context"].items()
    body = page.fooling()

    said = page.post("/items/0/tries", body)
    verdict = said["verdict"]
    assert (verdict["fooled"], said["tries_used"], said["again"], verdict["number"]) == (True, 1, False, 1)
    assert verdict["said"][0]["version"] == site.campaign.version
    assert verdict["message"]
    assert page.state()["items"][0]["last"] == verdict

    item = page.post("/items/0/hand-in", body)
    assert (item["done"], item["tries_used"]) == (True, 1)
    state = page.state()
    assert state["missing"] is None
    assert state["earned"] == {"reward_cents": 45, "bonus_cents": site.campaign.spec.pay.fooled_bonus_cents}
    form = page.post("/finish")["submit"]
    assert form["url"] == f"{SUBMIT_TO}/mturk/externalSubmit"
    assert form["fields"]["assignmentId"] == f"AS-{page.hit.key}"

    (example,) = site.campaign.rows(Example)
    assert (example.status, example.fooled) == (ExampleStatus.UNCONFIRMED, True)
    assert page.state()["status"] == "submitted"


def test_a_double_click_and_a_second_tab_are_one_attempt_one_example_and_one_form(site: WorkSite) -> None:
    page = site.open("W1")
    tab = site.open("W1", page.hit)
    body = page.fooling()
    with ThreadPoolExecutor(4) as pool:
        for call in ("/items/0/tries", "/items/0/hand-in", "/finish"):
            answers = list(pool.map(lambda one, call=call: one.call("POST", call, body), [page, tab, page, tab]))
            assert [one.status_code for one in answers] == [200] * 4, [one.text for one in answers]
            assert len({str(one.json().get("submit")) for one in answers}) == 1
    assert (
        len(site.campaign.rows(Attempt))
        == len(site.campaign.rows(Example))
        == len(site.campaign.rows(WorkSession))
        == 1
    )


def test_while_the_model_thinks_no_other_worker_has_to_wait(site: WorkSite) -> None:
    hold = Hold()
    site.predictor._before = hold
    page, other = site.open("W1"), site.open("W2")
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(page.post, "/items/0/tries", page.fooling())
        hold.wait_for(1)
        other.put("/items/0/draft", other.written("A text."))
        hold.open()
        assert asking.result(30)["tries_used"] == 1


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
def test_texts_are_returned_unchanged(open_site: OpenSite, text: str) -> None:
    site = open_site("nli", work={"tries_before_skip": 0})
    page = site.open("W1")
    body = page.written(text, why_right=f"{text} why", why_wrong=f"{text} wrong")
    page.put("/items/0/draft", body)
    page.post("/items/0/tries", body)
    page.post("/items/0/hand-in", body)
    page.post("/items/0/report", {"text": text})
    assert page.state()["items"][0]["draft"] == {"result": body["result"]}
    (example,) = site.campaign.rows(Example)
    assert (example.fields["hypothesis"], example.explanation["why_right"]) == (text, f"{text} why")
    assert text in [entry.reason for entry in site.campaign.rows(AuditEntry)]
    raw = site.get(page.hit, assignmentId=f"AS-{page.hit.key}", workerId="W1", turkSubmitTo=SUBMIT_TO).text
    assert "<script>alert" not in raw


def test_a_judgement_is_kept_can_be_changed_and_votes_once_the_worker_is_confirmed(open_site: OpenSite) -> None:
    site, page = validating(open_site)
    names = site.campaign.spec.label_names
    for item, label in ((0, names[0]), (1, names[1]), (0, names[1])):
        body = {"result": page.result(label=label, comment="<b>clear</b>")}
        given = page.post(f"/items/{item}/judgement", body)
        assert (given["done"], given["given"]["label"], given["given"]["comment"]) == (True, label, "<b>clear</b>")
        assert given["draft"] == body
    assert page.post("/finish") == page.post("/finish")
    assert site.campaign.rows(Vote) == []
    (work,) = site.campaign.rows(WorkSession)
    site.campaign.confirm(work)
    assert [vote.label for vote in site.campaign.rows(Vote)] == [names[1], names[1]]


def test_a_reload_finds_the_same_session_and_another_worker_gets_another(site: WorkSite) -> None:
    hit = site.campaign.add_hit(max_assignments=2)
    for worker in ("W1", "W1", "W2"):
        site.open(worker, hit, assignmentId=f"A-{worker}")
    assert len(site.campaign.rows(WorkSession)) == 2
