"""One task with a round, its workers and a fake crowd, for tests: `start_campaign(store, work={"tries": 2})`."""

from collections.abc import Callable

from tests.campaign.base import MARKET, MINUTE, OWNER
from tests.campaign.campaign import Campaign, start_campaign

# What a fixture returns that starts campaigns in the test's store.
NewCampaign = Callable[..., Campaign]

__all__ = ["MARKET", "MINUTE", "OWNER", "Campaign", "NewCampaign", "start_campaign"]
