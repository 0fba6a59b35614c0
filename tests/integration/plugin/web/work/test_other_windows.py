"""Several windows of one worker: each acts only on the text that it shows."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from round_manager.models import Attempt, Example, HitKind, WorkItem
from tests.fakes.target import Hold
from tests.integration.plugin.web.work.conftest import OpenSite
from tests.integration.plugin.web.work.work_site import Page, WorkSite

CALLS = [("PUT", "draft"), ("POST", "tries"), ("POST", "hand-in"), ("POST", "skip")]
CHANGED = {
    "error": "This example has another text now; here it is.",
    "code": "other_text",
    "hint": None,
    "kind": "changed",
    "retry": False,
    "status": 409,
}


@pytest.fixture
def site(open_site: OpenSite) -> WorkSite:
    return open_site("nli", work={"tries_before_skip": 0})


def _skip(page: Page, **body: Any) -> dict[str, Any]:
    return page.post("/items/0/skip", {**page.mark(), **body})


@pytest.mark.any_database
@pytest.mark.parametrize(("method", "call"), CALLS)
def test_a_window_that_shows_a_skipped_text_changes_nothing_and_is_reported(
    site: WorkSite, method: str, call: str
) -> None:
    page = site.open("W1")
    stale = site.open("W1", page.hit).fooling()
    now = _skip(page)
    assert now["mark"] != stale["mark"]
    kept = page.written("A draft for the new text.")
    page.put("/items/0/draft", kept)
    assert page.refused(f"/items/0/{call}", stale, method) == CHANGED
    (item,) = page.state()["items"]
    assert (item["context"], item["draft"]) == (now["context"], {"result": kept["result"]})
    assert site.campaign.rows(Attempt) == site.campaign.rows(Example) == site.predictor.asked == []


def test_the_same_text_with_another_target_is_another_one(site: WorkSite) -> None:
    page = site.open("W1")
    stale = page.fooling()
    (row,) = site.campaign.rows(WorkItem)
    with site.campaign.store.write() as session:
        session.get_one(WorkItem, row.id).label = next(
            name for name in site.campaign.spec.label_names if name != row.label
        )
    assert page.refused("/items/0/tries", stale) == CHANGED


@pytest.mark.any_database
def test_a_mark_stays_the_same_while_its_text_does(site: WorkSite) -> None:
    page = site.open("W1")
    body = page.fooling()
    page.post("/items/0/tries", body)
    assert page.post("/items/0/hand-in", body)["mark"] == body["mark"]
    site.restart()
    assert page.mark() == site.open("W1", page.hit).mark() == {"mark": body["mark"]}


@pytest.mark.any_database
def test_a_text_skipped_while_the_model_runs_is_reported_and_uses_no_attempt(site: WorkSite) -> None:
    hold = Hold()
    site.predictor._before = hold
    page = site.open("W1")
    body = page.fooling()
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(page.refused, "/items/0/tries", body)
        hold.wait_for(1)
        _skip(page)
        hold.open()
        assert asking.result(30) == CHANGED
    assert page.state()["items"][0]["tries_used"] == 0
    assert site.campaign.rows(Attempt) == []


def test_two_windows_that_skip_at_once_skip_once(site: WorkSite) -> None:
    page = site.open("W1")
    body = page.mark()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: page.call("POST", "/items/0/skip", body), range(4)))
    assert sorted(one.status_code for one in answers) == [200, 409, 409, 409]


@pytest.mark.any_database
@pytest.mark.parametrize(("method", "call"), CALLS)
@pytest.mark.parametrize("mark", [{}, {"mark": None}, {"mark": 7}, {"mark": ["x"]}], ids=str)
def test_a_call_that_does_not_say_what_its_page_shows_is_refused(
    site: WorkSite, method: str, call: str, mark: dict[str, Any]
) -> None:
    page = site.open("W1")
    told = page.refused(f"/items/0/{call}", {"result": page.fooling()["result"], **mark}, method)
    assert (told["status"], told["kind"]) == (400, "refused")
    assert page.state()["items"][0]["draft"] is None


@pytest.mark.any_database
def test_validation_items_need_no_mark(site: WorkSite) -> None:
    site.campaign.add_example("AUTHOR")
    page = site.open("W1", kind=HitKind.VALIDATE)
    (item,) = page.state()["items"]
    assert "mark" not in item
    page.put("/items/0/draft", {"result": page.result(label="entailment")})
