"""The quiz: answered on the page, scored by the server, and a qualification for confirmed workers."""

from pathlib import Path

import pytest

from crowd.errors import CrowdUnavailable
from crowd.port import CrowdQualification
from plugin.web.background import Housekeeping
from round_manager.crowd.workers import WorkerAccess
from round_manager.models import HitKind, Lease, QualificationGrant, QuizResult, SessionStatus, WorkSession
from tests.campaign import MARKET, MINUTE
from tests.fakes.crowd import FakeCrowd
from tests.fakes.registry import eventually
from tests.integration.plugin.web.work.conftest import OpenSite
from tests.integration.plugin.web.work.work_site import Page, WorkSite

# One kind is enough: test_each_database.py tests what depends on the database.
pytestmark = pytest.mark.any_database


@pytest.fixture
def site(open_site: OpenSite) -> WorkSite:
    return open_site("nli")


def _right(site: WorkSite) -> list[int]:
    assert site.campaign.spec.quiz is not None
    return [one.answer for one in site.campaign.spec.quiz.questions]


def _quiz(site: WorkSite, worker: str = "W1") -> Page:
    return site.open(worker, kind=HitKind.QUIZ)


def test_the_questions_are_shown_without_their_answers(site: WorkSite) -> None:
    page = _quiz(site)
    item = page.state()["items"][0]
    assert set(item) == {"item", "question", "choices", "given"}
    assert page.setup["editor"] is None
    assert "explain" not in str(page.state()["items"])


def test_a_wrong_answer_is_explained_and_the_quiz_can_be_taken_again(site: WorkSite) -> None:
    page, right = _quiz(site), _right(site)
    assert page.state()["missing"] == "The quiz is not answered yet."
    wrong = [(answer + 1) % 2 for answer in right]
    said = page.post("/quiz", {"answers": wrong})
    assert said["passed"] is False
    assert said["attempts_left"] == 1
    assert all(said["explain"][number] for number in range(len(right)) if wrong[number] != right[number])
    assert page.post("/quiz", {"answers": wrong}) == said, "repeating the same answers uses no attempt"
    said = page.post("/quiz", {"answers": right})
    assert (said["passed"], said["right"], said["explain"]) == (True, said["of"], [None] * len(right))
    state = page.state()
    assert (state["quiz"], [one["given"] for one in state["items"]]) == (said, right)
    assert page.post("/items/0/report", {"text": "Question 2 has no right answer."}) == {}
    assert page.post("/finish")["submit"]["fields"]["session"]


def test_attempts_are_limited_and_failing_is_submitted_too(site: WorkSite) -> None:
    page, right = _quiz(site), _right(site)
    for shift in (1, 2):
        page.post("/quiz", {"answers": [(answer + shift) % 2 for answer in right[:-1]] + [shift]})
    assert page.refused("/quiz", {"answers": right})["code"] == "nothing_to_do"
    assert page.post("/finish")["submit"]


@pytest.mark.parametrize("answers", [None, "0000", [], [0], [9, 9, 9, 9], ["0", "0", "0", "0"], [True] * 4, [[0]] * 4])
def test_an_invalid_answer_uses_no_attempt(site: WorkSite, answers: object) -> None:
    page = _quiz(site)
    assert page.refused("/quiz", {"answers": answers})["kind"] == "refused"
    assert site.campaign.rows(QuizResult) == []


def test_chosen_answers_survive_a_reload_until_they_are_scored(site: WorkSite) -> None:
    page, right = _quiz(site), _right(site)
    chosen = [None, right[1], *[None] * (len(right) - 2)]
    assert page.put("/quiz/draft", {"answers": chosen}) == {}
    state = page.state()
    assert (state["quiz_is_open"], [one["given"] for one in state["items"]]) == (True, chosen)
    wrong = [(answer + 1) % 2 for answer in right]
    page.post("/quiz", {"answers": wrong})
    assert page.state()["quiz_is_open"] is False
    # A request on its way from before changes nothing that was scored.
    page.put("/quiz/draft", {"answers": wrong})
    assert (page.state()["quiz_is_open"], page.state()["quiz"]["passed"]) == (False, False)
    page.put("/quiz/draft", {"answers": right})
    state = page.state()
    assert (state["quiz_is_open"], [one["given"] for one in state["items"]]) == (True, right)
    page.post("/quiz", {"answers": right})
    page.put("/quiz/draft", {"answers": wrong})
    state = page.state()
    assert (state["quiz_is_open"], [one["given"] for one in state["items"]]) == (False, right)


