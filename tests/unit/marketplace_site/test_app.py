"""Both sides at one address."""

from pathlib import Path

import pytest
from werkzeug.test import Client

from common.clock import SystemClock
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.database import SCHEMA_VERSION
from mturk.marketplace.errors import InvalidParameter
from mturk.marketplace.market import open_market
from mturk.marketplace.site.auth import MAX_WRONG_LINKS
from mturk.marketplace.urls import public_address
from tests.unit.marketplace_site.stage import SITE, Stage


def test_programs_get_the_requester_api_and_browsers_the_site(stage: Stage) -> None:
    client = Client(marketplace_app(stage.market, public_url=SITE))
    called = client.post("/", headers={"X-Amz-Target": "MTurkRequesterServiceV20170117.GetAccountBalance"}, data="{}")
    assert called.content_type == "application/x-amz-json-1.1"
    assert called.status_code in (400, 403)
    assert "Outfox Crowd" in client.get("/").text
    assert "Method Not Allowed" in client.post("/", data={"a": "b"}).text


def test_health_tells_whether_the_database_answers(tmp_path: Path) -> None:
    file = tmp_path / "market.db"
    with open_market(f"sqlite:///{file}", SystemClock()) as market:
        client = Client(marketplace_app(market, public_url=SITE))
        assert client.get("/health").json == {"status": "UP", "version": SCHEMA_VERSION}
        market.close()
        file.write_bytes(b"")
        answer = client.get("/health")
        assert (answer.status_code, answer.json) == (503, {"status": "DOWN", "error": "the database does not answer"})


def test_behind_a_proxy_visitors_are_told_apart_and_in_front_of_none_nobody_can_lie(stage: Stage) -> None:
    for proxies, status in ((1, 404), (0, 429)):
        client = Client(marketplace_app(stage.market, public_url=SITE, proxies=proxies))
        for number in range(MAX_WRONG_LINKS):
            client.get(f"/join/{number}", headers={"X-Forwarded-For": "192.0.2.1"})
        assert client.get("/join/x", headers={"X-Forwarded-For": "192.0.2.2"}).status_code == status


@pytest.mark.parametrize("url", ["", "crowd.example", "ftp://x", "http://", "http://u:p@x", "http://x/a", "http://x:y"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidParameter):
        public_address(url)


@pytest.mark.parametrize("url", ["https://crowd.example", "https://crowd.example/", " https://crowd.example "])
def test_an_address_is_written_in_one_way(url: str) -> None:
    assert public_address(url) == "https://crowd.example"
