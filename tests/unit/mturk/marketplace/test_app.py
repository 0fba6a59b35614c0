"""The API and the site at one URL."""

from pathlib import Path

from werkzeug.test import Client

from common.clock import SystemClock
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.database import SCHEMA_VERSION
from mturk.marketplace.market import open_market
from mturk.marketplace.site.auth import MAX_WRONG_LINKS
from tests.fakes.market import SITE, StillWorld


def test_programs_reach_the_requester_api_and_browsers_the_site(world: StillWorld) -> None:
    client = Client(marketplace_app(world.market, public_url=SITE))
    called = client.post("/", headers={"X-Amz-Target": "MTurkRequesterServiceV20170117.GetAccountBalance"}, data="{}")
    assert called.content_type == "application/x-amz-json-1.1"
    assert called.status_code in (400, 403)
    assert "Outfox Crowd" in client.get("/").text
    assert client.post("/", data={"a": "b"}).status_code == 405


def test_health_reports_whether_the_database_answers(tmp_path: Path) -> None:
    file = tmp_path / "market.db"
    with open_market(f"sqlite:///{file}", SystemClock()) as market:
        client = Client(marketplace_app(market, public_url=SITE))
        assert client.get("/health").json == {"status": "UP", "version": SCHEMA_VERSION}
        market.close()
        file.write_bytes(b"")
        response = client.get("/health")
        assert (response.status_code, dict(response.json or {})["status"]) == (503, "DOWN")


def test_forwarded_addresses_are_trusted_only_behind_a_proxy(world: StillWorld) -> None:
    for proxies, status in ((1, 404), (0, 429)):
        client = Client(marketplace_app(world.market, public_url=SITE, proxies=proxies))
        for number in range(MAX_WRONG_LINKS):
            client.get(f"/join/{number}", headers={"X-Forwarded-For": "192.0.2.1"})
        assert client.get("/join/x", headers={"X-Forwarded-For": "192.0.2.2"}).status_code == status
