"""A task with closed rounds to train on."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.clock import Clock
from ml_backend.hashing import json_sha256
from ml_backend.registry.pins import Pins
from round_manager.audit import note
from round_manager.database.columns import public_id
from round_manager.database.store import Store
from round_manager.jobs import JobOwner
from round_manager.learning.training_data import SPLIT, TrainingRows, training_rows
from round_manager.learning.versions import find_versions
from round_manager.models import (
    Evaluation,
    Example,
    ExampleStatus,
    Round,
    RoundStatus,
    Source,
    Split,
    Task,
    TrainingJob,
    Worker,
)
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.model_versions import ModelDeployment, register_versions
from round_manager.services.training import RetrainingResult, TrainingPorts
from round_manager.services.training import retrain as retrain_task
from round_manager.tasks.rounds import find_round, open_round
from round_manager.tasks.tasks import create_task, find_task
from templates import BUILT_IN, Pack, load_pack
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.registry import QuickRegistry, load_fixed, make_version
from tests.fakes.trainer import FakeTrainer

TASK = "sentiment"
OWNER = JobOwner("owner@here", "here", 7)
ACTOR = Actor("owner@here")
WORDS = {"positive": "lovely", "negative": "awful", "neutral": "weekday"}


def small_pack(folder: Path, held_out: Mapping[str, int] | None = None) -> Pack:
    """The sentiment pack with eight contexts, twelve training rows, and that many held-out rows of each label."""
    shutil.copytree(BUILT_IN / TASK, folder / TASK)
    rows = []
    for label, word in WORDS.items():
        wanted = (held_out or {}).get(label, 2)
        for number in range(4 + wanted):
            split = "train" if number < 4 else "held_out"
            rows.append({"split": split, "text": f"A {word} seed, number {number}.", "label": label})
    (folder / TASK / "seed.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    contexts = (folder / TASK / "contexts.jsonl").read_text(encoding="utf-8").splitlines()[:8]
    (folder / TASK / "contexts.jsonl").write_text("\n".join(contexts), encoding="utf-8")
    return load_pack(folder / TASK)


@dataclass(frozen=True)
class Row:
    """One example to put into a round."""

    text: str
    label: str = "negative"
    split: Split | None = Split.TRAIN
    status: ExampleStatus = ExampleStatus.VERIFIED


@dataclass
class School:
    """The task in a store, its models in a folder, and makers of rounds."""

    store: Store
    pack: Pack
    models: Path
    clock: SettableClock = field(default_factory=SettableClock)
    numbers: Any = field(default_factory=lambda: count(1))

    @property
    def registry(self) -> QuickRegistry:
        return QuickRegistry(self.models)

    @property
    def context(self) -> ServiceContext:
        return ServiceContext(self.store, self.clock)

    def ports(self, trainer: FakeTrainer | None = None, **changes: Any) -> TrainingPorts:
        """Return the dependencies of a training, with instant models."""
        models = ModelDeployment(
            changes.pop("registry", self.registry),
            changes.pop("location", str(self.models)),
            changes.pop("load", load_fixed),
            changes.pop("rotation_timeout", 5.0),
        )
        return TrainingPorts(models, trainer or FakeTrainer(self.models), **{"heartbeat_seconds": 0.01, **changes})

    def pin(self, *labels: str) -> tuple[str, ...]:
        """Pin versions that predict these labels for the task."""
        versions = tuple(make_version(self.models, label, note="base") for label in labels)
        self.registry.set_pins(TASK, versions)
        return versions

    def pinned(self) -> tuple[str, ...]:
        pins: Pins | None = self.registry.pins(TASK)
        return pins.versions if pins else ()

    def round_over(self, rows: Sequence[Row], *, split: bool = True, against: Sequence[str] = ()) -> Round:
        """Play the next round: open it with the pinned versions or others, add the rows, close and split it."""
        versions = against or self.pinned() or self.pin("positive")
        register_versions(self.context, self.ports().models, TASK, versions)
        with self.store.write() as session:
            task = find_task(session, TASK)
            models = find_versions(session, task, versions)
            opened = open_round(session, task, models, now=NOON, actor="owner@here", reason="a test")
            examples = [self._example(session, opened, models[0].id, row) for row in rows]
            for status, moment in ((RoundStatus.VALIDATING, "validating_at"), (RoundStatus.CLOSED, "closed_at")):
                opened.status = status
                setattr(opened, moment, NOON)
                session.flush()
            if split:
                for example, row in zip(examples, rows, strict=True):
                    example.split = row.split
                parts = [row.split for row in rows if row.status is ExampleStatus.VERIFIED]
                report = {"train": parts.count(Split.TRAIN), "held_out": parts.count(Split.HELD_OUT)}
                note(session, SPLIT, opened, actor="outfox", reason="a test", now=NOON, of=opened, after=report)
            return opened

    def rows(self, **options: Any) -> TrainingRows:
        with self.store.read() as session:
            task = find_task(session, TASK)
            return training_rows(session, task, self.pack.spec, self.pack.seed, **options)

    def round(self, number: int) -> Round:
        with self.store.read() as session:
            return find_round(session, find_task(session, TASK), number)

    def task(self, session: Session) -> Task:
        return find_task(session, TASK)

    def _example(self, session: Session, round: Round, model: int, row: Row) -> Example:
        author = Worker(marketplace="fake", external_id=f"W{next(self.numbers)}", first_seen_at=NOON)
        session.add(author)
        session.flush()
        decided = row.status in (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)
        example = Example(
            public_id=public_id(NOON),
            task_id=round.task_id,
            round_id=round.id,
            author_id=author.id,
            source=Source.IMPORT,
            fields={"prompt": "A meal.", "text": row.text},
            content_sha256=json_sha256([row.text]),
            label=row.label,
            submitted_at=NOON,
            verdict={},
            model_version_id=model,
            confidence=0.8,
            fooled=True,
            status=row.status,
            gold_label=row.label if row.status is ExampleStatus.VERIFIED else None,
            decided_at=NOON if decided else None,
        )
        session.add(example)
        session.flush()
        return example


def found_school(store: Store, pack: Pack, models: Path) -> School:
    """Create the task."""
    with store.write() as session:
        create_task(session, pack, now=NOON)
    return School(store, pack, models)


def first_round(label: str = "negative", train: int = 6, held_out: int = 4) -> list[Row]:
    """Rows of one label, some to train on and some held out."""
    rows = [Row(f"A row that fooled, number {number}.", label) for number in range(train)]
    return rows + [Row(f"A row to measure on, number {number}.", label, Split.HELD_OUT) for number in range(held_out)]


def teach(school: School) -> School:
    """Return a school whose first round is closed."""
    school.pin("positive")
    school.round_over(first_round())
    return school


def retrain(
    school: School, trainer: FakeTrainer | None = None, *, clock: Clock | None = None, **changes: Any
) -> RetrainingResult:
    """Return the result of a retraining with instant models."""
    context = ServiceContext(school.store, clock or school.clock)
    return retrain_task(context, ACTOR, school.pack, school.ports(trainer, **changes), mode="head")


def evaluations(school: School) -> list[tuple[str, int]]:
    """Return the measurements: the name of the rows and the number of the version."""
    with school.store.read() as session:
        return [(one.dataset, one.model_version_id) for one in session.scalars(select(Evaluation))]


def last_job(school: School) -> TrainingJob:
    """The newest training."""
    with school.store.read() as session:
        return session.scalars(select(TrainingJob).order_by(TrainingJob.id.desc()).limit(1)).one()


def unchanged(school: School, pinned: tuple[str, ...]) -> None:
    """Check that the pinned versions and the rounds are unchanged."""
    assert school.pinned() == pinned
    assert school.round(1).status is RoundStatus.CLOSED
