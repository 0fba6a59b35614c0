"""A task with an open round in a real database, connected to a Label Studio in memory."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from round_manager.database.store import Store
from round_manager.labelstudio.connection import ConnectedProjects, ConnectionOptions, connect_projects
from round_manager.labelstudio.outcomes import write_outcomes
from round_manager.labelstudio.projects import find_link
from round_manager.labelstudio.push import PushResult, fill_projects
from round_manager.labelstudio.status import LabelStudioStatus, find_status
from round_manager.labelstudio.sync import SyncResult, read_projects
from round_manager.models import LabelStudioLink, ModelVersion, ProjectKind, RoundStatus
from round_manager.tasks.rounds import live_round, open_round
from round_manager.tasks.tasks import create_task, find_task
from templates import Pack
from templates import find_pack as load_pack
from templates.label_config import read_elements
from templates.payloads import Json, Span, results
from tests.campaign.base import changed_pack
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.judge import FakeJudge
from tests.fakes.label_studio import FakeLabelStudio
from tests.integration.databases import Databases, SqliteDatabases
from tests.integration.round_manager.database.sample_rows import new_model

SECRETS = ("s" * 32,)
BACKEND = "http://backend.test"
WEB = "http://web.test"
# To read a pack takes longer than most tests.
find_pack = cache(load_pack)


@dataclass
class World:
    """One task, its database and its Label Studio."""

    pack: Pack
    store: Store
    studio: FakeLabelStudio = field(default_factory=FakeLabelStudio)
    judge: FakeJudge = field(default_factory=FakeJudge)
    clock: SettableClock = field(default_factory=SettableClock)

    @property
    def name(self) -> str:
        return self.pack.spec.name

    def connect(self, **options: Any) -> ConnectedProjects:
        given = {"ml_backend": BACKEND, "web_url": WEB, **options}
        return connect_projects(self.store, self.studio, self.pack, ConnectionOptions(SECRETS, **given), self.clock)

    def push(self) -> PushResult:
        return fill_projects(self.store, self.studio, self.name, self.clock)

    def sync(self) -> SyncResult:
        return read_projects(self.store, self.studio, self.name, self.judge, self.clock)

    def write_outcomes(self) -> int:
        return write_outcomes(self.store, self.studio, self.name, self.clock)

    def status(self) -> LabelStudioStatus:
        return find_status(self.store, self.studio, self.name)

    def link(self, kind: ProjectKind = ProjectKind.CREATE) -> LabelStudioLink:
        with self.store.read() as session:
            found = find_link(session, find_task(session, self.name).id, kind)
        assert found is not None
        return found

    def tasks(self, kind: ProjectKind = ProjectKind.CREATE) -> list[int]:
        """The numbers of the tasks that stand in a project."""
        return self.studio.numbers(self.link(kind).project)

    def rows(self, model: type[Any]) -> list[Any]:
        """Every row of a table."""
        with self.store.read() as session:
            return list(session.query(model).order_by(model.id))

    def data(self, number: int) -> dict[str, Any]:
        """Return the data of a task."""
        return dict(self.studio.tasks[number].data)

    def written(self, text: str, **more: str | Span) -> list[Json]:
        """Return the annotation of a writer."""
        (name,) = [one.name for one in self.pack.spec.with_role("input")]
        required = {one.name: "because" for one in self.pack.spec.with_role("reason") if one.required}
        elements = read_elements(self.pack.create_xml, "create.xml")
        return results(elements, {**required, name: text, **more})

    def judged(self, **values: str | Span) -> list[Json]:
        """Return the annotation of a validator."""
        return results(read_elements(self.pack.validate_xml, "validate.xml"), values)

    def open_round(self) -> None:
        with self.store.write() as session:
            task = find_task(session, self.name)
            model = new_model(task.id, f"{self.name}-v{len(self.rows(ModelVersion))}")
            session.add(model)
            session.flush()
            open_round(session, task, [model], now=NOON, actor="tests", reason="to try it")

    def close_round(self) -> None:
        with self.store.write() as session:
            live = live_round(session, find_task(session, self.name).id)
            assert live is not None
            live.status, live.validating_at = RoundStatus.VALIDATING, NOON
            session.flush()
            live.status, live.closed_at = RoundStatus.CLOSED, NOON

    def examples(self, texts: list[str], *, user: int = 7) -> list[int]:
        """Examples that fooled the model, read from Label Studio; their tasks' numbers."""
        free = [number for number in self.tasks() if not self.studio.tasks[number].annotations]
        chosen = [number for number in free if self.studio.tasks[number].data.get("target") == "negative"]
        for number, text in zip(chosen, texts, strict=False):
            self.studio.annotate(number, self.written(text), user=user)
        assert self.sync().examples == len(texts)
        return chosen[: len(texts)]


Worlds = Callable[..., World]


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    """Files: what is tried here hangs on no database."""
    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture
def worlds(databases: Databases) -> Iterator[Worlds]:
    """Makes worlds: of which pack, and how far they have come."""
    opened = ExitStack()

    def make(name: str = "sentiment", *, is_open: bool = True, pushed: bool = True) -> World:
        store = opened.enter_context(databases.opened())
        world = World(changed_pack(name, contexts=None, seeds=False, terms={}), store)
        with store.write() as session:
            create_task(session, world.pack, now=NOON)
        if is_open:
            world.open_round()
        if pushed:
            world.connect()
            world.push()
        return world

    with opened:
        yield make
