"""An error in one step stops no other, is retried with backoff, and is reported until it is over."""

from datetime import timedelta

import pytest

from crowd.errors import CrowdUnavailable
from plugin.backend_client import BackendUnreachable
from plugin.errors import PluginError
from plugin.manager.intake_steps import Collect
from plugin.manager.loop import STEP_NAMES, STEPS, Manager, StepOutcome
from plugin.manager.step import NOTHING, ManagerContext, Step, StepResult
from round_manager.loop.manager_record import backoff_after, last_pass, problem_steps
from round_manager.models import Assignment, Hit, HitKind, HitStatus, ManagerStep
from round_manager.tasks.tasks import create_task
from tests.campaign.base import built_in_pack
from tests.integration.plugin.manager.conftest import NewManaged
from tests.integration.plugin.manager.managed_campaign import MANAGER, TASK, ManagedCampaign


class Broken(Step):
    """A step that fails for one task."""

    name = "broken"

    def __init__(self, error: Exception, task: str = TASK) -> None:
        self.error: Exception | None = error
        self.tried: list[str] = []
        self._task = task

    def run(self, context: ManagerContext, task: str) -> StepResult:
        self.tried.append(task)
        if self.error is not None and task == self._task:
            raise self.error
        return NOTHING

    def preview(self, context: ManagerContext, task: str) -> str:
        raise self.error or ValueError


class Away(PluginError):
    """A temporary failure."""

    retry = True


def failing(campaign: ManagedCampaign) -> list[ManagerStep]:
    with campaign.store.read() as session:
        return [one for one in problem_steps(session) if one.error]


def errors(outcomes: list[StepOutcome]) -> dict[str, str]:
    return {outcome.step: outcome.error for outcome in outcomes if outcome.error}


def test_an_unavailable_marketplace_stops_only_its_own_steps(new_campaign: NewManaged) -> None:
    campaign = new_campaign(rounds={"target_fooling": 300})
    campaign.manage()
    campaign.write_hits(1)
    campaign.crowd.fail(CrowdUnavailable("no answer"))
    outcomes = campaign.manage()
    assert errors(outcomes) == {"collect": "no answer"}
    assert [outcome.step for outcome in outcomes] == list(STEP_NAMES)
    # Steps that do not need it run: an expired page is ended, and the pass is recorded.
    assert [one.name for one in failing(campaign)] == ["collect"]
    assert campaign.manage()[0].result.done == "1 new assignment"
    assert failing(campaign) == []


