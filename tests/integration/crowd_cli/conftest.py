"""A marketplace on loopback, the sentiment task with its first round open, and the command to run it all with."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import boto3
import pytest

from round_manager.database.store import open_store
from tests.conftest import Outfox
from tests.fakes.market import MarketServer
from tests.fakes.own_page import OwnPage
from tests.integration.crowd_cli.shop import SENTIMENT, Shop
from tests.integration.services.stage import set_stage


@pytest.fixture(autouse=True)
def _one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of the same keys share boto3's session: to make one takes longer than most commands."""
    monkeypatch.setattr("boto3.session.Session", lru_cache(boto3.session.Session))


@pytest.fixture
def market(tmp_path: Path) -> Iterator[MarketServer]:
    """A marketplace where the requester has $10,000."""
    with MarketServer(tmp_path / "market.db") as server:
        yield server


@pytest.fixture(scope="session")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which round 1 of the sentiment task is open, to be copied."""
    file = tmp_path_factory.mktemp("books") / "outfox.db"
    with open_store(f"sqlite:///{file}", upgrade=True) as store:
        set_stage(store, SENTIMENT, now=datetime.now(UTC))
    return file


@pytest.fixture(scope="session")
def page() -> Iterator[OwnPage]:
    """Where the HITs lead."""
    with OwnPage() as page:
        yield page


@pytest.fixture
def shop(
    books: Path,
    tmp_path: Path,
    outfox: Outfox,
    market: MarketServer,
    page: OwnPage,
    monkeypatch: pytest.MonkeyPatch,
) -> Shop:
    """Round 1 of the sentiment task is open, and nothing is posted."""
    monkeypatch.setenv("OUTFOX_HIT_PAGE_URL", f"{page.url}/hits")
    monkeypatch.setenv("OUTFOX_CROWD_URL", market.url)
    monkeypatch.setenv("OUTFOX_CROWD_KEY_ID", market.key.id)
    monkeypatch.setenv("OUTFOX_CROWD_KEY_SECRET", market.key.secret)
    # The marketplace of the test logs in this very process; here, what people read is looked at.
    monkeypatch.setenv("OUTFOX_LOG_LEVEL", "warning")
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(books, home / "outfox.db")
    return Shop(outfox, market, home)
