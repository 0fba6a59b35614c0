"""A marketplace for all tests, and for each a stage on it or on the crowd in memory."""

from collections.abc import Iterator

import pytest

from tests.fakes.market import MarketServer
from tests.integration.crowd.stage import FakeStage, MarketStage, Orders, Stage


@pytest.fixture(scope="session")
def market_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MarketServer]:
    """One server; every test is a requester of its own on it."""
    with MarketServer(tmp_path_factory.mktemp("market") / "market.sqlite") as server:
        yield server


@pytest.fixture(params=["fake", "marketplace"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """The crowd in memory, then the real one."""
    if request.param == "fake":
        return FakeStage()
    return MarketStage(request.getfixturevalue("market_server"))


@pytest.fixture
def orders(stage: Stage) -> Orders:
    """What a test orders on the stage."""
    return Orders(stage)
