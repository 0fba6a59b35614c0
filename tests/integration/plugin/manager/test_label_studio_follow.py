"""Label Studio follows the live round automatically."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from plugin.manager.intake_steps import Follow
from plugin.manager.loop import Manager, StepOutcome
from plugin.manager.round_steps import Freeze, Open, Train
from plugin.settings import Settings
from plugin.wiring import Application
from round_manager.labelstudio.connection import ConnectionOptions, connect_projects
from round_manager.labelstudio.port import BackendConnection, LabelStudioUnavailable
from round_manager.loop.manager_record import problem_steps
from round_manager.services.context import ServiceContext
from round_manager.services.label_studio import ConnectedLabelStudio
from tests.campaign.base import built_in_pack
from tests.fakes.label_studio import URL, FakeLabelStudio
from tests.integration.plugin.manager.conftest import NewManaged
from tests.integration.plugin.manager.managed_campaign import TASK, ManagedCampaign

BACKEND = "http://backend.test"
ASKED = f"{BACKEND}/tasks/{TASK}"
# The steps after the end of a round, and the step under test.
STEPS = (Freeze(), Train(), Open(), Follow())
Started = Callable[[], ConnectedLabelStudio]


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> FakeLabelStudio:
    """The Label Studio behind every token."""
    made = FakeLabelStudio()
    monkeypatch.setattr("plugin.labelstudio.adapter.SdkLabelStudio", lambda url, token: made)
    return made


@pytest.fixture
def campaign(new_campaign: NewManaged, studio: FakeLabelStudio) -> ManagedCampaign:
    """A campaign whose task is connected, with round 1 open."""
    made = new_campaign(qualified=False)
    connect_projects(
        made.store, studio, built_in_pack(TASK), ConnectionOptions(("s" * 32,), ml_backend=BACKEND), made.clock
    )
    studio.calls.clear()
    studio.changes.clear()
    return made


@pytest.fixture
def started(campaign: ManagedCampaign) -> Started:
    """Label Studio as a newly started manager sees it."""
    settings = Settings(label_studio_url=URL, label_studio_token="0" * 40)
    context = ServiceContext(campaign.store, campaign.clock)

    def start() -> ConnectedLabelStudio:
        made = Application(settings, clock=campaign.clock).connected_label_studio(lambda: context)
        assert made is not None
        return made

    return start


def backend(studio: FakeLabelStudio) -> BackendConnection:
    (made,) = (one for backends in studio.backend_of.values() for one in backends)
    return made


def did(outcomes: list[StepOutcome]) -> dict[str, str]:
    return {one.step: one.result.done for one in outcomes if one.result.done}


def stored_errors(campaign: ManagedCampaign) -> dict[str, str]:
    with campaign.store.read() as session:
        return {one.name: one.error for one in problem_steps(session) if one.error}


def end_round(campaign: ManagedCampaign) -> None:
    """End round 1 with an example in it, so that the next round opens automatically."""
    campaign.add_example()
    campaign.mark_closed()


def test_label_studio_follows_a_new_round_in_the_same_pass(
    campaign: ManagedCampaign, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    campaign.manage(STEPS, label_studio=manager)
    end_round(campaign)
    # While the next model is being trained, attempts no longer count for round 1.
    campaign.manage([Freeze(), Follow()], label_studio=manager)
    assert (campaign.statuses(), backend(studio).url) == (["closed"], ASKED)
    done = did(campaign.manage(STEPS, label_studio=manager))
    assert "round 2 is open" in done["open"]
    assert done["follow"] == f"Label Studio uses the ML backend at {ASKED}/rounds/2 now"
    assert backend(studio).url == f"{ASKED}/rounds/2"


def test_label_studio_is_contacted_once_per_round_and_manager(
    campaign: ManagedCampaign, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    for _ in range(3):
        assert did(campaign.manage([Follow()], label_studio=manager)) == {}
    assert studio.calls == ["backends"]
    campaign.manage([Follow()], label_studio=started())
    assert studio.calls == ["backends", "backends"]
    assert studio.changes == []


def test_an_outage_of_label_studio_stops_no_round(
    campaign: ManagedCampaign, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    end_round(campaign)
    studio.down = LabelStudioUnavailable("Label Studio does not answer")
    campaign.manage(STEPS, label_studio=manager)
    assert campaign.statuses() == ["closed", "open"]
    assert stored_errors(campaign) == {"follow": "Label Studio does not answer"}
    (rests,) = campaign.manage([Follow()], respect_backoff=True, label_studio=manager)
    assert rests.backoff_until is not None
    studio.down = None
    campaign.clock.advance(timedelta(minutes=1))
    campaign.manage([Follow()], respect_backoff=True, label_studio=manager)
    assert (backend(studio).url, stored_errors(campaign)) == (f"{ASKED}/rounds/2", {})


def test_a_refused_backend_is_reported_and_retried(
    campaign: ManagedCampaign, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    end_round(campaign)
    studio.backend_answers = False
    (outcome,) = campaign.manage([Follow()], label_studio=manager)
    assert f"{ASKED}/rounds/1" in stored_errors(campaign)["follow"]
    assert outcome.retry
    studio.backend_answers = True
    campaign.manage([Follow()], label_studio=manager)
    assert (backend(studio).url, stored_errors(campaign)) == (ASKED, {})


def test_managers_with_stale_information_end_at_the_right_round(
    campaign: ManagedCampaign, studio: FakeLabelStudio, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = started(), started()
    end_round(campaign)
    backends = studio.backends

    def opened_meanwhile(project: int) -> list[BackendConnection]:
        seen = backends(project)
        monkeypatch.setattr(studio, "backends", backends)
        # The owner opens round 2 meanwhile, which moves the connection too.
        campaign.manage(STEPS[:3])
        started().follow(TASK)
        return seen

    monkeypatch.setattr(studio, "backends", opened_meanwhile)
    one.follow(TASK)
    assert (campaign.statuses(), backend(studio).url) == (["closed", "open"], ASKED)
    for manager in (one, other, one, other):
        manager.follow(TASK)
    assert backend(studio).url == f"{ASKED}/rounds/2"


def test_an_owners_address_stays_until_the_round_ends(
    campaign: ManagedCampaign, studio: FakeLabelStudio, started: Started
) -> None:
    manager = started()
    campaign.manage([Follow()], label_studio=manager)
    (project,) = studio.backend_of
    studio.update_backend(project, backend(studio), f"{ASKED}/rounds/9", None)
    campaign.manage([Follow()], label_studio=manager)
    assert backend(studio).url == f"{ASKED}/rounds/9"
    end_round(campaign)
    campaign.manage([Follow()], label_studio=manager)
    assert backend(studio).url == ASKED


def test_a_dry_run_names_the_round_without_a_request(
    campaign: ManagedCampaign, studio: FakeLabelStudio, started: Started
) -> None:
    def preview() -> str:
        (outcome,) = Manager(campaign.manager_context(label_studio=started()), [Follow()]).preview()
        return outcome.result.done

    assert "round 1" in preview()
    end_round(campaign)
    assert "the task" in preview()
    assert studio.calls == []
