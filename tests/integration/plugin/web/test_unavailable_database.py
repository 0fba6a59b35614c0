"""A database that is stopped, full or read-only: requests get a 503 in time, and the health check says DOWN."""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from uuid import uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import NullPool, create_engine, make_url, text

from plugin.cli.servers import OPENINGS
from plugin.crowd import HitLinks
from plugin.settings import Settings
from plugin.web.app import ServeProcess, web_app
from plugin.wiring import Application
from round_manager.database.store import LazyStore, open_store
from tests.campaign import start_campaign
from tests.fakes.http_server import RunningServer, busy_server
from tests.integration.databases import Databases, StoppablePostgresql
from tests.integration.plugin.web.conftest import SECRETS, headers_for

# A second, and another two for a slow machine.
IN_TIME = 3.0
NOBODY = 65_534


@contextmanager
def serving(home: Path, url: str) -> Iterator[FlaskClient]:
    """The whole web app on a database, with its own limits."""
    settings = Settings(
        home=str(home), database_url=url, secret=" ".join(SECRETS), database_request_seconds=0.5, database_connections=3
    )
    process = ServeProcess(Application(settings), settings.make_home(), sync_every=60.0)
    # The result of a health check is not kept, so that each request checks again.
    process._application.lazy_store.health._keep = 0.0
    yield process.app.test_client()
    process.close(5.0)


def health(client: FlaskClient) -> tuple[int, str, str]:
    """Return the status, the state and the code of the health check; it answers in time."""
    began = time.monotonic()
    answer = client.get("/health")
    assert time.monotonic() - began < IN_TIME
    body = answer.get_json()
    return answer.status_code, body["status"], body.get("code", "")


def wait_until_up(client: FlaskClient) -> None:
    """Wait for a machine that may be too busy to check in time."""
    end = time.monotonic() + 20
    while health(client)[:2] != (200, "UP"):
        assert time.monotonic() < end


def test_health_is_answered_while_all_threads_are_busy(tmp_path: Path, sqlite_databases: Databases) -> None:
    with serving(tmp_path, sqlite_databases.migrated()) as client, busy_server(client.application) as server:
        assert server.get("/health", timeout=IN_TIME)[0] == 200


@pytest.mark.xdist_group("stoppable-postgresql")
def test_a_stopped_postgresql_is_a_503_and_down_in_time(
    tmp_path: Path, stoppable_postgresql: StoppablePostgresql
) -> None:
    url, body = stoppable_postgresql.migrated(), b'{"tries": []}'
    with serving(tmp_path, url) as client:
        wait_until_up(client)
        with stoppable_postgresql.stopped():
            assert health(client) == (503, "DOWN", "health_unknown")
            # The check still hangs, and is not waited for again.
            assert health(client) == (503, "DOWN", "health_unknown")
            for path in ("/data/sentiment", "/hits/nothing"):
                began = time.monotonic()
                answer = client.get(path)
                assert time.monotonic() - began < 8
                assert (answer.status_code, answer.headers.get("Retry-After")) in ((503, "2"), (409, None), (401, None))
            answer = client.post("/api/attempts", data=body, headers=headers_for(body, time.time()))
            assert (answer.status_code, answer.headers["Retry-After"], answer.get_json()["retry"]) == (503, "2", True)
        wait_until_up(client)
        assert client.post("/api/attempts", data=body, headers=headers_for(body, time.time())).status_code == 200


@pytest.mark.xdist_group("stoppable-postgresql")
def test_pages_that_wait_to_be_opened_do_not_each_try_a_stopped_postgresql(
    tmp_path: Path, stoppable_postgresql: StoppablePostgresql
) -> None:
    path, waiting = HitLinks("/hits", SECRETS).url_of(uuid4()), 12

    def open_page(port: int) -> tuple[int, str | None]:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.headers["Retry-After"]
        finally:
            connection.close()

    with serving(tmp_path, stoppable_postgresql.migrated()) as client:
        wait_until_up(client)
        with (
            RunningServer(client.application, one_by_one=OPENINGS) as server,
            ThreadPoolExecutor(waiting) as threads,
        ):
            with stoppable_postgresql.stopped():
                began = time.monotonic()
                assert set(threads.map(open_page, [server.port] * waiting)) == {(503, "2")}
                # The driver waits for two seconds at least, for each of them if they try one after the other.
                assert time.monotonic() - began < 1.5 * waiting
            wait_until_up(client)
            # There is no such HIT, says the database.
            assert open_page(server.port) == (409, None)


