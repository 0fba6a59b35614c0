"""The quiz: answered on the page, scored by the server, and a qualification for confirmed workers."""

from pathlib import Path

import pytest

from crowd.errors import CrowdUnavailable
from crowd.port import CrowdQualification
from plugin.web.background import Housekeeping
from round_manager.crowd.workers import WorkerAccess
from round_manager.models import HitKind, Lease, QualificationGrant, QuizResult, SessionStatus, WorkSession
from tests.fakes.crowd import FakeCrowd
from tests.fakes.registry import eventually
from tests.integration.databases import Databases
from tests.integration.plugin.web.work.conftest import OpenOffice
from tests.integration.plugin.web.work.office import Office, Page
from tests.integration.round_manager.work.floor import MARKET, MINUTE


@pytest.fixture(scope="session")
def databases(any_databases: Databases) -> Databases:
    """One kind is enough: test_each_database.py tests what depends on the database."""
    return any_databases


@pytest.fixture
def office(open_office: OpenOffice) -> Office:
    return open_office("nli")


def _right(office: Office) -> list[int]:
    assert office.floor.spec.quiz is not None
    return [one.answer for one in office.floor.spec.quiz.questions]


def _quiz(office: Office, worker: str = "W1") -> Page:
    return office.open(worker, kind=HitKind.QUIZ)


def test_the_questions_are_shown_without_their_answers(office: Office) -> None:
    page = _quiz(office)
    item = page.state()["items"][0]
    assert set(item) == {"item", "question", "choices", "given"}
    assert page.setup["editor"] is None
    assert "explain" not in str(page.state()["items"])


def test_a_wrong_answer_is_explained_and_the_quiz_can_be_taken_again(office: Office) -> None:
    page, right = _quiz(office), _right(office)
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


def test_attempts_are_limited_and_failing_is_submitted_too(office: Office) -> None:
    page, right = _quiz(office), _right(office)
    for shift in (1, 2):
        page.post("/quiz", {"answers": [(answer + shift) % 2 for answer in right[:-1]] + [shift]})
    assert page.refused("/quiz", {"answers": right})["code"] == "nothing_to_do"
    assert page.post("/finish")["submit"]


@pytest.mark.parametrize("answers", [None, "0000", [], [0], [9, 9, 9, 9], ["0", "0", "0", "0"], [True] * 4, [[0]] * 4])
def test_an_invalid_answer_uses_no_attempt(office: Office, answers: object) -> None:
    page = _quiz(office)
    assert page.refused("/quiz", {"answers": answers})["kind"] == "refused"
    assert office.floor.rows(QuizResult) == []


class AwayCrowd(FakeCrowd):
    """A marketplace that cannot be reached at first."""

    is_there = False

    def ensure_qualification(self, name: str, description: str) -> CrowdQualification:
        if not self.is_there:
            raise CrowdUnavailable("the marketplace does not answer")
        return super().ensure_qualification(name, description)


def _housekeeping(office: Office, crowd: FakeCrowd, folder: Path, interval: float = 10.0) -> Housekeeping:
    floor = office.floor
    access = WorkerAccess(floor.store, crowd, floor.clock)
    return Housekeeping(lambda: floor.services, MARKET, lambda: access, folder, interval)


def test_a_worker_who_passed_is_qualified_once_the_marketplace_confirms_them_and_only_then(
    office: Office, tmp_path: Path
) -> None:
    page = _quiz(office)
    page.post("/quiz", {"answers": _right(office)})
    page.post("/finish")
    housekeeping = _housekeeping(office, FakeCrowd(office.floor.clock.now), tmp_path)
    assert housekeeping.once() == 0, "an unconfirmed worker id can be forged"
    (work,) = office.floor.rows(WorkSession)
    office.floor.confirm(work)
    assert housekeeping.once() == 1
    assert housekeeping.once() == 0
    (grant,) = office.floor.rows(QualificationGrant)
    assert (grant.worker_id, grant.score) == (work.worker_id, 100)


def test_an_unavailable_marketplace_is_retried_and_no_worker_waits_for_it(office: Office, tmp_path: Path) -> None:
    crowd = AwayCrowd(office.floor.clock.now)
    page = _quiz(office)
    assert page.post("/quiz", {"answers": _right(office)})["passed"] is True
    page.post("/finish")
    office.floor.confirm(office.floor.rows(WorkSession)[0])
    housekeeping = _housekeeping(office, crowd, tmp_path, interval=0.01)
    housekeeping.start()
    try:
        eventually(lambda: housekeeping.failing, "it has failed once")
        crowd.is_there = True
        eventually(lambda: office.floor.rows(QualificationGrant), "it is tried again")
        eventually(lambda: not housekeeping.failing, "all is well again")
    finally:
        housekeeping.stop(10)


def test_abandoned_sessions_end_automatically(open_office: OpenOffice, tmp_path: Path) -> None:
    office = open_office("sentiment")
    office.open("W1")
    office.floor.clock.advance(30 * MINUTE)
    _housekeeping(office, FakeCrowd(office.floor.clock.now), tmp_path).once()
    (work,) = office.floor.rows(WorkSession)
    assert work.status is SessionStatus.EXPIRED
    assert all(lease.ended_at for lease in office.floor.rows(Lease))


def test_only_a_quiz_takes_the_answers_of_one(office: Office) -> None:
    office.floor.pending("AUTHOR")
    for kind in (HitKind.CREATE, HitKind.VALIDATE):
        told = office.open("W1", kind=kind).refused("/quiz", {"answers": _right(office)})
        assert (told["status"], told["code"]) == (409, "page_unknown")
    assert office.floor.rows(QuizResult) == []
