"""The crowd's work in Label Studio: projects, uploads, and what they show."""

from datetime import timedelta
from functools import cached_property
from typing import Any

from round_manager.labelstudio.connection import ConnectedProjects, ConnectionOptions, connect_projects
from round_manager.labelstudio.crowd_upload import CrowdUpload, upload_crowd_work
from round_manager.labelstudio.port import WORKER_FIELD, ProjectTask
from round_manager.labelstudio.projects import find_link
from round_manager.labelstudio.push import PushResult, fill_projects
from round_manager.labelstudio.status import LabelStudioStatus, find_status
from round_manager.labelstudio.sync import SyncResult, read_projects
from round_manager.labelstudio.upload_queue import CrowdCounts
from round_manager.models import Example, ProjectKind, WorkSession
from round_manager.work.validation_work import Judgement, judge_item
from tests.campaign.pages import items_to_judge
from tests.campaign.votes import VoteWork
from tests.fakes.judge import FakeJudge
from tests.fakes.label_studio import FakeLabelStudio

CREATE, VALIDATE = ProjectKind.CREATE, ProjectKind.VALIDATE
# Time in which an upload arrives.
UPLOAD_PAUSE = timedelta(minutes=3)


class LabelStudioWork(VoteWork):
    """Connects the task to an in-memory Label Studio, and uploads the crowd's work to it."""

    @cached_property
    def studio(self) -> FakeLabelStudio:
        return FakeLabelStudio()

    @cached_property
    def sync_judge(self) -> FakeJudge:
        """Return the judge of what Label Studio users write."""
        return FakeJudge()

    def connect_label_studio(self) -> ConnectedProjects:
        return connect_projects(self.store, self.studio, self.pack, ConnectionOptions(("s" * 32,)), self.clock)

    def upload_work(self, **more: Any) -> CrowdUpload:
        return upload_crowd_work(self.store, self.studio, self.spec.name, self.clock, **more)

    def upload_later(self) -> CrowdUpload:
        """Upload again after a pause in which earlier uploads have arrived."""
        self.clock.advance(UPLOAD_PAUSE)
        return self.upload_work()

    def sync_label_studio(self, **more: Any) -> SyncResult:
        return read_projects(self.store, self.studio, self.spec.name, self.sync_judge, self.clock, **more)

    def fill_projects(self) -> PushResult:
        return fill_projects(self.store, self.studio, self.spec.name, self.clock)

    def label_studio_status(self) -> LabelStudioStatus:
        return find_status(self.store, self.studio, self.spec.name)

    def crowd_counts(self, kind: ProjectKind = CREATE) -> CrowdCounts:
        """Return the status of a project's crowd work."""
        (found,) = [one.crowd for one in self.label_studio_status().projects if one.kind == kind.value]
        return found

    def project(self, kind: ProjectKind = CREATE) -> int:
        """Return the number of a linked project."""
        with self.store.read() as session:
            link = find_link(session, self.task.id, kind)
        assert link is not None
        return link.project

    def uploaded_tasks(self, kind: ProjectKind = CREATE) -> list[ProjectTask]:
        """Return the tasks that show crowd work in a project."""
        tasks = [self.studio.tasks[number] for number in self.studio.numbers(self.project(kind))]
        return [task for task in tasks if WORKER_FIELD in task.data]

    def write_example(self, worker: str = "AUTHOR-1", *, confirmed: bool = True) -> Example:
        """Return a worker's example that fools the model, confirmed by the marketplace or not."""
        work = self.open_page(worker)
        asked = [one for one in self.spec.fields if one.role in ("reason", "extra")]
        more = {one.name: one.choices[0] if one.choices else "because" for one in asked}
        written = self.page_input(work, self.page_text(work), fields=more)
        self.ask_target(work, written)
        example = self.submit_example(work, written)
        self._end_page(work, confirmed=confirmed)
        return example

    def judge_as(self, worker: str, judgement: Judgement, *, confirmed: bool = True) -> WorkSession:
        """Let a worker judge every item; they flag those without an answer in the passage."""
        work = self.open_validation_page(worker)
        flag = Judgement(flag=self.spec.validation.flag_reasons[0])
        answer = judgement.answer
        with self.store.write() as session:
            for one in items_to_judge(session, work):
                fits = answer is None or answer["text"] in one.fields["passage"][answer["start"] :]
                judge_item(session, work, one.item, judgement if fits else flag, now=self.now)
        self._end_page(work, confirmed=confirmed)
        return work

    def agreeing(self, example: Example) -> Judgement:
        """Return the judgement that agrees with the author."""
        return Judgement(label=example.label) if example.label else Judgement(answer=example.answer)

    def _end_page(self, work: WorkSession, *, confirmed: bool) -> None:
        self.finish_page(work)
        if confirmed:
            self.confirm(work)
