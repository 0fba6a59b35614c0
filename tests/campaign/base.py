"""The parts of a campaign, and how tests read its rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import count
from typing import Any, TypeVar

from sqlalchemy import inspect, select

from ml_backend.hashing import json_sha256
from ml_backend.manifest import TrainedManifest, version_of
from round_manager.database.store import Store
from round_manager.models import AuditEntry, Context, Round, RoundStatus, Task
from round_manager.services.context import Actor, ServiceContext
from round_manager.work.item_cache import ItemCache
from templates import Pack, TaskSpec, find_pack
from templates.spec import TrainingSettings
from tests.fakes.clock import SettableClock
from tests.fakes.crowd import FakeCrowd

MARKET = "fake"
OWNER = "owner@test"
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
Extended = TypeVar("Extended", bound="CampaignBase")
# Reading a pack takes longer than most tests.
built_in_pack = cache(find_pack)


@dataclass
class CampaignBase:
    """A task in a store with its current round, a test clock and a fake crowd; `context` is the task's first."""

    store: Store
    clock: SettableClock
    crowd: FakeCrowd
    pack: Pack
    task: Task
    round_id: int
    context: Context
    versions: tuple[str, ...]
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    # What the web app's process remembers of pages.
    item_cache: ItemCache = field(default_factory=ItemCache)
    # Two Label Studio users and a Label Studio task, if the task is linked to a project.
    author: int = 0
    voter: int = 0
    ls_task: int = 0

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def spec(self) -> TaskSpec:
        return self.pack.spec

    @property
    def services(self) -> ServiceContext:
        return ServiceContext(self.store, self.clock)

    @property
    def owner(self) -> Actor:
        return Actor(OWNER)

    @property
    def round(self) -> Round:
        """Return the round as it is stored now."""
        with self.store.read() as session:
            return session.get_one(Round, self.round_id)

    @property
    def status(self) -> RoundStatus:
        return self.round.status

    @property
    def version(self) -> str:
        """Return the first version that the round is played against."""
        return self.versions[0]

    def extended(self, kind: type[Extended], **more: Any) -> Extended:
        """Return the same campaign as another class, with that one's further fields."""
        return kind(**{one.name: getattr(self, one.name) for one in fields(self)} | more)

    def rows(self, kind: type[Any], *conditions: Any) -> list[Any]:
        with self.store.read() as session:
            return list(session.scalars(select(kind).where(*conditions).order_by(*inspect(kind).primary_key)))

    def reload(self, row: Any) -> Any:
        """Return the row as it is stored now."""
        with self.store.read() as session:
            return session.get_one(type(row), row.id)

    def audit(self, action: str) -> list[AuditEntry]:
        return self.rows(AuditEntry, AuditEntry.action == action)

    def round_history(self) -> list[tuple[str, str, str]]:
        found = self.rows(AuditEntry, AuditEntry.subject == "round")
        return [(entry.actor, entry.action, entry.reason) for entry in found]

    def mark_closed(self, at: datetime | None = None) -> None:
        """Set the round's status to closed directly, whatever it still waits for."""
        self.mark_validating(at)
        self._set_status(RoundStatus.CLOSED, "closed_at", at)

    def mark_validating(self, at: datetime | None = None) -> None:
        """Set the round's status to validating directly."""
        self._set_status(RoundStatus.VALIDATING, "validating_at", at)

    def _set_status(self, status: RoundStatus, moment: str, at: datetime | None) -> None:
        with self.store.write() as session:
            row = session.get_one(Round, self.round_id)
            row.status = status
            setattr(row, moment, at or self.now)


def changed_pack(name: str, *, contexts: int | None, seeds: bool, terms: Mapping[str, Any]) -> Pack:
    """Return a built-in pack with other terms, by section or setting, and with only its first contexts."""
    found = built_in_pack(name)
    parts = {
        part: getattr(found.spec, part).model_copy(update=dict(values)) if isinstance(values, Mapping) else values
        for part, values in terms.items()
    }
    pack = replace(found, spec=found.spec.model_copy(update=parts))
    # As if the owner's files had only these rows.
    pack.__dict__["contexts"] = found.contexts[:contexts]
    pack.__dict__["seed"] = found.seed if seeds else ()
    return pack


def manifest_for(spec: TaskSpec, note: str = "", parent: str | None = None) -> TrainedManifest:
    """Return the manifest of a version that fits the task; another note makes it another version."""
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
