"""Judging examples through the page's calls."""

import json

import pytest

from round_manager.models import Example, HitKind, Vote, WorkItem, WorkSession
from templates.payloads import Span
from tests.campaign import MINUTE
from tests.integration.plugin.web.work.conftest import OpenSite
from tests.integration.plugin.web.work.work_site import ODD_TIMES, Page, WorkSite

# One kind is enough: test_each_database.py tests what depends on the database.
pytestmark = pytest.mark.any_database


def validating(open_site: OpenSite, name: str = "sentiment", count: int = 2) -> tuple[WorkSite, Page]:
    site = open_site(name, validation={"gold_rate": 0.0}, work={"validations_per_hit": count})
    for number in range(count):
        site.campaign.add_example(f"AUTHOR{number}")
    return site, site.open("V1", kind=HitKind.VALIDATE)


def test_examples_are_shown_without_author_target_or_model_output(open_site: OpenSite) -> None:
    site, page = validating(open_site)
    state = page.state()
    assert set(state["items"][0]) == {"item", "task", "done", "given", "draft", "flag_reasons"}
    assert set(state["items"][0]["task"]) == set(site.campaign.spec.model_input)
    told = json.dumps(state)
    for secret in ("author", 'AUTHOR0"', site.campaign.version, "confidence", "verdict", "fooled"):
        assert secret not in told


def test_each_vote_has_its_own_time_and_changing_a_judgement_adds_to_it(open_site: OpenSite) -> None:
    site, page = validating(open_site)
    body = {"result": page.result(label=site.campaign.spec.label_names[0])}
    site.campaign.clock.advance(MINUTE)
    for item, count in ((0, 10_000), (1, 25_000), (0, 32_000)):
        page.post(f"/items/{item}/judgement", {**body, "active_ms": count})
    page.post("/finish")
    (work,) = site.campaign.rows(WorkSession)
    site.campaign.confirm(work)
    assert [vote.active_ms for vote in site.campaign.rows(Vote)] == [17_000, 15_000]


@pytest.mark.parametrize("odd", ODD_TIMES)
def test_an_invalid_time_is_refused_with_its_judgement(open_site: OpenSite, odd: object) -> None:
    site, page = validating(open_site)
    body = {"result": page.result(label=site.campaign.spec.label_names[0]), "active_ms": odd}
    assert page.refused("/items/0/judgement", body)["status"] == 400
    first, _ = site.campaign.rows(WorkItem)
    assert (first.judgement, first.active_ms) == (None, None)


def test_a_flag_needs_one_of_the_tasks_reasons_and_may_have_a_comment(open_site: OpenSite) -> None:
    site, page = validating(open_site)
    reason = page.state()["items"][0]["flag_reasons"][0]
    given = page.post("/items/0/judgement", {"flag": reason, "comment": "\u05e9\u05dc\u05d5\u05dd 🙂"})
    assert (given["given"]["flag"], given["given"]["comment"]) == (reason, "\u05e9\u05dc\u05d5\u05dd 🙂")
    assert page.refused("/items/1/judgement", {"flag": "I feel so", "comment": ""})["code"] == "invalid_input"
    assert site.campaign.rows(WorkItem)[1].judgement is None


@pytest.mark.parametrize(
    "body",
    [
        {"flag": None, "comment": None},
        {"flag": 7},
        {"result": []},
        {"result": [{"from_name": "label", "value": {"choices": ["made up"]}}]},
        {"result": [{"from_name": "label", "value": {"choices": ["positive", "negative"]}}]},
        {"flag": "x", "comment": "y" * 200_000},
        {"flag": "x", "comment": "a\x00b"},
    ],
)
def test_an_invalid_judgement_is_refused(open_site: OpenSite, body: dict[str, object]) -> None:
    site, page = validating(open_site, count=1)
    told = page.refused("/items/0/judgement", body)
    assert (told["status"] in (400, 409), told["kind"]) == (True, "refused")
    assert site.campaign.rows(WorkItem)[0].judgement is None


def test_a_question_is_answered_with_a_piece_of_the_passage(open_site: OpenSite) -> None:
    site, page = validating(open_site, "qa", 1)
    span = site.campaign.spec.with_role("span")[0].name
    passage = page.state()["items"][0]["task"]["passage"]
    word = passage.split()[1]
    given = page.post("/items/0/judgement", {"result": page.result(**{span: Span(passage.index(word), word)})})
    assert given["given"]["answer"]["text"] == word


def test_a_validation_page_accepts_no_texts(open_site: OpenSite) -> None:
    site, page = validating(open_site, count=1)
    body = {"result": page.result(label=site.campaign.spec.label_names[0]), "mark": "any"}
    for call in ("tries", "hand-in", "skip"):
        assert page.refused(f"/items/0/{call}", body)["code"] == "page_unknown"
    assert len(site.campaign.rows(Example)) == 1
