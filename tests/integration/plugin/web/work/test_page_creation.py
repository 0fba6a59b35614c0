"""Writing an example through the page's calls."""

import json
from contextlib import suppress

import pytest

from plugin.web.work.access import PageLimits
from plugin.web.work.errors import SlowDown
from round_manager.models import Attempt, AuditEntry, Example, ExampleStatus, SessionStatus, WorkSession
from templates.payloads import Span
from tests.campaign import MINUTE
from tests.integration.plugin.web.work.conftest import OpenSite
from tests.integration.plugin.web.work.work_site import ODD_TIMES, WorkSite

# One kind is enough: test_each_database.py tests what depends on the database.
pytestmark = pytest.mark.any_database


def test_the_server_may_be_another_one_at_each_call(open_site: OpenSite) -> None:
    site = open_site("nli")
    page = site.open("W1")
    body = page.fooling()
    for call in ("/items/0/draft", "/items/0/tries", "/items/0/tries", "/items/0/hand-in", "/finish", "/finish"):
        site.restart()
        if call.endswith("draft"):
            page.put(call, body)
        else:
            page.post(call, body)
        site.restart()
        assert page.state()["items"][0]["draft"] == {"result": body["result"]}
    assert len(site.campaign.rows(Attempt)) == len(site.campaign.rows(Example)) == 1


def test_a_verdict_target_or_context_from_the_browser_is_ignored(site: WorkSite) -> None:
    page = site.open("W1")
    body = page.written("This is fine.")
    told = {"from_name": "feedback", "to_name": "prompt", "type": "textarea", "value": {"text": ["You fooled it!"]}}
    lies = {**body, "result": [*body["result"], told], "fooled": True, "target": "x", "context": {"prompt": "mine"}}
    verdict = page.post("/items/0/tries", lies)["verdict"]
    (attempt,) = site.campaign.rows(Attempt)
    assert verdict["fooled"] == attempt.fooled
    assert attempt.fields["prompt"] == page.state()["items"][0]["context"]["prompt"]
    assert "You fooled it!" not in str(attempt.fields)


def test_the_same_text_again_uses_no_attempt_and_asks_no_model(site: WorkSite) -> None:
    page = site.open("W1")
    body = page.fooling()
    first, second = page.post("/items/0/tries", body), page.post("/items/0/tries", body)
    assert (first["again"], second["again"]) == (False, True)
    assert second["verdict"] == first["verdict"]
    assert (second["tries_used"], len(site.predictor.asked)) == (1, 1)


def test_the_attempt_after_the_last_one_is_refused_and_the_rest_can_still_be_submitted(open_site: OpenSite) -> None:
    site = open_site("sentiment", work={"tries": 2, "tries_before_skip": 1})
    page = site.open("W1")
    bodies = [page.written(f"Text number {number}.") for number in range(3)]
    for body in bodies[:2]:
        page.post("/items/0/tries", body)
    told = page.refused("/items/0/tries", bodies[2])
    assert (told["status"], told["kind"], told["retry"]) == (409, "refused", False)
    assert told["code"] == "no_attempts_left"
    assert page.post("/items/0/tries", bodies[0])["again"] is True
    assert page.post("/items/0/hand-in", bodies[1])["done"] is True


def test_an_unavailable_model_uses_no_attempt_and_can_be_retried(site: WorkSite) -> None:
    page = site.open("W1")
    body = page.fooling()
    site.backend.stop()
    told = page.refused("/items/0/tries", body)
    assert (told["status"], told["kind"], told["retry"]) == (503, "away", True)
    assert told["code"] == "backend_unavailable"
    assert page.state()["items"][0]["tries_used"] == 0
    assert page.state()["items"][0]["draft"] == {"result": body["result"]}, "the text is kept"
    site.backend.start()
    assert page.post("/items/0/tries", body)["tries_used"] == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x" * 200_000, "text_too_long"),
        ("a\x00b", "invalid_input"),
        ("a\ud800b", "invalid_input"),
        ("   ", "invalid_input"),
    ],
    ids=["200 KB", "NUL", "half an emoji", "empty"],
)
def test_an_invalid_text_is_refused_in_one_sentence_without_querying_the_model(
    open_site: OpenSite, text: str, code: str
) -> None:
    site = open_site("nli")
    page = site.open("W1")
    for call in ("tries", "hand-in"):
        told = page.refused(f"/items/0/{call}", page.written(text))
        assert (told["status"], told["kind"], told["retry"]) == (409, "refused", False)
        if call == "tries":
            assert told["code"] == code
            assert "“Your sentence”" in told["error"], "the field's title, as the page shows it"
    assert site.predictor.asked == []
    assert page.state()["items"][0]["tries_used"] == 0


