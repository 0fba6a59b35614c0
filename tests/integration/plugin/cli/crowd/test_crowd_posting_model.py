"""Creation HITs are posted only if the ML backend answers for their round."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from common.clock import SystemClock
from common.text import dollars
from ml_backend.serving.auth import BasicAuth
from ml_backend.serving.service import VerdictService
from ml_backend.serving.web import backend_app
from plugin.crowd import OURS
from tests.campaign.base import built_in_pack
from tests.fakes.model_provider import FakeModelProvider
from tests.fakes.own_page import OwnPage
from tests.fakes.sink import ListSink
from tests.fakes.target import FakeTarget
from tests.integration.plugin.cli.crowd.crowd_commands import EACH, SENTIMENT, CrowdCommands
from tests.integration.plugin.web.work.work_site import AppServer

POST = ("post", SENTIMENT, "--kind", "create", "--hits", 1)
UNKNOWN_HIT = 409


@pytest.fixture(autouse=True)
def _pages(commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Our pages answer, and no ML backend does."""
    with OwnPage(UNKNOWN_HIT, **{OURS: "1"}) as page:
        monkeypatch.delenv("OUTFOX_HIT_PAGE_URL")
        monkeypatch.setenv("OUTFOX_WEB_URL", page.url)
        monkeypatch.setenv("OUTFOX_ML_BACKEND_URL", "http://127.0.0.1:9")
        yield


@pytest.fixture
def models() -> FakeModelProvider:
    """What the ML backend has loaded: nothing yet."""
    return FakeModelProvider()


def backend_for(task: str, models: FakeModelProvider) -> Any:
    """An ML backend for one task, which asks for a password."""
    service = VerdictService({task: built_in_pack(task)}, models, ListSink(), SystemClock())
    return backend_app(service, auth=BasicAuth("web", "pass"))


@pytest.fixture
def backend(models: FakeModelProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppServer]:
    """An ML backend that serves the task."""
    served = AppServer(backend_for(SENTIMENT, models))
    monkeypatch.setenv("OUTFOX_ML_BACKEND_URL", served.url)
    monkeypatch.setenv("OUTFOX_ML_BACKEND_AUTH", "web:pass")
    yield served
    served.stop()


def test_without_an_ml_backend_no_creation_hits_are_posted(commands: CrowdCommands) -> None:
    assert commands.error_code(*POST, "--yes", code=3) == "backend_unreachable"
    assert (commands.figures().reserved_cents, commands.spent()) == (0, 0)
    assert commands.run_json("post", SENTIMENT, "--kind", "validate", "--hits", 1, "--yes")["posted"] == 1
    assert commands.run_json(*POST, "--yes", "--no-check-page")["posted"] == 1


def test_a_dry_run_prints_the_cost_and_warns_about_an_unreachable_ml_backend(commands: CrowdCommands) -> None:
    text = " ".join(commands.run_text(*POST, "--dry-run").split())
    for words in (
        "$0.45 each, and up to $0.60 in bonuses",
        f"total, at most {dollars(EACH)}",
        "round 1 $",
        "warning: the ML backend at http://127.0.0.1:9 does not answer",
        "outfox ml-backend",
        "nothing was reserved or posted",
    ):
        assert words in text
    answer = commands.run_json(*POST, "--dry-run")
    assert (answer["quote"]["total_cents"], len(answer["warnings"])) == (EACH, 1)
    assert (commands.figures().reserved_cents, commands.spent()) == (0, 0)


@pytest.mark.usefixtures("backend")
def test_a_backend_that_has_the_rounds_model_is_enough(commands: CrowdCommands, models: FakeModelProvider) -> None:
    assert commands.error_code(*POST, "--yes", code=3) == "round_not_served"
    models.place(SENTIMENT, FakeTarget(built_in_pack(SENTIMENT).spec, "v1"), round=1)
    assert commands.run_json(*POST, "--yes")["posted"] == 1


@pytest.mark.usefixtures("backend")
def test_a_wrong_backend_password_is_an_error(commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_ML_BACKEND_AUTH", "web:wrong")
    assert commands.error_code(*POST, "--yes") == "backend_misconfigured"


def test_a_task_that_the_backend_does_not_serve_is_reported_here_and_by_the_doctor(
    commands: CrowdCommands, models: FakeModelProvider, backend: AppServer
) -> None:
    backend.exchange(backend_for("nli", models))
    assert commands.error_code(*POST, "--yes") == "backend_misconfigured"
    found = {one["what"]: one for one in json.loads(commands.outfox("doctor", "--json").out)}
    assert found["model for sentiment"]["state"] == "warning"
    assert "does not serve sentiment" in found["model for sentiment"]["advice"]


def test_hits_planned_earlier_are_not_sent_without_a_model(commands: CrowdCommands) -> None:
    commands.plan_hits()
    assert commands.error_code("post", SENTIMENT, code=3) == "backend_unreachable"


@pytest.mark.usefixtures("backend")
def test_the_manager_waits_for_the_rounds_model_and_says_so(commands: CrowdCommands, models: FakeModelProvider) -> None:
    commands.plan_hits()

    def managed() -> Any:
        ran = commands.outfox("manage", "--once", "--json", "--skip", "supply")
        assert ran.code == 0, ran.err
        return {one["step"]: one for one in json.loads(ran.out)}["post"]

    assert "1 HIT to create for sentiment: the ML backend" in managed()["waits"]
    waits = [one["waits"] for one in json.loads(commands.outfox("status", "--json").out)["manager"]["waiting"]]
    assert ["has no model for round 1 of sentiment yet" in one for one in waits] == [True]
    models.place(SENTIMENT, FakeTarget(built_in_pack(SENTIMENT).spec, "v1"), round=1)
    assert managed()["did"] == "1 HIT posted"
    assert json.loads(commands.outfox("status", "--json").out)["manager"]["waiting"] == []


def test_a_server_that_is_not_an_ml_backend_is_an_error(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OwnPage() as something:
        monkeypatch.setenv("OUTFOX_ML_BACKEND_URL", something.url)
        assert commands.error_code(*POST, "--yes") == "backend_misconfigured"
