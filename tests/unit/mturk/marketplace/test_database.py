"""Opening a database: tables are created, upgraded, or the database is refused and left alone."""

import sqlite3
from pathlib import Path

import pytest

from common.clock import SystemClock
from mturk.marketplace import people
from mturk.marketplace.database import SCHEMA_VERSION, open_database
from mturk.marketplace.errors import MarketDatabaseError
from mturk.marketplace.market import open_market
from mturk.marketplace.tables.people import Requester
from tests.fakes.clock import NOON
from tests.fakes.market import StillWorld


def test_data_is_kept_when_the_market_is_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'market.db'}"
    with open_market(url, SystemClock()) as market, market.write() as session:
        people.add_requester(session, "Lab", NOON)
    with open_market(url, SystemClock()) as market, market.read() as session:
        requester = people.find_requester(session, "Lab")
        assert requester is not None
        assert requester.created_at == NOON


def test_a_failed_transaction_and_a_read_change_nothing(world: StillWorld) -> None:
    def fail() -> None:
        with world.market.write() as session:
            people.add_requester(session, "Other", NOON)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with world.market.read() as session:
        session.add(Requester(id="A1", name="Reader", created_at=NOON))
        session.flush()
    with world.market.read() as session:
        assert [one.name for one in session.query(Requester)] == ["Lab"]


def test_the_database_of_another_application_is_refused_and_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE recipe (name TEXT)")
    with pytest.raises(MarketDatabaseError):
        open_database(f"sqlite:///{file}")
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("recipe",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_database_of_the_previous_version_is_upgraded(tmp_path: Path) -> None:
    file = tmp_path / "market.db"
    open_database(f"sqlite:///{file}").dispose()
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE submit_pass")
        connection.execute("UPDATE market_release SET version = 1")
    open_database(f"sqlite:///{file}").dispose()
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT version FROM market_release").fetchall() == [(SCHEMA_VERSION,)]
        assert connection.execute("SELECT * FROM submit_pass").fetchall() == []


def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "market.db"
    open_database(f"sqlite:///{file}").dispose()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE market_release SET version = 99")
    with pytest.raises(MarketDatabaseError):
        open_database(f"sqlite:///{file}")


def test_only_the_owner_of_the_files_can_read_them(tmp_path: Path) -> None:
    with open_market(f"sqlite:///{tmp_path / 'market.db'}", SystemClock()):
        assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://localhost/market",
        "sqlite://",
        "sqlite:////nowhere/at/all/market.db",
        "postgresql://127.0.0.1:1/market",
    ],
)
def test_an_invalid_database_url_is_refused(url: str) -> None:
    with pytest.raises(MarketDatabaseError):
        open_database(url)
