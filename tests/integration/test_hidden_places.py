"""No route of the three servers tells a stranger where anything is, nor answers with a 500, whatever is broken."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.routing import Map
from werkzeug.test import Client, TestResponse

from common.clock import SystemClock
from common.database_engine import DatabaseLimits
from ml_backend.errors import NotServed
from ml_backend.registry.model_pool import ModelPoolState, ServedModels
from ml_backend.serving.auth import BasicAuth
from ml_backend.serving.outbox import SinkState
from ml_backend.serving.service import VerdictService
from ml_backend.serving.web import backend_app
from ml_backend.verdict import VerdictSigner
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.database import open_engine
from mturk.marketplace.market import Market, open_market
from mturk.marketplace.site.app import worker_site
from plugin.settings import Settings
from plugin.web.app import ServeProcess
from plugin.wiring import Application
from round_manager.database.store import open_store
from tests.campaign import start_campaign
from tests.campaign.base import built_in_pack
from tests.fakes.clock import SettableClock
from tests.fakes.sink import ListSink
from tests.integration.databases import Databases

HIDDEN = "hidden-place"
# Refused at once: nothing listens there.
AWAY = f"postgresql://{HIDDEN}@127.0.0.1:1/{HIDDEN}"
SECRET = "a-secret-that-signs-what-the-servers-exchange"
TASK = "sentiment"
VALUES = {
    "task": TASK,
    "number": 1,
    "round_number": 1,
    "item": 0,
    "name": "examples.csv",
    "hit": "HIT1",
    "table": "ranking",
    "form": "csv",
}
ACCEPTS = ("application/json", "text/html")
QUICK = DatabaseLimits(connections=4, lock=0.2, statement=1.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / HIDDEN
    folder.mkdir()
    return folder


def paths(rules: Map) -> Iterator[tuple[str, str]]:
    """Every route's methods, with a path that a stranger could try."""
    adapter = rules.bind("localhost")
    for rule in rules.iter_rules():
        values = {name: VALUES.get(name, "nothing") for name in rule.arguments}
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield method, adapter.build(rule.endpoint, values, method=method)
    yield "GET", "/no/such/route"
    yield "POST", "/no/such/route"


def walk(client: Client, rules: Map, hidden: tuple[str, ...]) -> dict[str, TestResponse]:
    """Ask every route as a stranger; return the answers to programs."""
    answers = {}
    for method, path in paths(rules):
        for accept in ACCEPTS:
            answer = client.open(path, method=method, headers={"Accept": accept}, data=b"{}")
            assert answer.status_code < 500 or answer.status_code == 503, f"{method} {path}: {answer.status}"
            told = f"{answer.headers}\n{answer.get_data(as_text=True)}"
            for place in (HIDDEN, *hidden):
                assert place not in told, f"{method} {path} tells {place}"
            if answer.status_code == 503 and path != "/health":
                assert answer.headers["Retry-After"], f"{method} {path}"
            if accept == ACCEPTS[0]:
                answers[f"{method} {path}"] = answer
    return answers


@pytest.mark.parametrize("state", ["working", "missing", "corrupt", "away"])
def test_the_web_app_tells_no_place(home: Path, sqlite_databases: Databases, state: str) -> None:
    file = home / "outfox.db"
    if state == "corrupt":
        file.write_text("no database " * 1_000)
    elif state == "working":
        sqlite_databases.lay_tables(f"sqlite:///{file}")
        with open_store(f"sqlite:///{file}") as store:
            start_campaign(store, label_studio=True)
    settings = Settings(
        home=str(home),
        database_url=AWAY if state == "away" else "",
        secret=SECRET,
        ml_backend_url=f"http://{HIDDEN}:9",
        label_studio_url=f"http://{HIDDEN}:9",
        crowd_url=f"http://{HIDDEN}:9",
        crowd_site_url="https://workers.example.org",
    )
    process = ServeProcess(Application(settings), home, sync_every=60.0)
    answers = walk(process.app.test_client(), process.app.url_map, (str(home.parent), "127.0.0.1"))
    process.close(5.0)
    assert answers["GET /health"].status_code == (200 if state == "working" else 503)


@pytest.mark.parametrize("state", ["working", "corrupt", "away"])
def test_the_marketplace_tells_no_place(home: Path, state: str) -> None:
    file = home / "market.db"
    with open_market(f"sqlite:///{file}", SystemClock(), QUICK) as made:
        market: Market = made
        if state == "corrupt":
            made.close()
            file.write_text("no database " * 1_000)
        elif state == "away":
            market = Market(open_engine(AWAY, QUICK), SystemClock(), QUICK)
        address = "https://workers.example.org"
        client = Client(marketplace_app(market, public_url=address))
        client.set_cookie("__Host-outfox_login", "somebody")
        answers = walk(client, worker_site(market, address).url_map, (str(home.parent), "127.0.0.1"))
        assert client.get("/health").status_code == (200 if state == "working" else 503)
        target = {"X-Amz-Target": "MTurkRequesterServiceV20170117.GetAccountBalance"}
        signed = "AWS4-HMAC-SHA256 Credential=AK/20260101/us-east-1/mturk-requester/aws4_request, SignedHeaders=host"
        for headers in (
            target,
            {**target, "Authorization": f"{signed}, Signature=00", "X-Amz-Date": "20260101T000000Z"},
        ):
            answer = client.post("/", data=b"{}", headers=headers)
            assert answer.status_code < 500 or answer.status_code == 503
            assert HIDDEN not in answer.text
        assert answers
        market.close()


class BrokenModels:
    """Models that cannot be loaded, for reasons that name places."""

    def models_for(self, task: str, round: int | None = None) -> ServedModels:
        raise NotServed(f"/srv/{HIDDEN}/models/{task} is corrupt")

    def state(self) -> ModelPoolState:
        return ModelPoolState((), (), f"s3://{HIDDEN}/models does not answer", None)


class UndeliveredSink(ListSink):
    """A sink whose forwarder reports the database's address."""

    def state(self) -> SinkState:
        return SinkState(waiting=3, error=f"cannot connect to PostgreSQL (host {HIDDEN})")


@pytest.mark.parametrize("auth", [None, BasicAuth("web", "password")])
def test_the_ml_backend_tells_no_place(auth: BasicAuth | None) -> None:
    packs = {TASK: built_in_pack(TASK)}
    service = VerdictService(packs, BrokenModels(), UndeliveredSink(), SettableClock())
    app = backend_app(service, auth=auth, signer=VerdictSigner((SECRET,)))
    answers = walk(app.test_client(), app.url_map, (str(Path.cwd()),))
    assert answers["GET /health"].status_code == 503
    predicted = app.test_client().post(f"/tasks/{TASK}/predict", json={"tasks": [], "project": "1.2"})
    assert HIDDEN not in predicted.text
    assert predicted.status_code in (401, 400, 503)


def test_those_who_know_the_password_read_why(caplog: pytest.LogCaptureFixture) -> None:
    service = VerdictService({TASK: built_in_pack(TASK)}, BrokenModels(), UndeliveredSink(), SettableClock())
    client = backend_app(service, auth=BasicAuth("web", "password")).test_client()
    status: Any = client.get("/status", auth=("web", "password")).json
    assert HIDDEN in status["sink"]["error"]
    assert client.get(f"/tasks/{TASK}/health", auth=("web", "password")).status_code == 503
    # So do those who read the log.
    assert HIDDEN in str([vars(record).get("data") for record in caplog.records])
