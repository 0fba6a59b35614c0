"""A worker who passed a quiz is qualified once, even if several web apps on several machines do it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from crowd.errors import CrowdAccessDenied, CrowdRefused
from crowd.port import CrowdQualification
from round_manager.crowd.workers import WorkerAccess, grant_passed_quizzes
from round_manager.models import AuditEntry, HitKind, Qualification, QualificationGrant
from round_manager.work.quizzes import take_quiz
from tests.fakes.crowd import FakeCrowd
from tests.integration.round_manager.work.floor import MARKET, Floor
from tests.integration.round_manager.work.test_concurrency import TOGETHER, at_once
from tests.integration.round_manager.work.test_quizzes import right

PATIENCE = 30


class Watched(FakeCrowd):
    """A marketplace that can delay a grant, or refuse it for a worker."""

    def __init__(self, floor: Floor) -> None:
        super().__init__(floor.clock.now)
        self.asked_for = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.refuses: dict[str, CrowdRefused] = {}
        self.told: list[str] = []

    def grant(self, qualification_id: str, worker_id: str, score: int = 1) -> None:
        self.told.append(worker_id)
        self.asked_for.set()
        assert self.may_answer.wait(PATIENCE)
        if worker_id in self.refuses:
            raise self.refuses[worker_id]
        super().grant(qualification_id, worker_id, score)


class Doorway(FakeCrowd):
    """A marketplace that makes a qualification for several processes at the same moment."""

    def __init__(self, floor: Floor) -> None:
        super().__init__(floor.clock.now)
        self._together = threading.Barrier(TOGETHER)

    def ensure_qualification(self, name: str, description: str) -> CrowdQualification:
        self._together.wait(PATIENCE)
        return super().ensure_qualification(name, description)


@pytest.fixture
def crowd(floor: Floor) -> Watched:
    return Watched(floor)


def pass_quiz(floor: Floor, worker: str = "W1") -> None:
    """Let the worker pass, and let the marketplace confirm them."""
    work = floor.open(worker, kind=HitKind.QUIZ)
    with floor.write() as session:
        take_quiz(session, work, right(floor), now=floor.now)
    floor.finish(work)
    floor.confirm(work)


def qualify(floor: Floor, crowd: FakeCrowd) -> int:
    return grant_passed_quizzes(floor.store, MARKET, lambda: WorkerAccess(floor.store, crowd, floor.clock))


def test_only_one_web_app_at_a_time_asks_the_marketplace(floor: Floor, crowd: Watched) -> None:
    pass_quiz(floor)
    crowd.may_answer.clear()
    with ThreadPoolExecutor(1) as elsewhere:
        first = elsewhere.submit(qualify, floor, crowd)
        assert crowd.asked_for.wait(PATIENCE)
        assert qualify(floor, crowd) == 0, "and it did not wait for the other"
        crowd.may_answer.set()
        assert first.result(PATIENCE) == 1
    assert (crowd.told, len(floor.rows(QualificationGrant))) == (["W1"], 1)
    assert qualify(floor, crowd) == 0


def test_concurrent_web_apps_qualify_each_worker_once(floor: Floor, crowd: Watched) -> None:
    workers = ["W1", "W2", "W3"]
    for worker in workers:
        pass_quiz(floor, worker)
    counts = at_once(*[lambda: qualify(floor, crowd)] * TOGETHER)
    assert sum(counts) == len(workers)
    assert crowd.told == workers
    assert len(floor.rows(QualificationGrant)) == len(floor.rows(AuditEntry, AuditEntry.action == "granted")) == 3


def test_a_grant_by_a_web_app_that_died_is_recorded_later(floor: Floor, crowd: Watched) -> None:
    pass_quiz(floor)
    held = WorkerAccess(floor.store, crowd, floor.clock).qualification(floor.task)
    crowd.grant(str(held.external_id), "W1", 100)
    assert qualify(floor, crowd) == 1
    assert crowd.scores == {(str(held.external_id), "W1"): 100}
    assert len(floor.rows(QualificationGrant)) == 1


def test_a_worker_whom_another_web_app_qualified_and_the_owner_stopped_is_not_qualified_again(
    floor: Floor, crowd: Watched
) -> None:
    pass_quiz(floor)
    assert qualify(floor, crowd) == 1
    WorkerAccess(floor.store, crowd, floor.clock).withdraw(floor.task, "W1", actor="owner", reason="bad work")
    assert at_once(*[lambda: qualify(floor, crowd)] * TOGETHER) == [0] * TOGETHER
    assert crowd.told == ["W1"]


def test_concurrent_grants_by_owner_and_quiz_are_one(floor: Floor) -> None:
    crowd = Doorway(floor)
    pass_quiz(floor)

    def grant(who: str) -> None:
        WorkerAccess(floor.store, crowd, floor.clock).grant(floor.task, "W1", actor=who, reason="")

    outcomes = at_once(*[lambda who=f"owner {number}": grant(who) for number in range(TOGETHER)])
    assert outcomes == [None] * TOGETHER
    assert (len(floor.rows(Qualification)), len(floor.rows(QualificationGrant))) == (1, 1)
    assert len(floor.rows(AuditEntry, AuditEntry.action == "granted")) == 1


def test_a_worker_whom_the_marketplace_refuses_blocks_no_other_worker(floor: Floor, crowd: Watched) -> None:
    for worker in ("W1", "W2"):
        pass_quiz(floor, worker)
    crowd.refuses["W1"] = CrowdRefused("no such worker")
    with pytest.raises(CrowdRefused, match="no such worker"):
        qualify(floor, crowd)
    assert len(floor.rows(QualificationGrant)) == 1
    crowd.refuses.clear()
    assert qualify(floor, crowd) == 1


def test_with_wrong_keys_no_other_worker_is_attempted(floor: Floor, crowd: Watched) -> None:
    for worker in ("W1", "W2"):
        pass_quiz(floor, worker)
    crowd.refuses["W1"] = CrowdAccessDenied("the keys are wrong")
    with pytest.raises(CrowdAccessDenied):
        qualify(floor, crowd)
    assert crowd.told == ["W1"]
