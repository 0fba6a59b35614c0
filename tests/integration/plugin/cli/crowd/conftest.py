"""A marketplace on loopback, the sentiment task with its first round open, and the command to run it all with."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from round_manager.database.store import open_store
from tests.campaign import start_campaign
from tests.conftest import Outfox
from tests.fakes.market import MarketServer
from tests.fakes.own_page import OwnPage
from tests.integration.databases import Databases
from tests.integration.plugin.cli.crowd.crowd_commands import CrowdCommands


@pytest.fixture
def market(any_databases: Databases) -> Iterator[MarketServer]:
    """A marketplace where the requester has $10,000."""
    url = any_databases.empty()
    with MarketServer(url) as server:
        yield server
    any_databases.drop(url)


@pytest.fixture(scope="session")
def books(any_databases: Databases) -> str:
    """A database in which round 1 of the sentiment task is open, to be copied."""
    url = any_databases.migrated()
    with open_store(url) as store:
        start_campaign(store, now=datetime.now(UTC), contexts=None, seeds=True)
    return url


@pytest.fixture(scope="session")
def page() -> Iterator[OwnPage]:
    """The URL of the HITs' page."""
    with OwnPage() as page:
        yield page


@pytest.fixture
def commands(
    books: str,
    any_databases: Databases,
    home_url: str,
    outfox: Outfox,
    market: MarketServer,
    page: OwnPage,
    monkeypatch: pytest.MonkeyPatch,
) -> CrowdCommands:
    """Round 1 of the sentiment task is open, and nothing is posted."""
    monkeypatch.setenv("OUTFOX_HIT_PAGE_URL", f"{page.url}/hits")
    monkeypatch.setenv("OUTFOX_CROWD_URL", market.url)
    monkeypatch.setenv("OUTFOX_CROWD_KEY_ID", market.key.id)
    monkeypatch.setenv("OUTFOX_CROWD_KEY_SECRET", market.key.secret)
    # The test's marketplace logs in the same process; these tests look at what users read.
    monkeypatch.setenv("OUTFOX_LOG_LEVEL", "warning")
    any_databases.copy(books, home_url)
    return CrowdCommands(outfox, market, home_url)
