"""A task with an open round, connected to a real Label Studio through a proxy that counts and fails."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests

from common.clock import SystemClock
from plugin.labelstudio.adapter import SdkLabelStudio
from round_manager.database.store import Store, open_store
from round_manager.labelstudio.connection import ConnectedProjects, ConnectionOptions, connect_projects
from round_manager.labelstudio.predictions import PredictionResult, predict_tasks
from round_manager.labelstudio.push import PushResult, fill_projects
from round_manager.labelstudio.status import LabelStudioStatus, find_status
from round_manager.labelstudio.sync import SyncResult, read_projects
from round_manager.models import RoundStatus
from round_manager.tasks.rounds import live_round, open_round
from round_manager.tasks.tasks import create_task, find_task
from templates import BUILT_IN, Pack, find_pack, load_pack
from templates.label_config import read_elements
from templates.payloads import Json, Span, results
from tests.e2e.plugin.labelstudio.backend import CountingBackend, counting_backend
from tests.e2e.plugin.labelstudio.conftest import Studio
from tests.fakes.judge import FakeJudge
from tests.fakes.label_studio_proxy import Proxy, proxy_of
from tests.fakes.target import FakeTarget
from tests.integration.round_manager.database.sample_rows import new_model

SECRETS = ("s" * 32,)
WEB = "http://127.0.0.1:9/outfox"


@dataclass
class Adapter:
    """One task, its database, and the connection to Label Studio."""

    pack: Pack
    store: Store
    studio: Studio
    proxy: Proxy
    backend: CountingBackend
    remote: SdkLabelStudio
    judge: FakeJudge = field(default_factory=FakeJudge)
    clock: SystemClock = field(default_factory=SystemClock)

    @property
    def name(self) -> str:
        return self.pack.spec.name

    def connect(self, **options: Any) -> ConnectedProjects:
        given = {"ml_backend": self.backend.url, "web_url": WEB, **options}
        return connect_projects(self.store, self.remote, self.pack, ConnectionOptions(SECRETS, **given), self.clock)

    def push(self) -> PushResult:
        return fill_projects(self.store, self.remote, self.name, self.clock)

    def sync(self) -> SyncResult:
        return read_projects(self.store, self.remote, self.name, self.judge, self.clock)

    def status(self) -> LabelStudioStatus:
        return find_status(self.store, self.remote, self.name)

    def predict(self, **more: Any) -> PredictionResult:
        predictor = FakeTarget(self.pack.spec, "v1")
        return predict_tasks(self.store, self.remote, self.name, predictor, self.clock, **more)

    def close_round(self) -> None:
        with self.store.write() as session:
            live = live_round(session, find_task(session, self.name).id)
            assert live is not None
            live.status, live.validating_at = RoundStatus.VALIDATING, self.clock.now()
            session.flush()
            live.status, live.closed_at = RoundStatus.CLOSED, self.clock.now()

    def rows(self, model: type[Any]) -> list[Any]:
        with self.store.read() as session:
            return list(session.query(model).order_by(model.id))

    def tasks(self, project: int) -> list[Json]:
        answer: list[Json] = self.studio.get(f"tasks?project={project}&page_size=500&fields=all")["tasks"]
        return answer

    def annotate(self, task: int, result: list[Json], *, user: int = 1) -> int:
        """Submit an annotation with the user's own token, bypassing the proxy."""
        answer = self.call("POST", f"tasks/{task}/annotations/", {"result": result}, token=self._token(user))
        return int(answer["id"])

    def _token(self, user: int) -> str:
        """Return the user's own token."""
        with sqlite3.connect(self.studio.server.data_dir / "label_studio.sqlite3") as database:
            query = "SELECT key FROM authtoken_token WHERE user_id = ?"
            return str(database.execute(query, (user,)).fetchone()[0])

    def request(self, method: str, path: str, *, user: int = 1) -> requests.Response:
        """Call Label Studio's API as the user, bypassing the proxy."""
        headers = {"Authorization": f"Token {self._token(user)}"}
        return requests.request(method, f"{self.studio.server.url}/api/{path}", headers=headers, timeout=30)

    def call(self, method: str, path: str, body: Json | None = None, *, token: str | None = None) -> Any:
        headers = {"Authorization": f"Token {token or self.studio.server.token}"}
        answer = requests.request(
            method, f"{self.studio.server.url}/api/{path}", headers=headers, json=body, timeout=30
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def written(self, text: str, task: Json) -> list[Json]:
        spec = self.pack.spec
        values: dict[str, str | Span] = {"feedback": "The model says what I want."}
        for one in spec.fields:
            if one.role == "input":
                values[one.name] = text
            elif one.role == "span":
                # Not the first word, which the fake model says.
                word = task["data"]["passage"].split()[1]
                values[one.name] = Span(task["data"]["passage"].index(f" {word}") + 1, word)
            elif one.required and one.role != "context":
                values[one.name] = one.choices[0] if one.choices else "because"
        return results(read_elements(self.pack.create_xml, "create.xml"), values)

    def judged(self, task: Json) -> list[Json]:
        spec = self.pack.spec
        value: str | Span = spec.label_names[0] if spec.labels else Span(0, task["data"]["passage"].split()[0])
        name = "label" if spec.labels else spec.with_role("span")[0].name
        return results(read_elements(self.pack.validate_xml, "validate.xml"), {name: value})


Adapters = Callable[..., Adapter]


@pytest.fixture(scope="session")
def others(studio: Studio) -> list[int]:
    """Return the ids of three users besides the owner, other ones in each module of tests."""
    made = []
    for _ in range(3):
        name = f"worker-{uuid4().hex}"
        answer = requests.post(
            f"{studio.server.url}/api/users/",
            headers={"Authorization": f"Token {studio.server.token}"},
            json={"email": f"{name}@example.com", "username": name},
            timeout=30,
        )
        answer.raise_for_status()
        made.append(int(answer.json()["id"]))
    return made


@pytest.fixture
def tidy_studio(studio: Studio) -> Iterator[Studio]:
    """Label Studio; the test's projects are deleted at the end, because their webhooks would slow down others."""
    before = _projects(studio)
    yield studio
    for number in _projects(studio) - before:
        headers = {"Authorization": f"Token {studio.server.token}"}
        requests.delete(f"{studio.server.url}/api/projects/{number}/", headers=headers, timeout=60).raise_for_status()


def _projects(studio: Studio) -> set[int]:
    return {one["id"] for one in studio.get("projects?page_size=1000")["results"]}


@pytest.fixture
def adapters(tidy_studio: Studio, tmp_path: Path) -> Iterator[Adapters]:
    """Return a factory of adapters with an open round."""
    studio = tidy_studio
    made: list[Adapter] = []
    with proxy_of(studio.server.url) as proxy, counting_backend("prompt") as backend:

        def make(name: str = "sentiment", *, contexts: int | None = None, seconds: float = 60.0) -> Adapter:
            pack = find_pack(name)
            if contexts is not None:
                folder = tmp_path / "packs" / name
                folder.parent.mkdir(exist_ok=True)
                shutil.copytree(BUILT_IN / name, folder)
                lines = (folder / "contexts.jsonl").read_text().splitlines()[:contexts]
                (folder / "contexts.jsonl").write_text("\n".join(lines) + "\n")
                pack = load_pack(folder)
            store = open_store(f"sqlite:///{tmp_path / f'{len(made)}.db'}", upgrade=True)
            remote = SdkLabelStudio(proxy.url, studio.server.token, seconds=seconds)
            adapter = Adapter(pack, store, studio, proxy, backend, remote)
            made.append(adapter)
            with store.write() as session:
                task = create_task(session, pack, now=adapter.clock.now())
                model = new_model(task.id, f"{name}-v1")
                session.add(model)
                session.flush()
                open_round(session, task, [model], now=adapter.clock.now(), actor="tests", reason="to try it")
            return adapter

        yield make
    for adapter in made:
        adapter.store.close()