def test_a_killed_postgresql_is_down_at_once(tmp_path: Path, postgresql_databases: Databases) -> None:
    url = postgresql_databases.migrated()
    with serving(tmp_path, url) as client:
        wait_until_up(client)
        postgresql_databases.drop(url)
        assert health(client)[:2] == (503, "DOWN")
        assert client.get("/data/sentiment").status_code == 503


def test_a_postgresql_that_accepts_no_changes_is_down(tmp_path: Path, postgresql_databases: Databases) -> None:
    url, reader = make_url(postgresql_databases.migrated()), f"reader_{uuid4().hex}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text(f"CREATE ROLE {reader} LOGIN"))
        connection.execute(text(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}"))
    with serving(tmp_path, url.set(username=reader).render_as_string(hide_password=False)) as client:
        assert health(client) == (503, "DOWN", "store_read_only")


def test_a_full_disk_is_down(small_disk: Path, sqlite_databases: Databases) -> None:
    url = f"sqlite:///{small_disk / 'outfox.db'}"
    sqlite_databases.lay_tables(url)
    with open_store(url) as store:
        campaign = start_campaign(store)
    with serving(small_disk, url) as client:
        wait_until_up(client)
        disk = os.statvfs(small_disk)
        (small_disk / "filler").write_bytes(b"x" * (disk.f_bavail * disk.f_frsize - 100_000))
        assert health(client) == (503, "DOWN", "disk_unusable")
        (small_disk / "rest").write_bytes(b"x" * 90_000)
        # Far more than is left: the database itself refuses it, and the attempts can be sent again.
        records = [campaign.attempt_record().to_json() for _ in range(300)]
        body = json.dumps({"tries": records}).encode()
        answer = client.post("/api/attempts", data=body, headers=headers_for(body, time.time()))
        assert (answer.status_code, answer.get_json()["code"]) == (503, "store_unavailable")
        for name in ("filler", "rest"):
            (small_disk / name).unlink()
        wait_until_up(client)
        answer = client.post("/api/attempts", data=body, headers=headers_for(body, time.time()))
        assert answer.get_json() == {"stored": 300, "refused": []}


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o777, 0o444), (0o555, 0o666)])
def test_a_read_only_file_or_folder_is_down(sqlite_databases: Databases, folder_mode: int, file_mode: int) -> None:
    # Not below pytest's own folder, which only its user may enter.
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, file = Path(name), Path(name) / "outfox.db"
        folder.chmod(0o777)
        sqlite_databases.lay_tables(f"sqlite:///{file}")
        file.chmod(0o666)
        clients = [stack.enter_context(without_threads(folder, f"sqlite:///{file}")) for _ in ("old", "new")]
        with without_root():
            wait_until_up(clients[0])
        file.chmod(file_mode)
        folder.chmod(folder_mode)
        with without_root():
            for client in clients:
                assert health(client)[:2] == (503, "DOWN")
        folder.chmod(0o777)
        file.chmod(0o666)
        with without_root():
            wait_until_up(clients[0])


@contextmanager
def without_threads(home: Path, url: str) -> Iterator[FlaskClient]:
    """The routes for operators alone: the background threads need their files all the time."""
    store = LazyStore(url)
    intake = Application(Settings(home=str(home), secret=" ".join(SECRETS))).attempt_intake(store)
    yield web_app(store, intake, SECRETS).test_client()
    store.close()


@contextmanager
def without_root() -> Iterator[None]:
    """Give up root's permission to write everything, for a while."""
    if os.geteuid():
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
