"""A task with an open round, workers and texts, to test the services with."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from ml_backend.hashing import json_sha256
from ml_backend.manifest import TrainedManifest, version_of
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.verdict import ModelOutput, Verdict, inputs_hash, judge
from round_manager.database.store import Store
from round_manager.examples.submissions import Submission
from round_manager.learning.versions import register_version
from round_manager.models import (
    Context,
    LabelStudioLink,
    LabelStudioTask,
    ProjectKind,
    Round,
    Source,
    Task,
    ensure_worker,
)
from round_manager.tasks.rounds import open_round
from round_manager.tasks.tasks import create_task
from templates import Pack, TaskSpec
from templates import find_pack as load_pack
from templates.spec import TrainingSettings
from tests.fakes.clock import NOON
from tests.fakes.contexts import live_contexts
from tests.fakes.target import FakeTarget

MINUTE = timedelta(minutes=1)
PROJECT, LS_TASK = 7, 4711
# Reading a pack takes longer than most tests.
find_pack = cache(load_pack)


@dataclass(frozen=True)
class Stage:
    """The parts of a stage."""

    store: Store
    pack: Pack
    task: Task
    round: Round
    context: Context
    versions: tuple[str, ...]
    author: int
    voter: int
    ls_task: int

    @property
    def spec(self) -> TaskSpec:
        return self.pack.spec

    def submission(self, **changes: Any) -> Submission:
        """Return a valid submission that fools the fake predictor, which always answers with the first label."""
        written: dict[str, Any] = {
            "fields": self.fields(),
            "label": self.spec.label_names[1] if self.spec.labels else None,
            "answer": None if self.spec.labels else self.answer(),
            "explanation": {field.name: "Because." for field in self.spec.with_role("reason")},
            "context_id": self.context.id,
            "author_id": self.author,
            "source": Source.LABEL_STUDIO,
            "submitted_at": NOON + 10 * MINUTE,
            "label_studio_task_id": self.ls_task,
        }
        return Submission(**{**written, **changes})

    def fields(self, **changes: str) -> dict[str, str]:
        written = {field.name: f"A {field.name} like any other." for field in self.spec.with_role("input")}
        chosen = {field.name: field.choices[0] for field in self.spec.with_role("extra") if field.choices}
        return {**self.context.fields, **written, **chosen, **changes}

    def answer(self) -> dict[str, Any]:
        """The last word of the passage."""
        passage = self.context.fields["passage"]
        text = passage.split()[-1]
        start = passage.rindex(text)
        return {"text": text, "start": start, "end": start + len(text)}

    def verdict(self, submission: Submission, **changes: Any) -> Verdict:
        """Return the verdict of the round's versions."""
        target = submission.label or (submission.answer or {}).get("text")
        predictors = [FakeTarget(self.spec, version) for version in changes.get("versions", self.versions)]
        answers = [(one.version, one.predict([submission.fields])[0]) for one in predictors]
        return judge(self.spec, submission.fields, answers, target, now=NOON)

    def tried(self, fields: Mapping[str, str] | None = None, **changes: Any) -> AttemptRecord:
        """Return an attempt on the Label Studio task."""
        asked = fields if fields is not None else self.fields()
        label = self.spec.label_names[1] if self.spec.labels else None
        said = ModelOutput(self.versions[0], "x", 0.75, {"x": 0.75, "y": 0.25}, True if label else None)
        verdict = Verdict(
            changes.pop("id", uuid4()),
            changes.pop("task", self.spec.name),
            inputs_hash(self.spec, asked),
            changes.pop("target", label),
            changes.pop("outputs", (said,)),
            changes.pop("fooled", said.fooled),
            changes.pop("at", NOON + MINUTE),
        )
        row: dict[str, Any] = {
            "round": None,
            "latency_us": 3_700,
            "source": "label_studio",
            "label_studio_project": PROJECT,
            "label_studio_task": LS_TASK,
        }
        return AttemptRecord(verdict, asked, **{**row, **changes})


def manifest_for(spec: TaskSpec, note: str = "", parent: str | None = None) -> TrainedManifest:
    """The manifest of a version that fits the task; the note makes it another one."""
    data = {"sha256": json_sha256(note), "rows": 1}
    content: dict[str, Any] = {
        "format": 1,
        "task": spec.name,
        "kind": spec.kind,
        "labels": list(spec.label_names),
        "model_input": list(spec.model_input),
        "max_length": 64,
        "doc_stride": 16,
        "longest_answer": 30,
        "mode": "head",
        "parent": parent,
        "base": "fixed",
        "base_sha256": "0" * 64,
        "training": TrainingSettings().model_dump(mode="json"),
        "train": data,
        "held_out": data,
        "metrics": {"accuracy": 81.5},
        "code_version": "test",
        "created_at": "2027-03-01T12:00:00+00:00",
        "files": {"model.safetensors": {"sha256": "1" * 64, "size": 1}, "README.md": {"sha256": "2" * 64, "size": 1}},
    }
    return TrainedManifest.model_validate({**content, "version": version_of(content)})


def set_stage(store: Store, name: str, *notes: str, now: datetime = NOON) -> Stage:
    """The task of a pack, open against one version for each note."""
    pack = find_pack(name)
    with store.write() as session:
        task = create_task(session, pack, now=now)
        manifests = [manifest_for(pack.spec, note) for note in notes or ("first",)]
        versions = [register_version(session, task, one, f"models/{one.version}", now=now) for one in manifests]
        opened = open_round(session, task, versions, now=now, actor="owner@here", reason="a test")
        context = live_contexts(session, task.id)[0]
        author = ensure_worker(session, "label_studio", "http://ls/users/1", now=now)
        voter = ensure_worker(session, "label_studio", "http://ls/users/2", now=now)
        ls_task = _label_studio_task(session, task, context)
        return Stage(
            store,
            pack,
            task,
            opened,
            context,
            tuple(version.name for version in versions),
            author.id,
            voter.id,
            ls_task,
        )


def _label_studio_task(session: Session, task: Task, context: Context) -> int:
    link = LabelStudioLink(task_id=task.id, kind=ProjectKind.CREATE, url="http://ls", project=PROJECT)
    session.add(link)
    session.flush()
    row = LabelStudioTask(link_id=link.id, key=context.key, context_id=context.id, external_id=LS_TASK, created_at=NOON)
    session.add(row)
    session.flush()
    return row.id


def new_id() -> UUID:
    """An id for a verdict."""
    return uuid4()
