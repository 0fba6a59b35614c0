"""The client's address behind proxies, and that it is stored and logged nowhere."""

import logging
from pathlib import Path

import pytest
from sqlalchemy import text

from round_manager.models import PageAddress, Table
from round_manager.work.addresses import AddressHasher
from tests.integration.plugin.web.work.work_site import SECRET, Page, WorkSite

CLIENT, FORGED, PROXY = "203.0.113.77", "198.51.100.9", "192.0.2.1"
HASHER = AddressHasher(SECRET)

# One kind is enough: tests of the domain run the statements on each.
pytestmark = pytest.mark.any_database


def behind(site: WorkSite, proxies: int) -> WorkSite:
    site.settings = site.settings.model_copy(update={"web_proxies": proxies})
    site.restart()
    return site


def call(page: Page, forwarded: str) -> str:
    """Read the page's state through proxies that add this header; return it as text."""
    answer = page.call("GET", "/state", headers={**page.headers, "X-Forwarded-For": forwarded})
    assert answer.status_code == 200, answer.text
    return answer.text


def stored(site: WorkSite) -> list[str]:
    return [row.address for row in site.campaign.rows(PageAddress)]


@pytest.mark.parametrize(
    ("proxies", "forwarded", "client"),
    [
        (0, CLIENT, None),
        (1, CLIENT, CLIENT),
        (1, f"{FORGED}, {CLIENT}", CLIENT),
        (2, f"{FORGED}, {CLIENT}, {PROXY}", CLIENT),
        (2, CLIENT, None),
        (1, "not an address", None),
    ],
)
def test_only_what_trusted_proxies_say_about_a_client_is_believed(
    site: WorkSite, proxies: int, forwarded: str, client: str | None
) -> None:
    call(behind(site, proxies).open("W1"), forwarded)
    # The socket's own address is this machine's, which is not stored.
    assert stored(site) == ([HASHER.hash(client)] if client else [])


def test_an_address_is_nowhere_in_the_database_the_logs_or_what_workers_read(
    site: WorkSite, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with caplog.at_level(logging.DEBUG):
        page = behind(site, 1).open("W1")
        read = call(page, CLIENT)
    (found,) = stored(site)
    with site.campaign.store.read() as session:
        tables = [str(session.execute(text(f'SELECT * FROM "{name}"')).all()) for name in Table.metadata.tables]
    logged = [str(record.__dict__) for record in caplog.records]
    assert logged
    assert not [one for one in (*tables, *logged, read, str(page.setup)) if CLIENT in one]
    assert not [one for one in (*logged, read, str(page.setup)) if found in one]
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert not [content for content in files if CLIENT.encode() in content]