def test_a_deeply_nested_draft_is_refused(site: WorkSite) -> None:
    page = site.open("W1")
    body = page.written("A draft.")
    body["result"][0]["value"]["n"] = json.loads("[" * 101 + "]" * 101)
    assert page.refused("/items/0/draft", body, "PUT")["code"] == "invalid_input"


def test_a_draft_that_is_too_long_is_refused_and_the_one_before_is_kept(site: WorkSite) -> None:
    page = site.open("W1")
    kept = page.written("The first draft.")
    page.put("/items/0/draft", kept)
    assert page.refused("/items/0/draft", page.written("x" * 200_000), "PUT")["code"] == "text_too_long"
    assert page.state()["items"][0]["draft"] == {"result": kept["result"]}


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"{", b'{"result": 7}', b'{"result": [7]}', b'{"result": [' + b"[" * 50_000, b"\xff\xfe"],
)
def test_a_call_that_no_page_makes_is_refused(site: WorkSite, body: bytes) -> None:
    page = site.open("W1")
    for method, call in (("PUT", "draft"), ("POST", "tries"), ("POST", "hand-in"), ("POST", "judgement")):
        answer = page.call(method, f"/items/0/{call}", None, data=body)
        assert answer.status_code in (400, 409), answer.text
        assert answer.json()["kind"] == "refused"


def test_other_peoples_items_are_out_of_reach(site: WorkSite) -> None:
    page = site.open("W1")
    assert page.refused("/items/1/tries", page.fooling())["code"] == "page_unknown"
    assert page.refused(f"/items/{10**30}/draft", page.fooling(), "PUT")["code"] == "page_unknown"
    assert page.refused("/items/0/judgement", {"flag": "x"})["code"] == "page_unknown"


def test_a_context_is_skipped_after_enough_attempts_and_the_owner_reads_why(open_site: OpenSite) -> None:
    site = open_site("nli", work={"tries_before_skip": 1})
    page = site.open("W1")
    before = page.state()["items"][0]
    assert before["may_skip"] is False
    assert page.refused("/items/0/skip", {"reason": "dull", **page.mark()})["code"] == "more_attempts_needed"
    page.post("/items/0/tries", page.fooling())
    given_up = site.campaign.context_of(site.campaign.rows(WorkSession)[0]).key
    after = page.post("/items/0/skip", {"reason": "dull", **page.mark()})
    assert after["context"] != before["context"]
    assert (after["tries_used"], after["draft"], after["last"]) == (0, None, None)
    (told,) = [entry.reason for entry in site.campaign.rows(AuditEntry) if "dull" in entry.reason]
    assert told == f"skipped {given_up}: dull"


def test_a_text_that_was_not_judged_is_not_submitted(site: WorkSite) -> None:
    page = site.open("W1")
    page.post("/items/0/tries", page.fooling())
    told = page.refused("/items/0/hand-in", page.written("Something else."))
    assert told["code"] == "not_asked_yet"
    assert site.campaign.rows(Example) == []


def test_an_answer_is_the_piece_of_our_passage_that_was_marked(open_site: OpenSite) -> None:
    site = open_site("qa")
    page = site.open("W1")
    span = site.campaign.spec.with_role("span")[0].name
    made_up = page.written("Who?", 0, **{span: Span(0, "not in the passage at all")})
    assert page.refused("/items/0/tries", made_up)["code"] == "invalid_input"


def test_several_examples_are_requested_and_reported_one_by_one(open_site: OpenSite) -> None:
    site = open_site("sentiment", work={"examples_per_hit": 2})
    page = site.open("W1")
    assert page.state()["missing"] == "Not done yet: 1, 2."
    body = page.fooling(1)
    page.post("/items/1/tries", body)
    page.post("/items/1/hand-in", body)
    assert page.state()["missing"] == "Not done yet: 1."
    assert page.refused("/finish")["code"] == "hit_incomplete"


