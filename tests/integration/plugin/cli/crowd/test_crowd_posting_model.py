"""Creation HITs are posted only if the ML backend answers for their round."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from common.clock import SystemClock
from common.text import dollars
from ml_backend.serving.middleware import BasicAuth
from ml_backend.serving.service import VerdictService
from ml_backend.serving.web import backend_app
from plugin.crowd import OURS
from tests.fakes.model_provider import FakeModelProvider
from tests.fakes.own_page import OwnPage
from tests.fakes.sink import ListSink
from tests.fakes.target import FakeTarget
from tests.integration.plugin.cli.crowd.shop import EACH, SENTIMENT, Shop
from tests.integration.plugin.web.work.office import Served
from tests.integration.round_manager.work.floor import pack_of

POST = ("post", SENTIMENT, "--kind", "create", "--hits", 1)
UNKNOWN_HIT = 409


@pytest.fixture(autouse=True)
def _pages(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Our pages answer, and no ML backend does."""
    with OwnPage(UNKNOWN_HIT, **{OURS: "1"}) as page:
        monkeypatch.delenv("OUTFOX_HIT_PAGE_URL")
        monkeypatch.setenv("OUTFOX_WEB_URL", page.url)
        monkeypatch.setenv("OUTFOX_ML_BACKEND_URL", "http://127.0.0.1:9")
        yield


@pytest.fixture
def shelf() -> FakeModelProvider:
    """What the ML backend has loaded: nothing yet."""
    return FakeModelProvider()


def backend_for(task: str, shelf: FakeModelProvider) -> Any:
    """An ML backend for one task, which asks for a password."""
    service = VerdictService({task: pack_of(task)}, shelf, ListSink(), SystemClock())
    return backend_app(service, auth=BasicAuth("web", "pass"))


@pytest.fixture
def backend(shelf: FakeModelProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """An ML backend that serves the task."""
    served = Served(backend_for(SENTIMENT, shelf))
    monkeypatch.setenv("OUTFOX_ML_BACKEND_URL", served.url)
    monkeypatch.setenv("OUTFOX_ML_BACKEND_AUTH", "web:pass")
    yield served
    served.stop()


def test_without_an_ml_backend_no_creation_hits_are_posted(shop: Shop) -> None:
    assert shop.refused(*POST, "--yes", code=3) == "backend_unreachable"
    assert (shop.figures().reserved_cents, shop.spent()) == (0, 0)
    assert shop.asked("post", SENTIMENT, "--kind", "validate", "--hits", 1, "--yes")["posted"] == 1
    assert shop.asked(*POST, "--yes", "--no-check-page")["posted"] == 1


def test_a_dry_run_prints_the_cost_and_warns_about_an_unreachable_ml_backend(shop: Shop) -> None:
    text = " ".join(shop.text(*POST, "--dry-run").split())
    for words in (
        "$0.45 each, and up to $0.60 in bonuses",
        f"total, at most {dollars(EACH)}",
        "round 1 $",
        "warning: the ML backend at http://127.0.0.1:9 does not answer",
        "outfox ml-backend",
        "nothing was reserved or posted",
    ):
        assert words in text
    answer = shop.asked(*POST, "--dry-run")
    assert (answer["quote"]["total_cents"], len(answer["warnings"])) == (EACH, 1)
    assert (shop.figures().reserved_cents, shop.spent()) == (0, 0)


@pytest.mark.usefixtures("backend")
def test_a_backend_that_has_the_rounds_model_is_enough(shop: Shop, shelf: FakeModelProvider) -> None:
    assert shop.refused(*POST, "--yes", code=3) == "round_not_served"
    shelf.place(SENTIMENT, FakeTarget(pack_of(SENTIMENT).spec, "v1"), round=1)
    assert shop.asked(*POST, "--yes")["posted"] == 1


@pytest.mark.usefixtures("backend")
def test_a_wrong_backend_password_is_an_error(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_ML_BACKEND_AUTH", "web:wrong")
    assert shop.refused(*POST, "--yes") == "backend_misconfigured"


def test_a_task_that_the_backend_does_not_serve_is_reported_here_and_by_the_doctor(
    shop: Shop, shelf: FakeModelProvider, backend: Served
) -> None:
    backend.exchange(backend_for("nli", shelf))
    assert shop.refused(*POST, "--yes") == "backend_misconfigured"
    found = {one["what"]: one for one in json.loads(shop.outfox("doctor", "--json").out)}
    assert found["model for sentiment"]["state"] == "warning"
    assert "does not serve sentiment" in found["model for sentiment"]["advice"]


def test_hits_planned_earlier_are_not_sent_without_a_model(shop: Shop) -> None:
    shop.planned_hit()
    assert shop.refused("post", SENTIMENT, code=3) == "backend_unreachable"


@pytest.mark.usefixtures("backend")
def test_the_manager_waits_for_the_rounds_model_and_says_so(shop: Shop, shelf: FakeModelProvider) -> None:
    shop.planned_hit()

    def managed() -> Any:
        ran = shop.outfox("manage", "--once", "--json", "--skip", "supply")
        assert ran.code == 0, ran.err
        return {one["step"]: one for one in json.loads(ran.out)}["post"]

    assert "1 HIT to create for sentiment: the ML backend" in managed()["waits"]
    waits = [one["waits"] for one in json.loads(shop.outfox("status", "--json").out)["manager"]["waiting"]]
    assert ["has no model for round 1 of sentiment yet" in one for one in waits] == [True]
    shelf.place(SENTIMENT, FakeTarget(pack_of(SENTIMENT).spec, "v1"), round=1)
    assert managed()["did"] == "1 HIT posted"
    assert json.loads(shop.outfox("status", "--json").out)["manager"]["waiting"] == []


def test_a_server_that_is_not_an_ml_backend_is_an_error(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with OwnPage() as something:
        monkeypatch.setenv("OUTFOX_ML_BACKEND_URL", something.url)
        assert shop.refused(*POST, "--yes") == "backend_misconfigured"