def test_a_failing_task_does_not_block_the_others(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    with campaign.store.write() as session:
        create_task(session, built_in_pack("nli"), now=campaign.now)
    for error in (Away("no answer"), ValueError("what a worker typed")):
        step = Broken(error)
        outcomes = campaign.manage([step])
        assert step.tried == ["nli", TASK]
        assert [bool(outcome.error) for outcome in outcomes] == [False, True]


def test_messages_of_foreign_errors_are_not_shown(new_campaign: NewManaged, caplog: pytest.LogCaptureFixture) -> None:
    campaign = new_campaign()
    (outcome,) = campaign.manage([Broken(ValueError("a worker's secret"))])
    assert outcome.error == "ValueError"
    assert "secret" not in caplog.text
    assert failing(campaign)[0].error == "ValueError"


def test_temporary_errors_are_retried_with_growing_backoff(new_campaign: NewManaged) -> None:
    campaign, step = new_campaign(), Broken(Away("no answer"))
    campaign.manage([step])
    for failures in range(1, 5):
        campaign.clock.advance(backoff_after(failures) - timedelta(seconds=1))
        (rests,) = campaign.manage([step], respect_backoff=True)
        assert (rests.error, len(step.tried)) == ("no answer", failures)
        assert rests.backoff_until is not None
        campaign.clock.advance(timedelta(seconds=1))
        campaign.manage([step], respect_backoff=True)
        assert failing(campaign)[0].failures == len(step.tried) == failures + 1
    assert backoff_after(4) == 8 * backoff_after(1)
    assert backoff_after(100) == timedelta(minutes=15)
    # A single pass ignores the backoff.
    campaign.manage([step])
    assert len(step.tried) == 6


def test_a_backoff_ends_although_the_clock_was_set_back(new_campaign: NewManaged) -> None:
    campaign, step = new_campaign(), Broken(Away("no answer"))
    campaign.manage([step])
    campaign.clock.advance(-timedelta(hours=1))
    campaign.manage([step], respect_backoff=True)
    assert len(step.tried) == 2
    campaign.manage([step], respect_backoff=True)
    assert len(step.tried) == 2


def test_permanent_errors_are_logged_when_they_change(
    new_campaign: NewManaged, caplog: pytest.LogCaptureFixture
) -> None:
    campaign, step = new_campaign(), Broken(PluginError("set the setting"))
    caplog.set_level("INFO")
    for _ in range(3):
        campaign.manage([step], respect_backoff=True)
    assert caplog.text.count("set the setting") == 1
    step.error = PluginError("set the other one")
    campaign.manage([step], respect_backoff=True)
    assert caplog.text.count("set the other one") == 1
    (step_record,) = failing(campaign)
    assert (step_record.failures, step_record.next_try_at, step_record.failing_since) == (4, None, campaign.now)
    step.error = None
    campaign.manage([step], respect_backoff=True)
    assert "works again" in caplog.text
    assert failing(campaign) == []


def test_no_hits_are_posted_while_workers_cannot_see_pages(new_campaign: NewManaged) -> None:
    campaign = new_campaign()

    def away() -> bool:
        raise Away("the pages do not answer")

    campaign.check_pages = away
    assert errors(campaign.manage()) == {"post": "the pages do not answer"}
    assert campaign.open_hits(HitKind.CREATE) == []
    campaign.check_pages = lambda: True
    campaign.manage()
    assert len(campaign.open_hits(HitKind.CREATE)) == len(campaign.rows(Hit)) == 3


def test_creation_hits_wait_until_a_model_serves_their_round(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    asked: list[tuple[str, int]] = []

    def away(task: str, number: int) -> None:
        asked.append((task, number))
        raise Away("no model answers")

    campaign.check_backend = away
    (post,) = [one for one in campaign.manage() if one.step == "post"]
    assert (post.error, post.result.waits) == ("", "3 HITs to create for sentiment: no model answers")
    assert (campaign.open_hits(HitKind.CREATE), asked) == ([], [(TASK, 1)])
    with campaign.store.read() as session:
        assert [(one.name, one.waits) for one in problem_steps(session)] == [("post", post.result.waits)]
    campaign.check_backend = lambda task, number: None
    campaign.manage()
    assert len(campaign.open_hits(HitKind.CREATE)) == len(campaign.rows(Hit)) == 3
    with campaign.store.read() as session:
        assert problem_steps(session) == []


def test_validation_hits_are_posted_without_a_model(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    campaign.manage()
    campaign.write_hits(1)
    campaign.manage([Collect()])
    campaign.write_hits(fooling=False)

    def away(task: str, number: int) -> None:
        raise BackendUnreachable("no answer")

    campaign.check_backend = away
    campaign.settle()
    assert len(campaign.open_hits(HitKind.VALIDATE)) == 2
    assert campaign.open_hits(HitKind.CREATE) == []
    assert campaign.rows(Hit, Hit.kind == HitKind.CREATE, Hit.status == HitStatus.PLANNED)


def test_the_owners_own_page_needs_no_model(new_campaign: NewManaged) -> None:
    campaign = new_campaign()

    def away(task: str, number: int) -> None:
        raise Away("no model answers")

    campaign.check_backend, campaign.check_pages = away, lambda: False
    campaign.manage()
    assert len(campaign.open_hits(HitKind.CREATE)) == 3


def test_an_empty_account_is_reported_and_loses_nothing(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    campaign.crowd.deposit(-campaign.crowd.balance())
    assert "post" in errors(campaign.manage())
    campaign.crowd.deposit(100_000)
    assert errors(campaign.manage()) == {}
    assert len(campaign.open_hits(HitKind.CREATE)) == 3


def test_a_dry_run_describes_the_pass_and_changes_nothing(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    campaign.manage()
    campaign.write_hits()
    before, calls = campaign.end_state(), campaign.crowd.calls.total()
    preview = {one.step: one.result.done for one in Manager(campaign.manager_context(), STEPS).preview()}
    assert [step for step in ("collect", "supply", "pay", "open") if preview[step]] == ["collect"]
    assert (campaign.end_state(), campaign.crowd.calls.total()) == (before, calls)
    (broken,) = Manager(campaign.manager_context(), [Broken(Away("no answer"))]).preview()
    assert (broken.error, broken.code, broken.retry) == ("no answer", "away", True)


def test_a_dry_run_describes_planned_hits(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    preview = {one.step: one.result.done for one in Manager(campaign.manager_context(), STEPS).preview()}
    assert "3 to create" in preview["supply"]
    assert campaign.rows(Hit) == []


def test_each_pass_is_recorded(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    campaign.manage()
    campaign.clock.advance(timedelta(minutes=3))
    campaign.manage()
    with campaign.store.read() as session:
        found = last_pass(session)
    assert found is not None
    assert (found.ran_at, found.ran_by) == (campaign.now, MANAGER)


def test_unfinished_work_is_left_to_the_owner(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    campaign.manage()
    _, second = campaign.open_hits(HitKind.CREATE)[:2]
    campaign.write_hits(1)
    campaign.crowd.accept(str(second.external_id), "W8")
    straight = campaign.crowd.submit(str(second.external_id), "W8")
    (approve,) = [one for one in campaign.manage(our_pages=True) if one.step == "approve"]
    assert approve.result.done == "1 assignment approved"
    assert approve.result.waits.startswith("1 assignment")
    with campaign.store.read() as session:
        assert [one.waits for one in problem_steps(session) if one.name == "approve"] == [approve.result.waits]
    states = {one.external_id: one.status.value for one in campaign.rows(Assignment)}
    assert states.pop(straight) == "submitted"
    assert list(states.values()) == ["approved"]
    # With pages of the owner's own, this is unknown.
    (approve,) = [one for one in campaign.manage() if one.step == "approve"]
    assert (approve.result.done, approve.result.waits) == ("1 assignment approved", "")
