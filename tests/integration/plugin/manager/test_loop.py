"""The whole loop without manual steps: rounds are collected, validated, paid, frozen and trained on in turn."""

import threading
from dataclasses import replace

import pytest

from round_manager.models import EntryState, LedgerEntry
from round_manager.tasks.rounds import pinned_versions
from tests.integration.plugin.manager.conftest import NewManaged
from tests.integration.plugin.manager.kills import RandomKills
from tests.integration.plugin.manager.managed_campaign import ManagedCampaign

# The costs of one round: three creation HITs, two pages of votes, three bonuses.
ONE_ROUND = {
    "rounds": ["closed"],
    "money": ["1 bonus confirmed 180", "1 reward confirmed 235"],
    "examples": {"1 verified train": 3},
    "hits": {"create": 3, "validate": 2},
    "posted": 5,
    "votes": 6,
    "account": 999_502,
}


def test_two_rounds_run_by_themselves(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    account = campaign.crowd.balance()
    campaign.last_round = 2
    campaign.play(lambda: campaign.is_over(2))
    books = campaign.end_state()
    assert books["examples"] == {"1 verified train": 3, "2 verified train": 3}
    paid = sum(one.cents + one.fee_cents for one in campaign.rows(LedgerEntry))
    assert {one.state for one in campaign.rows(LedgerEntry)} == {EntryState.CONFIRMED}
    assert paid == account - campaign.crowd.balance()
    first, second = campaign.rounds()
    assert all((campaign.archives / "sentiment" / name / "manifest.json").is_file() for name in ("round-1", "round-2"))
    with campaign.store.read() as session:
        # The first round's model, the one that was trained on it, and the one for the third round.
        met = [*pinned_versions(session, first), *pinned_versions(session, second)]
    pins = campaign.registry.pins("sentiment")
    assert pins is not None
    assert len({*met, *pins.versions}) == 3


@pytest.mark.any_database
def test_a_killed_manager_ends_in_the_same_state(campaign: ManagedCampaign) -> None:
    campaign.last_round = 1
    kills = RandomKills(0.1)
    campaign.with_kills(kills).play(lambda: campaign.is_over(1))
    assert kills.count > 20
    assert campaign.end_state() == ONE_ROUND


def test_two_managers_do_the_same_as_one(campaign: ManagedCampaign) -> None:
    campaign.last_round = 1
    errors: list[BaseException] = []

    def settle(one: ManagedCampaign) -> None:
        try:
            one.settle()
        except BaseException as error:  # noqa: BLE001 - the edge of a thread: the test raises it
            errors.append(error)

    def both() -> None:
        threads = [threading.Thread(target=settle, args=[one]) for one in (campaign, replace(campaign))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors

    for _ in range(10):
        both()
        # Finish what one manager had planned when the other was done.
        campaign.settle()
        campaign.write_hits()
        campaign.check_hits()
        if campaign.is_over(1):
            break
    assert campaign.end_state() == ONE_ROUND
