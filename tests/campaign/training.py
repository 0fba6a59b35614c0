"""A campaign with closed rounds to train on, and instant models."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from round_manager.services.training import RetrainingResult, TrainingPorts, retrain
from round_manager.tasks.rounds import find_round, open_round
from round_manager.tasks.tasks import find_task
from templates import BUILT_IN, Pack, load_pack
from tests.campaign.base import OWNER
from tests.campaign.campaign import Campaign, find_campaign, start_campaign
from tests.fakes.clock import NOON
from tests.fakes.registry import QuickRegistry, load_fixed, make_version
from tests.fakes.trainer import FakeTrainer

TASK = "sentiment"
ACTOR = Actor(OWNER)
JOB_OWNER = JobOwner(OWNER, "here", 7)
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
class RoundRow:
    """One example to put into a round."""

    text: str
    label: str = "negative"
    split: Split | None = Split.TRAIN
    status: ExampleStatus = ExampleStatus.VERIFIED


@dataclass(kw_only=True)
class TrainingCampaign(Campaign):
    """A campaign with its models in a folder, and makers of closed rounds."""

    models: Path

    @property
    def registry(self) -> QuickRegistry:
        return QuickRegistry(self.models)

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

    def add_closed_round(self, rows: Sequence[RoundRow], *, split: bool = True, against: Sequence[str] = ()) -> Round:
        """Play the next round: open it with the pinned versions or others, add the rows, close and split it."""
        versions = against or self.pinned() or self.pin("positive")
        register_versions(self.services, self.ports().models, TASK, versions)
        with self.store.write() as session:
            task = find_task(session, TASK)
            models = find_versions(session, task, versions)
            opened = open_round(session, task, models, now=NOON, actor=OWNER, reason="a test")
            examples = [self._add_row(session, opened, models[0].id, row) for row in rows]
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

    def training_rows(self, **options: Any) -> TrainingRows:
        with self.store.read() as session:
            task = find_task(session, TASK)
            return training_rows(session, task, self.pack.spec, self.pack.seed, **options)

    def find_round(self, number: int) -> Round:
        with self.store.read() as session:
            return find_round(session, find_task(session, TASK), number)

    def task_in(self, session: Session) -> Task:
        return find_task(session, TASK)

    def _add_row(self, session: Session, round: Round, model: int, row: RoundRow) -> Example:
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

    def retrain(
        self, trainer: FakeTrainer | None = None, *, clock: Clock | None = None, **changes: Any
    ) -> RetrainingResult:
        """Return the result of a retraining with instant models."""
        context = ServiceContext(self.store, clock or self.clock)
        return retrain(context, ACTOR, self.pack, self.ports(trainer, **changes), mode="head")

    def evaluations(self) -> list[tuple[str, int]]:
        """Return the measurements: the name of the rows and the number of the version."""
        return [(one.dataset, one.model_version_id) for one in self.rows(Evaluation)]

    def last_job(self) -> TrainingJob:
        """Return the newest training."""
        job: TrainingJob = self.rows(TrainingJob)[-1]
        return job

    def check_unchanged(self, pinned: tuple[str, ...]) -> None:
        """Check that the pinned versions and the rounds are unchanged."""
        assert self.pinned() == pinned
        assert self.find_round(1).status is RoundStatus.CLOSED


def start_training(store: Store, pack: Pack, models: Path) -> TrainingCampaign:
    """Create the task, without an open round."""
    return start_campaign(store, pack, opened=False).extended(TrainingCampaign, models=models)


def find_training(store: Store, pack: Pack, models: Path) -> TrainingCampaign:
    """Return the campaign of a task that exists."""
    return find_campaign(store, pack).extended(TrainingCampaign, models=models)


def first_round_rows(label: str = "negative", train: int = 6, held_out: int = 4) -> list[RoundRow]:
    """Return rows of one label, some to train on and some held out."""
    rows = [RoundRow(f"A row that fooled, number {number}.", label) for number in range(train)]
    held = [RoundRow(f"A row to measure on, number {number}.", label, Split.HELD_OUT) for number in range(held_out)]
    return rows + held


def with_closed_round(training: TrainingCampaign, held_out: int = 4) -> TrainingCampaign:
    """Pin a model that predicts `positive`, and close a round of negative rows that fooled it."""
    training.pin("positive")
    training.add_closed_round(first_round_rows(held_out=held_out))
    return training
