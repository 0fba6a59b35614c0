"""The HITs' page is checked before money is reserved."""

from collections.abc import Iterator

import pytest

from plugin.crowd import OURS
from tests.fakes.own_page import OwnPage
from tests.integration.plugin.cli.crowd.crowd_commands import EACH, SENTIMENT, CrowdCommands

POST = ("post", SENTIMENT, "--kind", "create", "--hits", 1)
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def answer() -> Iterator[OwnPage]:
    """A page server whose response the test sets."""
    with OwnPage() as page:
        yield page


def _at_our_pages(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.delenv("OUTFOX_HIT_PAGE_URL")
    monkeypatch.setenv("OUTFOX_WEB_URL", url)


def test_unreachable_pages_are_reported_and_nothing_is_reserved(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    _at_our_pages(monkeypatch, NOWHERE)
    assert commands.error_code(*POST, "--yes", code=3) == "pages_unreachable"
    (warning,) = commands.run_json(*POST, "--dry-run")["warnings"]
    for words in (f"{NOWHERE}/hits", "OUTFOX_WEB_URL", "--no-check-page"):
        assert words in warning
    assert (commands.figures().reserved_cents, commands.spent()) == (0, 0)


def test_a_page_that_only_this_machine_cannot_reach_can_be_posted(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    _at_our_pages(monkeypatch, NOWHERE)
    assert commands.run_json(*POST, "--yes", "--no-check-page")["posted"] == 1
    assert commands.figures().reserved_cents == EACH


@pytest.mark.parametrize(
    ("status", "headers", "code", "error"),
    [
        (200, {}, 2, "pages_misconfigured"),
        (404, {}, 2, "pages_misconfigured"),
        (401, {OURS: "1"}, 2, "pages_misconfigured"),
        (503, {OURS: "1"}, 3, "pages_unreachable"),
        (502, {}, 3, "pages_unreachable"),
        (404, {OURS: "1"}, 2, "pages_misconfigured"),
    ],
)
def test_a_page_that_cannot_show_hits_is_an_error(
    commands: CrowdCommands,
    monkeypatch: pytest.MonkeyPatch,
    answer: OwnPage,
    status: int,
    headers: dict[str, str],
    code: int,
    error: str,
) -> None:
    answer.status, answer.headers = status, headers
    _at_our_pages(monkeypatch, answer.url)
    assert commands.error_code(*POST, "--yes", code=code) == error
    assert commands.figures().reserved_cents == 0


def test_an_untrusted_certificate_is_an_error(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch, answer: OwnPage
) -> None:
    _at_our_pages(monkeypatch, answer.url.replace("http:", "https:"))
    assert commands.error_code(*POST, "--yes") == "pages_misconfigured"


def test_an_invalid_page_address_is_an_error(commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_HIT_PAGE_URL", "our.page/hits")
    assert commands.error_code(*POST, "--yes") == "pages_misconfigured"


def test_the_owners_own_page_only_has_to_respond(commands: CrowdCommands, page: OwnPage) -> None:
    asked = len(page.asked)
    page.status = 404  # It knows no HIT yet.
    try:
        assert commands.post_hits(1)["posted"] == 1
    finally:
        page.status = 200
    (looked,) = page.asked[asked:]
    assert looked.startswith("/hits/00000000000000000000000000000000?key=")
    assert looked.endswith("assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE")
    commands.run_text("post", SENTIMENT)
    assert len(page.asked) == asked + 1, "pages are not checked if there is nothing to post"
