"""Label Studio asks for the round that is live, whoever opened it, and nobody has to touch anything for that."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from plugin.manager.intake_steps import Follow
from plugin.manager.loop import Manager, StepOutcome
from plugin.manager.round_steps import Freeze, Open, Train
from plugin.settings import Settings
from plugin.wiring import Application
from round_manager.labelstudio.connection import ConnectionOptions, connect_projects
from round_manager.labelstudio.errors import LabelStudioUnavailable
from round_manager.labelstudio.port import BackendConnection
from round_manager.loop.manager_record import troubles
from round_manager.services.context import ServiceContext
from round_manager.services.label_studio import ConnectedLabelStudio
from tests.fakes.label_studio import URL, FakeLabelStudio
from tests.integration.plugin.manager.company import TASK, Company
from tests.integration.plugin.manager.conftest import Found
from tests.integration.work.floor import pack_of

BACKEND = "http://backend.test"
ASKED = f"{BACKEND}/tasks/{TASK}"
# What follows from the end of a round, and the step that is tried here.
STEPS = (Freeze(), Train(), Open(), Follow())
Started = Callable[[], ConnectedLabelStudio]


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> FakeLabelStudio:
    """The Label Studio behind every token."""
    made = FakeLabelStudio()
    monkeypatch.setattr("plugin.labelstudio.adapter.SdkLabelStudio", lambda url, token: made)
    return made


@pytest.fixture
def company(small: Found, studio: FakeLabelStudio) -> Company:
    """A company whose task is connected, with round 1 open."""
    made = small(people=False)
    connect_projects(made.store, studio, pack_of(TASK), ConnectionOptions(("s" * 32,), ml_backend=BACKEND), made.clock)
    studio.calls.clear()
    studio.changes.clear()
    return made


@pytest.fixture
def started(company: Company) -> Started:
    """A manager's Label Studio as it is when the manager has just been started."""
    settings = Settings(label_studio_url=URL, label_studio_token="0" * 40)
    context = ServiceContext(company.store, company.clock)

    def start() -> ConnectedLabelStudio:
        made = Application(settings, clock=company.clock).connected_label_studio(lambda: context)
        assert made is not None
        return made

    return start


def backend(studio: FakeLabelStudio) -> BackendConnection:
    (made,) = (one for backends in studio.backend_of.values() for one in backends)
    return made


def did(outcomes: list[StepOutcome]) -> dict[str, str]:
    return {one.step: one.result.done for one in outcomes if one.result.done}


def told(company: Company) -> dict[str, str]:
    with company.store.read() as session:
        return {one.name: one.error for one in troubles(session) if one.error}


def end_round(company: Company) -> None:
    """Round 1 is over, with something in it: the next one follows by itself."""
    company.floor.pending()
    company.floor.close_round()


def test_the_round_that_the_manager_opens_is_asked_for_in_the_same_pass(
    company: Company, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    company.manage(STEPS, label_studio=manager)
    end_round(company)
    # As long as the next model is being trained, what people try is none of round 1's any more.
    company.manage([Freeze(), Follow()], label_studio=manager)
    assert (company.statuses(), backend(studio).url) == (["closed"], ASKED)
    done = did(company.manage(STEPS, label_studio=manager))
    assert "round 2 is open" in done["open"]
    assert done["follow"] == f"Label Studio uses the ML backend at {ASKED}/rounds/2 now"
    assert backend(studio).url == f"{ASKED}/rounds/2"


def test_label_studio_is_asked_once_for_each_round_and_once_by_each_manager_that_starts(
    company: Company, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    for _ in range(3):
        assert did(company.manage([Follow()], label_studio=manager)) == {}
    assert studio.calls == ["backends"]
    company.manage([Follow()], label_studio=started())
    assert studio.calls == ["backends", "backends"]
    assert studio.changes == []


def test_a_label_studio_that_is_away_stops_no_round_and_is_caught_up_with(
    company: Company, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    end_round(company)
    studio.down = LabelStudioUnavailable("Label Studio does not answer")
    company.manage(STEPS, label_studio=manager)
    assert company.statuses() == ["closed", "open"]
    assert told(company) == {"follow": "Label Studio does not answer"}
    (rests,) = company.manage([Follow()], respect_backoff=True, label_studio=manager)
    assert rests.backoff_until is not None
    studio.down = None
    company.clock.advance(timedelta(minutes=1))
    company.manage([Follow()], respect_backoff=True, label_studio=manager)
    assert (backend(studio).url, told(company)) == (f"{ASKED}/rounds/2", {})


def test_a_backend_that_label_studio_refuses_is_told_and_tried_again(
    company: Company, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    end_round(company)
    studio.backend_answers = False
    (outcome,) = company.manage([Follow()], label_studio=manager)
    assert f"{ASKED}/rounds/1" in told(company)["follow"]
    assert outcome.retry
    studio.backend_answers = True
    company.manage([Follow()], label_studio=manager)
    assert (backend(studio).url, told(company)) == (ASKED, {})


def test_two_managers_and_one_that_was_too_late_end_at_the_right_round(
    company: Company, studio: FakeLabelStudio, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = started(), started()
    end_round(company)
    backends = studio.backends

    def opened_meanwhile(project: int) -> list[BackendConnection]:
        seen = backends(project)
        monkeypatch.setattr(studio, "backends", backends)
        # Its owner opens round 2 by hand, which moves the connection too.
        company.manage(STEPS[:3])
        started().follow(TASK)
        return seen

    monkeypatch.setattr(studio, "backends", opened_meanwhile)
    one.follow(TASK)
    assert (company.statuses(), backend(studio).url) == (["closed", "open"], ASKED)
    for manager in (one, other, one, other):
        manager.follow(TASK)
    assert backend(studio).url == f"{ASKED}/rounds/2"


def test_what_an_owner_enters_in_the_middle_of_a_round_stays_until_its_end(
    company: Company, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    company.manage([Follow()], label_studio=manager)
    (project,) = studio.backend_of
    studio.update_backend(project, backend(studio), f"{ASKED}/rounds/9", None)
    company.manage([Follow()], label_studio=manager)
    assert backend(studio).url == f"{ASKED}/rounds/9"
    end_round(company)
    company.manage([Follow()], label_studio=manager)
    assert backend(studio).url == ASKED


def test_a_dry_run_tells_which_round_and_asks_nobody(
    company: Company, studio: FakeLabelStudio, started: Started
) -> None:
    def preview() -> str:
        (outcome,) = Manager(company.context(label_studio=started()), [Follow()]).preview()
        return outcome.result.done

    assert "round 1" in preview()
    end_round(company)
    assert "the task" in preview()
    assert studio.calls == []
