"""The state of the demo's task while its round ends."""

from collections.abc import Callable
from pathlib import Path

import pytest

from plugin.demo.welcome import demo_status
from round_manager.database.store import Store
from round_manager.loop.lifecycle import begin_validating, pause
from round_manager.loop.manager_record import record_success
from round_manager.models import Round, RoundStatus
from tests.integration.plugin.manager.managed_campaign import ManagedCampaign, start_managed


@pytest.fixture
def campaign(store: Store, tmp_path: Path) -> ManagedCampaign:
    return start_managed(store, tmp_path)


def move(campaign: ManagedCampaign, step: Callable[..., Round]) -> None:
    with campaign.store.write() as session:
        chosen = session.get_one(Round, campaign.round_id)
        step(session, chosen, actor="owner@test", reason="a test", now=campaign.now)


def test_an_open_round_accepts_texts_and_an_ended_round_says_what_it_waits_for(campaign: ManagedCampaign) -> None:
    seen = demo_status(campaign.services, "sentiment")
    assert (seen.round, seen.status, seen.takes_texts, seen.waits_for) == (1, "open", True, ())
    assert seen.versions == (campaign.version,)
    move(campaign, pause)
    assert demo_status(campaign.services, "sentiment").status == "paused"


def test_a_finished_round_names_the_next_step(campaign: ManagedCampaign) -> None:
    campaign.add_example()
    move(campaign, begin_validating)
    seen = demo_status(campaign.services, "sentiment")
    assert (seen.status, seen.takes_texts) == ("validating", False)
    assert any("waits for votes" in reason for reason in seen.waits_for)
    with campaign.store.write() as session:
        chosen = session.get_one(Round, campaign.round_id)
        chosen.status, chosen.closed_at = RoundStatus.CLOSED, campaign.now
        record_success(session, "open", "sentiment", "no round after 1 is opened", actor="m@test", now=campaign.now)
    seen = demo_status(campaign.services, "sentiment")
    assert (seen.status, seen.frozen) == ("closed", ())
    archive, manager = seen.waits_for
    assert ("outfox manage" in archive, manager) == (True, "open: no round after 1 is opened")
