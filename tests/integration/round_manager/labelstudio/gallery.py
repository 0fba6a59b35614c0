"""A task with crowd workers, and an in-memory Label Studio that shows their work."""

import io
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from rich.console import Console

from plugin.cli.labelstudio import status_text
from round_manager.database.store import Store
from round_manager.labelstudio.connection import ConnectedProjects, ConnectionOptions, connect_projects
from round_manager.labelstudio.crowd_upload import CrowdUpload, upload_crowd_work
from round_manager.labelstudio.port import WORKER_FIELD, ProjectTask
from round_manager.labelstudio.projects import find_link
from round_manager.labelstudio.push import PushResult, fill_projects
from round_manager.labelstudio.status import LabelStudioStatus, find_status
from round_manager.labelstudio.sync import SyncResult, read_projects
from round_manager.labelstudio.upload_queue import CrowdCounts
from round_manager.models import Example, ProjectKind, Vote, WorkSession
from round_manager.work.validation_work import Judgement, judge_item
from templates import Pack
from tests.fakes.judge import FakeJudge
from tests.fakes.label_studio import FakeLabelStudio
from tests.integration.round_manager.work.floor import Floor, judged_items, lay_floor, pack_of

CREATE, VALIDATE = ProjectKind.CREATE, ProjectKind.VALIDATE
PAUSE = timedelta(minutes=3)


@dataclass
class Gallery:
    """The floor where the crowd works, and the Label Studio that its owner looks at."""

    floor: Floor
    pack: Pack
    studio: FakeLabelStudio = field(default_factory=FakeLabelStudio)
    judge: FakeJudge = field(default_factory=FakeJudge)

    @property
    def store(self) -> Store:
        return self.floor.store

    @property
    def name(self) -> str:
        return self.pack.spec.name

    def connect(self) -> ConnectedProjects:
        return connect_projects(self.store, self.studio, self.pack, ConnectionOptions(("s" * 32,)), self.floor.clock)

    def show(self, **more: Any) -> CrowdUpload:
        return upload_crowd_work(self.store, self.studio, self.name, self.floor.clock, **more)

    def show_later(self) -> CrowdUpload:
        """Upload again after a pause in which earlier uploads have arrived."""
        self.floor.clock.advance(PAUSE)
        return self.show()

    def sync(self, **more: Any) -> SyncResult:
        return read_projects(self.store, self.studio, self.name, self.judge, self.floor.clock, **more)

    def push(self) -> PushResult:
        return fill_projects(self.store, self.studio, self.name, self.floor.clock)

    def status(self) -> LabelStudioStatus:
        return find_status(self.store, self.studio, self.name)

    def status_words(self) -> str:
        """Return the text of `labelstudio status`."""
        console = Console(file=io.StringIO(), width=300, record=True)
        console.print(status_text(self.status()))
        return console.export_text()

    def crowd(self, kind: ProjectKind = CREATE) -> CrowdCounts:
        """Return the status of a project's crowd work."""
        (found,) = [one.crowd for one in self.status().projects if one.kind == kind.value]
        return found

    def project(self, kind: ProjectKind = CREATE) -> int:
        with self.store.read() as session:
            link = find_link(session, self.floor.task.id, kind)
        assert link is not None
        return link.project

    def shown(self, kind: ProjectKind = CREATE) -> list[ProjectTask]:
        """The tasks that show crowd work in a project."""
        tasks = [self.studio.tasks[number] for number in self.studio.numbers(self.project(kind))]
        return [task for task in tasks if WORKER_FIELD in task.data]

    def write(self, worker: str = "AUTHOR-1", *, confirmed: bool = True) -> Example:
        """A worker's example that fools the model, confirmed by the marketplace or not."""
        work = self.floor.open(worker)
        text = self.floor.fooling(work)
        asked = [one for one in self.pack.spec.fields if one.role in ("reason", "extra")]
        more = {one.name: one.choices[0] if one.choices else "because" for one in asked}
        written = self.floor.written(work, text, fields=more)
        self.floor.ask(work, written)
        example = self.floor.hand_in(work, written)
        self.floor.finish(work)
        if confirmed:
            self.floor.confirm(work)
        return example

    def judge_as(self, worker: str, said: Judgement, *, confirmed: bool = True) -> WorkSession:
        """Let a worker judge every item; they flag those without an answer in the passage."""
        work = self.floor.validating(worker)
        flag = Judgement(flag=self.pack.spec.validation.flag_reasons[0])
        with self.floor.write() as session:
            for one in judged_items(session, work):
                fits = said.answer is None or said.answer["text"] in one.fields["passage"][said.answer["start"] :]
                judge_item(session, work, one.item, said if fits else flag, now=self.floor.now)
        self.floor.finish(work)
        if confirmed:
            self.floor.confirm(work)
        return work

    def votes(self) -> list[Vote]:
        return self.floor.votes()

    def agreeing(self, example: Example) -> Judgement:
        return Judgement(label=example.label) if example.label else Judgement(answer=example.answer)


def hang(store: Store, name: str = "sentiment") -> Gallery:
    """A gallery of one pack, connected, with nothing in it."""
    floor = lay_floor(store, name, validation={"gold_rate": 0.0})
    gallery = Gallery(floor, replace(pack_of(name), spec=floor.spec))
    gallery.connect()
    return gallery