@pytest.mark.parametrize("answers", [None, "0000", [], [0], [9, None, None, None], [True] * 4, [[0]] * 4])
def test_an_invalid_draft_is_not_stored(site: WorkSite, answers: object) -> None:
    page = _quiz(site)
    assert page.refused("/quiz/draft", {"answers": answers}, "PUT")["kind"] == "refused"
    assert [one["given"] for one in page.state()["items"]] == [None] * len(_right(site))


class AwayCrowd(FakeCrowd):
    """A marketplace that cannot be reached at first."""

    is_there = False

    def ensure_qualification(self, name: str, description: str) -> CrowdQualification:
        if not self.is_there:
            raise CrowdUnavailable("the marketplace does not answer")
        return super().ensure_qualification(name, description)


def _housekeeping(site: WorkSite, crowd: FakeCrowd, folder: Path, interval: float = 10.0) -> Housekeeping:
    campaign = site.campaign
    access = WorkerAccess(campaign.store, crowd, campaign.clock)
    return Housekeeping(lambda: campaign.services, MARKET, lambda: access, folder, interval)


def test_a_worker_who_passed_is_qualified_once_the_marketplace_confirms_them_and_only_then(
    site: WorkSite, tmp_path: Path
) -> None:
    page = _quiz(site)
    page.post("/quiz", {"answers": _right(site)})
    page.post("/finish")
    housekeeping = _housekeeping(site, FakeCrowd(site.campaign.clock.now), tmp_path)
    assert housekeeping.once() == 0, "an unconfirmed worker id can be forged"
    (work,) = site.campaign.rows(WorkSession)
    site.campaign.confirm(work)
    assert housekeeping.once() == 1
    assert housekeeping.once() == 0
    (grant,) = site.campaign.rows(QualificationGrant)
    assert (grant.worker_id, grant.score) == (work.worker_id, 100)


def test_an_unavailable_marketplace_is_retried_and_no_worker_waits_for_it(site: WorkSite, tmp_path: Path) -> None:
    crowd = AwayCrowd(site.campaign.clock.now)
    page = _quiz(site)
    assert page.post("/quiz", {"answers": _right(site)})["passed"] is True
    page.post("/finish")
    site.campaign.confirm(site.campaign.rows(WorkSession)[0])
    housekeeping = _housekeeping(site, crowd, tmp_path, interval=0.01)
    housekeeping.start()
    try:
        eventually(lambda: housekeeping.failing, "it has failed once")
        crowd.is_there = True
        eventually(lambda: site.campaign.rows(QualificationGrant), "it is tried again")
        eventually(lambda: not housekeeping.failing, "all is well again")
    finally:
        housekeeping.stop(10)


def test_abandoned_sessions_end_automatically(open_site: OpenSite, tmp_path: Path) -> None:
    site = open_site("sentiment")
    site.open("W1")
    site.campaign.clock.advance(30 * MINUTE)
    _housekeeping(site, FakeCrowd(site.campaign.clock.now), tmp_path).once()
    (work,) = site.campaign.rows(WorkSession)
    assert work.status is SessionStatus.EXPIRED
    assert all(lease.ended_at for lease in site.campaign.rows(Lease))


def test_only_a_quiz_takes_the_answers_of_one(site: WorkSite) -> None:
    site.campaign.add_example("AUTHOR")
    for kind in (HitKind.CREATE, HitKind.VALIDATE):
        told = site.open("W1", kind=kind).refused("/quiz", {"answers": _right(site)})
        assert (told["status"], told["code"]) == (409, "page_unknown")
    assert site.campaign.rows(QuizResult) == []
