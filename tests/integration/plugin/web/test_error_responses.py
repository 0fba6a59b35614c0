"""Error responses: a page for people, JSON with a code for programs."""

import re

import pytest

from common.clock import SystemClock
from plugin.web.app import web_app
from plugin.web.data_routes import data_pages
from round_manager.database.store import LazyStore
from tests.integration.plugin.web.conftest import SECRETS, Web
from tests.integration.plugin.web.test_app_front import BROWSER


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/nothing/at/all", 404, "There is nothing here"),
        ("/api/attempts", 405, "Only programs come here"),
    ],
)
def test_a_person_reads_a_page_and_a_program_json(web: Web, path: str, status: int, told: str) -> None:
    page = web.client.get(path, headers={"Accept": BROWSER, "X-Request-ID": "number-7"})
    assert (page.status_code, page.content_type) == (status, "text/html; charset=utf-8")
    assert told in page.text
    assert "number-7" in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for accept in ("*/*", "application/json", ""):
        answer = web.client.get(path, headers={"Accept": accept, "X-Request-ID": "number-7"})
        assert (answer.status_code, answer.content_type) == (status, "application/json")
        name = page.status.partition(" ")[2].title()
        assert answer.json == {
            "error": name,
            "code": name.lower().replace(" ", "_"),
            "retry": False,
            "hint": None,
            "request_id": "number-7",
        }
        assert answer.headers["Vary"] == "Accept"


def test_an_error_page_shows_only_the_request_id(web: Web) -> None:
    def broken() -> str:
        raise ZeroDivisionError("what a worker typed")

    app = web_app(web.lazy_store, web.intake, SECRETS)
    app.add_url_rule("/broken", "broken", broken)
    page = app.test_client().get("/broken", headers={"Accept": BROWSER})
    assert (page.status_code, page.content_type) == (500, "text/html; charset=utf-8")
    assert "Something failed here" in page.text
    assert page.headers["X-Request-ID"] in page.text
    for secret in ("what a worker typed", "ZeroDivisionError", "sentiment", str(web.settings.home_path), *SECRETS):
        assert secret not in page.text
    answer = app.test_client().get("/broken").json
    assert answer is not None
    assert (answer["code"], answer["retry"]) == ("internal_error", True)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/data", 404),
        ("GET", "/data/sentiment/no/such/place", 404),
        ("POST", "/data/sentiment", 405),
        ("DELETE", "/data/sentiment/rounds/1/votes.csv", 405),
    ],
)
def test_data_errors_are_marked_as_not_retryable(web: Web, method: str, path: str, status: int) -> None:
    app = web_app(web.lazy_store, web.intake, SECRETS, pages=[data_pages(web.settings, web.lazy_store, SystemClock())])
    answer = app.test_client().open(path, method=method)
    assert (answer.status_code, (answer.json or {}).get("retry")) == (status, False)


def test_temporarily_unreadable_data_can_be_retried(web: Web) -> None:
    lazy_store = LazyStore("sqlite:////no/such/folder/outfox.db")
    app = web_app(lazy_store, web.intake, SECRETS, pages=[data_pages(web.settings, lazy_store, SystemClock())])
    answer = app.test_client().get("/data/sentiment")
    assert (answer.status_code, (answer.json or {}).get("retry")) == (503, True)


def test_the_requested_path_is_never_part_of_the_error_page(web: Web) -> None:
    page = web.client.get("/<script>alert(1)</script>?q=<img>", headers={"Accept": BROWSER})
    assert page.status_code == 404
    assert not re.search("<script|<img|alert", page.text)


def test_an_unavailable_database_is_reported_without_its_address(web: Web) -> None:
    lazy_store = LazyStore("sqlite:////no/such/folder/outfox.db")
    app = web_app(lazy_store, web.intake, SECRETS, pages=[data_pages(web.settings, lazy_store, SystemClock())])
    page = app.test_client().get("/data/sentiment", headers={"Accept": BROWSER})
    assert (page.status_code, page.content_type) == (503, "text/html; charset=utf-8")
    assert "Not just now" in page.text
    assert "/no/such/folder" not in page.text


def test_a_person_without_a_token_reads_that_the_data_needs_one(web: Web) -> None:
    app = web_app(web.lazy_store, web.intake, SECRETS, pages=[data_pages(web.settings, web.lazy_store, SystemClock())])
    page = app.test_client().get("/data/sentiment", headers={"Accept": BROWSER})
    assert (page.status_code, page.content_type) == (401, "text/html; charset=utf-8")
    assert page.headers["WWW-Authenticate"].startswith("Bearer")
    assert "token" in page.text
    answer = app.test_client().get("/data/sentiment").json
    assert answer is not None
    assert answer["retry"] is False


class BrokenBody:
    """A body that cannot be read, as servers report it for a broken chunk."""

    def read(self, _size: int = -1) -> bytes:
        raise ValueError("not a chunk")


@pytest.mark.parametrize("path", ["/api/attempts"])
def test_a_body_that_breaks_off_is_the_fault_of_the_client(web: Web, path: str) -> None:
    environ = {"wsgi.input": BrokenBody(), "wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    answer = web.client.post(path, environ_overrides=environ)
    assert answer.status_code == 400
    assert answer.json is not None
    assert answer.json["code"] == "bad_request"
