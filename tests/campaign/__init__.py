"""One task with a round, its workers and a fake crowd, for tests: `start_campaign(store, work={"tries": 2})`."""

from collections.abc import Callable

from tests.campaign.base import DAY, MARKET, MINUTE, OWNER
from tests.campaign.campaign import Campaign, find_campaign, start_campaign, start_closed

# What a fixture returns that starts campaigns in the test's store.
NewCampaign = Callable[..., Campaign]

__all__ = [
    "DAY",
    "MARKET",
    "MINUTE",
    "OWNER",
    "Campaign",
    "NewCampaign",
    "find_campaign",
    "start_campaign",
    "start_closed",
]
