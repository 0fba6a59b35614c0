"""One marketplace for all tests; each test runs on it and on the in-memory crowd."""

from collections.abc import Iterator

import pytest

from tests.fakes.market import MarketServer
from tests.integration.crowd.stage import FakeStage, MarketStage, Orders, Stage
from tests.integration.databases import Databases


@pytest.fixture(scope="session")
def market_server(any_databases: Databases) -> Iterator[MarketServer]:
    """One server; every test uses its own requester account."""
    with MarketServer(any_databases.empty()) as server:
        yield server


@pytest.fixture(params=["fake", "marketplace"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """The in-memory crowd, then the real one."""
    if request.param == "fake":
        return FakeStage()
    return MarketStage(request.getfixturevalue("market_server"))


@pytest.fixture
def orders(stage: Stage) -> Orders:
    """The orders of a test."""
    return Orders(stage)
