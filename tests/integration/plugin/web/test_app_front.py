"""The front page at the web app's bare address."""

from html.parser import HTMLParser

import pytest
import requests

from plugin.web.app import front_page, web_app
from round_manager.database.store import LazyStore
from tests.integration.plugin.web.conftest import SECRETS, Web, WebProcess

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


class Links(HTMLParser):
    """Everything that a page loads or leads to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [str(value) for name, value in attrs if name in ("href", "src")]


@pytest.mark.parametrize("accept", ["*/*", "application/json", "", "application/json, text/plain, */*"])
def test_programs_get_json(web_process: WebProcess, accept: str) -> None:
    answer = requests.get(f"{web_process.process.url}/", headers={"Accept": accept}, timeout=30)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.json()["health"] == "/health"


def test_a_person_sees_what_this_is_and_where_to_go(web_process: WebProcess) -> None:
    answer = requests.get(f"{web_process.process.url}/", headers={"Accept": BROWSER}, timeout=30)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    text = " ".join(answer.text.split())
    for told in ("There is nothing to log in to here", "outfox status", "/data/TASK", "Running", "docs"):
        assert told in text
    for link in Links(answer.text).found:
        if not link.startswith("data:"):
            assert requests.get(f"{web_process.process.url}{link}", timeout=30).status_code == 200, link
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert "Accept" in answer.headers["Vary"]


def test_the_front_page_shows_no_task_names_and_no_secrets(web_process: WebProcess) -> None:
    for accept in (BROWSER, "application/json"):
        text = requests.get(f"{web_process.process.url}/", headers={"Accept": accept}, timeout=30).text
        for secret in ("sentiment", str(web_process.settings.home_path), web_process.settings.database, *SECRETS):
            assert secret not in text


def test_an_unhealthy_server_links_to_its_health_page(web: Web) -> None:
    lazy_store = LazyStore("sqlite:////no/such/folder/outfox.db")
    client = web_app(lazy_store, web.intake, SECRETS, pages=[front_page(lazy_store)]).test_client()
    answer = client.get("/", headers={"Accept": BROWSER})
    assert answer.status_code == 200
    assert "Not ready" in answer.text
    assert '<a href="/health">its health</a>' in answer.text
    assert "/no/such/folder" not in answer.text