def test_a_late_submission_is_refused_and_nothing_is_lost(site: WorkSite) -> None:
    page = site.open("W1")
    body = page.fooling()
    page.post("/items/0/tries", body)
    site.campaign.clock.advance(30 * MINUTE)
    told = page.refused("/items/0/hand-in", body)
    assert (told["status"], told["kind"]) == (410, "over")
    assert page.refused("/finish")["kind"] == "over"
    assert page.state()["items"][0]["last"] is not None


def test_active_time_is_counted_and_never_more_than_has_passed(site: WorkSite) -> None:
    page = site.open("W1")
    site.campaign.clock.advance(MINUTE)
    page.post("/beat", {"active_ms": 40_000})
    page.post("/beat", {"active_ms": 10**9})
    (work,) = site.campaign.rows(WorkSession)
    assert work.active_ms == 60_000
    for odd in (*ODD_TIMES, None):
        assert page.refused("/beat", {"active_ms": odd})["status"] == 400


def test_each_example_has_its_own_time_without_that_of_skipped_texts(open_site: OpenSite) -> None:
    site = open_site("nli", work={"examples_per_hit": 2, "tries_before_skip": 1})
    page = site.open("W1")
    counts = iter((20_000, 50_000, 90_000))
    site.campaign.clock.advance(2 * MINUTE)
    page.post("/items/0/tries", page.fooling())
    page.post("/items/0/skip", {"reason": "", **page.mark(), "active_ms": next(counts)})
    for item in (0, 1):
        body = page.fooling(item)
        page.post(f"/items/{item}/tries", body)
        page.post(f"/items/{item}/hand-in", {**body, "active_ms": next(counts)})
    assert [example.active_ms for example in site.campaign.rows(Example)] == [30_000, 40_000]
    (work,) = site.campaign.rows(WorkSession)
    assert work.active_ms == page.state()["active_ms"] == 90_000


@pytest.mark.parametrize("odd", ODD_TIMES)
def test_an_invalid_time_is_refused_and_nothing_is_stored(open_site: OpenSite, odd: object) -> None:
    site = open_site("nli", work={"tries_before_skip": 1})
    page = site.open("W1")
    site.campaign.clock.advance(MINUTE)
    body = page.fooling()
    page.post("/items/0/tries", body)
    assert page.refused("/items/0/hand-in", {**body, "active_ms": odd})["status"] == 400
    assert page.refused("/items/0/skip", {"reason": "", **page.mark(), "active_ms": odd})["status"] == 400
    assert site.campaign.rows(Example) == []
    page.post("/items/0/hand-in", {**body, "active_ms": 10**9})
    (example,) = site.campaign.rows(Example)
    assert example.active_ms == 60_000, "at most the time that has passed"


def test_a_worker_who_asks_faster_than_people_do_has_to_wait(site: WorkSite) -> None:
    campaign = site.campaign
    page = site.open("W1")
    kinds = [page.call("POST", "/items/0/tries", page.written(f"Text {n}.")).status_code for n in range(9)]
    assert set(kinds) == {200}
    # Time stands still, so that no call is allowed again.
    site.limits = limits = PageLimits(lambda: 0.0)
    site.restart()
    (work,) = campaign.rows(WorkSession)
    with suppress(SlowDown):
        while True:
            limits.call(work.public_id)
    refused = page.call("GET", "/state")
    assert refused.status_code == 429
    assert refused.json()["kind"] == "slow_down"
    assert refused.headers["Retry-After"]
    assert site.open("W2", campaign.add_hit()).state()["status"] == "open"


def test_the_form_is_the_same_after_the_marketplace_has_confirmed(site: WorkSite) -> None:
    page = site.open("W1")
    body = page.fooling()
    page.post("/items/0/tries", body)
    page.post("/items/0/hand-in", body)
    form = page.post("/finish")
    (work,) = site.campaign.rows(WorkSession)
    site.campaign.confirm(work)
    assert page.post("/finish") == form
    assert page.state()["status"] == SessionStatus.CONFIRMED.value
    assert site.campaign.rows(Example)[0].status is not ExampleStatus.UNCONFIRMED
