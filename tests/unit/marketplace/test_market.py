"""Opening a marketplace's database: made when new, refused with advice when it is somebody else's."""

import sqlite3
from pathlib import Path

import pytest

from common.clock import SystemClock
from mturk.marketplace import people
from mturk.marketplace.api.authentication import KEY_CACHE_SECONDS, AccessKeyCache
from mturk.marketplace.database import SCHEMA_VERSION
from mturk.marketplace.errors import EntityExists, InvalidParameter, MarketDatabaseError
from mturk.marketplace.market import open_market
from mturk.marketplace.tables.people import AccessKey, Requester
from tests.fakes.clock import NOON
from tests.unit.marketplace.conftest import Stage


def test_a_market_keeps_what_was_in_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'market.db'}"
    with open_market(url, SystemClock()) as market, market.write() as session:
        people.add_requester(session, "Lab", NOON)
    with open_market(url, SystemClock()) as market, market.read() as session:
        requester = people.find_requester(session, "Lab")
        assert requester is not None
        assert requester.created_at == NOON


def test_what_fails_leaves_nothing_behind_and_readers_change_nothing(stage: Stage) -> None:
    def fail() -> None:
        with stage.market.write() as session:
            people.add_requester(session, "Other", NOON)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with stage.market.read() as session:
        session.add(Requester(id="A1", name="Reader", created_at=NOON))
        session.flush()
    with stage.market.read() as session:
        assert [one.name for one in session.query(Requester)] == ["Lab"]


def test_somebody_elses_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE recipe (name TEXT)")
    with pytest.raises(MarketDatabaseError):
        open_market(f"sqlite:///{file}", SystemClock())
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("recipe",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_database_of_the_version_before_is_brought_along(tmp_path: Path) -> None:
    file = tmp_path / "market.db"
    open_market(f"sqlite:///{file}", SystemClock()).close()
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE submit_pass")
        connection.execute("UPDATE market_release SET version = 1")
    open_market(f"sqlite:///{file}", SystemClock()).close()
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT version FROM market_release").fetchall() == [(SCHEMA_VERSION,)]
        assert connection.execute("SELECT * FROM submit_pass").fetchall() == []


def test_a_database_is_for_its_owners_eyes_only(tmp_path: Path) -> None:
    file = tmp_path / "market.db"
    with open_market(f"sqlite:///{file}", SystemClock()):
        assert [one.stat().st_mode & 0o777 for one in tmp_path.iterdir()] == [0o600] * len(list(tmp_path.iterdir()))


def test_a_database_of_another_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "market.db"
    open_market(f"sqlite:///{file}", SystemClock()).close()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE market_release SET version = 99")
    with pytest.raises(MarketDatabaseError):
        open_market(f"sqlite:///{file}", SystemClock())


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
        open_market(url, SystemClock())


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\nb"])
def test_names_that_nobody_can_read_are_refused(stage: Stage, name: str) -> None:
    with stage.market.write() as session:
        for make in (people.add_requester, people.add_worker):
            with pytest.raises(InvalidParameter):
                make(session, name, NOON)


def test_people_are_checked_before_they_are_added(stage: Stage) -> None:
    with stage.market.write() as session:
        with pytest.raises(EntityExists):
            people.add_requester(session, "Lab", NOON)
        with pytest.raises(InvalidParameter):
            people.add_worker(session, "Ann", NOON, country="usa")
        for cents in (0, -1):
            with pytest.raises(InvalidParameter):
                people.deposit(session, stage.requester, cents, NOON)


def test_a_key_that_was_removed_opens_nothing_after_half_a_minute(stage: Stage) -> None:
    seconds = [0.0]
    ring = AccessKeyCache(stage.market, lambda: seconds[0])
    with stage.market.write() as session:
        key = people.add_key(session, stage.requester, NOON)
    assert key.secret not in repr(key)
    assert ring.secret(key.id) == key.secret
    assert ring.requester(key.id).id == stage.requester.id
    with stage.market.write() as session:
        session.query(AccessKey).delete()
    assert ring.secret(key.id) == key.secret
    seconds[0] = KEY_CACHE_SECONDS
    assert ring.secret(key.id) is None
    with pytest.raises(LookupError):
        ring.requester(key.id)
