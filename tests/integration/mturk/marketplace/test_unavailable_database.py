"""A marketplace whose database is stopped, locked or full: 503 in time, and a health check that says DOWN."""

import os
import time
from pathlib import Path

import pytest
from werkzeug.test import Client

from common.clock import SystemClock
from common.database_engine import DatabaseLimits
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.errors import MarketBusy
from mturk.marketplace.market import open_market
from tests.fakes.http_server import busy_server
from tests.fakes.market import SITE, MarketServer
from tests.integration.databases import Databases, StoppablePostgresql

# A second, and another two for a slow machine.
IN_TIME = 3.0
QUICK = DatabaseLimits(connections=2, connect=2.0, lock=0.2, statement=0.5)


def check_health(client: Client) -> tuple[int, str]:
    began = time.monotonic()
    answer = client.get("/health")
    assert time.monotonic() - began < IN_TIME
    body = answer.get_json()
    return answer.status_code, body["status"]


def wait_until_up(client: Client) -> None:
    """Wait for a machine that may be too busy to check in time."""
    end = time.monotonic() + 20
    while check_health(client) != (200, "UP"):
        assert time.monotonic() < end


@pytest.mark.xdist_group("stoppable-postgresql")
def test_a_stopped_postgresql_is_a_503_and_down_in_time(stoppable_postgresql: StoppablePostgresql) -> None:
    with open_market(stoppable_postgresql.empty(), SystemClock(), QUICK) as market:
        client = Client(marketplace_app(market, public_url=SITE))
        wait_until_up(client)
        with stoppable_postgresql.stopped():
            assert check_health(client) == (503, "DOWN")
            began = time.monotonic()
            page = client.get("/join/nothing")
            assert (page.status_code, page.headers["Retry-After"]) == (503, "2")
            assert time.monotonic() - began < 8
        wait_until_up(client)
        assert client.get("/join/nothing").status_code == 404


def test_a_locked_database_is_busy_and_up(databases: Databases) -> None:
    url = databases.empty()
    with open_market(url, SystemClock()) as holder, open_market(url, SystemClock(), QUICK) as market:
        client = Client(marketplace_app(market, public_url=SITE))
        with holder.write():
            wait_until_up(client)
            with pytest.raises(MarketBusy) as caught, market.write():
                pass
        assert caught.value.retry
        with market.write():
            pass


def test_health_is_answered_while_all_threads_are_busy(databases: Databases) -> None:
    with (
        open_market(databases.empty(), SystemClock(), QUICK) as market,
        busy_server(marketplace_app(market, public_url=SITE)) as server,
    ):
        assert server.get("/health", timeout=IN_TIME)[0] == 200


def test_a_full_disk_is_down(small_disk: Path) -> None:
    with open_market(f"sqlite:///{small_disk / 'market.db'}", SystemClock(), QUICK) as market:
        client = Client(marketplace_app(market, public_url=SITE))
        wait_until_up(client)
        disk = os.statvfs(small_disk)
        (small_disk / "filler").write_bytes(b"x" * (disk.f_bavail * disk.f_frsize))
        assert check_health(client) == (503, "DOWN")
        (small_disk / "filler").unlink()
        wait_until_up(client)


def test_programs_read_that_they_may_try_again(any_databases: Databases) -> None:
    with MarketServer(any_databases.empty()) as server:
        server.market._limits = QUICK
        server.market._turn.acquire()
        client = server.client()
        with pytest.raises(client.exceptions.ClientError) as caught:
            client.notify_workers(Subject="s", MessageText="m", WorkerIds=["A1"])
        server.market._turn.release()
        response = caught.value.response
        assert (response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]) == (503, "ServiceFault")
        assert response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "2"
