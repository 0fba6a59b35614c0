"""A worker who passed a quiz is qualified once, even if several web apps on several machines do it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from crowd.errors import CrowdAccessDenied, CrowdRefused
from crowd.port import CrowdQualification
from round_manager.crowd.workers import WorkerAccess, grant_passed_quizzes
from round_manager.models import AuditEntry, HitKind, Qualification, QualificationGrant
from round_manager.work.quizzes import take_quiz
from tests.campaign import MARKET, Campaign
from tests.fakes.crowd import FakeCrowd
from tests.integration.round_manager.work.test_concurrency import TOGETHER, at_once
from tests.integration.round_manager.work.test_quizzes import right

PATIENCE = 30


class Watched(FakeCrowd):
    """A marketplace that can delay a grant, or refuse it for a worker."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__(campaign.clock.now)
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

    def __init__(self, campaign: Campaign) -> None:
        super().__init__(campaign.clock.now)
        self._together = threading.Barrier(TOGETHER)

    def ensure_qualification(self, name: str, description: str) -> CrowdQualification:
        self._together.wait(PATIENCE)
        return super().ensure_qualification(name, description)


@pytest.fixture
def crowd(campaign: Campaign) -> Watched:
    return Watched(campaign)


def pass_quiz(campaign: Campaign, worker: str = "W1") -> None:
    """Let the worker pass, and let the marketplace confirm them."""
    work = campaign.open_page(worker, kind=HitKind.QUIZ)
    with campaign.store.write() as session:
        take_quiz(session, work, right(campaign), now=campaign.now)
    campaign.finish_page(work)
    campaign.confirm(work)


def qualify(campaign: Campaign, crowd: FakeCrowd) -> int:
    return grant_passed_quizzes(campaign.store, MARKET, lambda: WorkerAccess(campaign.store, crowd, campaign.clock))


@pytest.mark.any_database
def test_only_one_web_app_at_a_time_asks_the_marketplace(campaign: Campaign, crowd: Watched) -> None:
    pass_quiz(campaign)
    crowd.may_answer.clear()
    with ThreadPoolExecutor(1) as elsewhere:
        first = elsewhere.submit(qualify, campaign, crowd)
        assert crowd.asked_for.wait(PATIENCE)
        assert qualify(campaign, crowd) == 0, "and it did not wait for the other"
        crowd.may_answer.set()
        assert first.result(PATIENCE) == 1
    assert (crowd.told, len(campaign.rows(QualificationGrant))) == (["W1"], 1)
    assert qualify(campaign, crowd) == 0


def test_concurrent_web_apps_qualify_each_worker_once(campaign: Campaign, crowd: Watched) -> None:
    workers = ["W1", "W2", "W3"]
    for worker in workers:
        pass_quiz(campaign, worker)
    counts = at_once(*[lambda: qualify(campaign, crowd)] * TOGETHER)
    assert sum(counts) == len(workers)
    assert crowd.told == workers
    assert len(campaign.rows(QualificationGrant)) == len(campaign.rows(AuditEntry, AuditEntry.action == "granted")) == 3


@pytest.mark.any_database
def test_a_grant_by_a_web_app_that_died_is_recorded_later(campaign: Campaign, crowd: Watched) -> None:
    pass_quiz(campaign)
    held = WorkerAccess(campaign.store, crowd, campaign.clock).qualification(campaign.task)
    crowd.grant(str(held.external_id), "W1", 100)
    assert qualify(campaign, crowd) == 1
    assert crowd.scores == {(str(held.external_id), "W1"): 100}
    assert len(campaign.rows(QualificationGrant)) == 1


@pytest.mark.any_database
def test_a_worker_whom_another_web_app_qualified_and_the_owner_stopped_is_not_qualified_again(
    campaign: Campaign, crowd: Watched
) -> None:
    pass_quiz(campaign)
    assert qualify(campaign, crowd) == 1
    WorkerAccess(campaign.store, crowd, campaign.clock).withdraw(campaign.task, "W1", actor="owner", reason="bad work")
    assert at_once(*[lambda: qualify(campaign, crowd)] * TOGETHER) == [0] * TOGETHER
    assert crowd.told == ["W1"]


def test_concurrent_grants_by_owner_and_quiz_are_one(campaign: Campaign) -> None:
    crowd = Doorway(campaign)
    pass_quiz(campaign)

    def grant(who: str) -> None:
        WorkerAccess(campaign.store, crowd, campaign.clock).grant(campaign.task, "W1", actor=who, reason="")

    outcomes = at_once(*[lambda who=f"owner {number}": grant(who) for number in range(TOGETHER)])
    assert outcomes == [None] * TOGETHER
    assert (len(campaign.rows(Qualification)), len(campaign.rows(QualificationGrant))) == (1, 1)
    assert len(campaign.rows(AuditEntry, AuditEntry.action == "granted")) == 1


def test_a_worker_whom_the_marketplace_refuses_blocks_no_other_worker(campaign: Campaign, crowd: Watched) -> None:
    for worker in ("W1", "W2"):
        pass_quiz(campaign, worker)
    crowd.refuses["W1"] = CrowdRefused("no such worker")
    with pytest.raises(CrowdRefused, match="no such worker"):
        qualify(campaign, crowd)
    assert len(campaign.rows(QualificationGrant)) == 1
    crowd.refuses.clear()
    assert qualify(campaign, crowd) == 1


@pytest.mark.any_database
def test_with_wrong_keys_no_other_worker_is_attempted(campaign: Campaign, crowd: Watched) -> None:
    for worker in ("W1", "W2"):
        pass_quiz(campaign, worker)
    crowd.refuses["W1"] = CrowdAccessDenied("the keys are wrong")
    with pytest.raises(CrowdAccessDenied):
        qualify(campaign, crowd)
    assert crowd.told == ["W1"]
