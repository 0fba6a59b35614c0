"""Freezing: write the self-verifying archive of a closed round, and fix its splits."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version as installed_version
from pathlib import Path

import pyarrow as pa
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from common.clock import Clock
from common.errors import Hint
from common.progress import NoProgress, Progress
from round_manager.archive.manifest import ArchiveManifest
from round_manager.archive.round_rows import RoundRows
from round_manager.archive.split_plan import SplitReport
from round_manager.archive.splits import split_with_pauses
from round_manager.archive.storage import Archives
from round_manager.archive.verification import Verification, verify
from round_manager.archive.writer import ArchiveFiles
from round_manager.audit import note
from round_manager.database.store import Store, process_lock
from round_manager.errors import ArchiveConflict, RoundNotClosed
from round_manager.models import Attempt, AuditEntry, Round, RoundStatus, Task
from round_manager.tasks.rounds import collected, list_rounds

__all__ = ["Frozen", "Verification", "freeze", "newest_closed", "verify"]

ACTION, MOVED = "frozen", "archive moved"


@dataclass(frozen=True)
class Frozen:
    """A frozen round: the address of this archive and of the round's own one, its hash, and its rows by table.

    `already` says whether it was frozen before, `moved` whether its own archive has another address now.
    """

    task: str
    round: int
    where: str
    own: str
    sha256: str
    rows: dict[str, int]
    splits: SplitReport
    already: bool
    moved: bool = False


def newest_closed(session: Session, task: Task) -> Round:
    """Return the task's newest closed round; raise RoundNotClosed if there is none."""
    closed = [one for one in list_rounds(session, task) if one.status is RoundStatus.CLOSED]
    if not closed:
        raise RoundNotClosed(f"{task.name} has no closed round yet", hint=Hint("close_round", task=task.name))
    return closed[-1]


def freeze(
    store: Store,
    round_id: int,
    archives: Archives,
    clock: Clock,
    *,
    who: str,
    why: str,
    move: bool = False,
    progress: Progress | None = None,
) -> Frozen:
    """Write the round's archive and record it; safe to repeat after any interruption.

    If the round is already frozen, its archive is written again and compared; an archive that would differ is refused.
    In another place it is a copy, which becomes the round's own archive with `move`.
    """
    with store.read() as session:
        round = session.get_one(Round, round_id)
        task = session.get_one(Task, round.task_id)
        if round.status is not RoundStatus.CLOSED:
            text = f"round {round.number} of {task.name} is {round.status.value}; only a closed round can be frozen"
            raise RoundNotClosed(text, hint=Hint("close_round", task=task.name))
    with process_lock(store, f"freeze-{round_id}"):
        splits = split_with_pauses(store, round_id, clock, who=who)
        with store.read() as session:
            round = session.get_one(Round, round_id)
        last_attempt = _last_attempt(store, round)

        def fill(draft: Path) -> ArchiveManifest:
            manifest = _fill(store, task, round, draft, last_attempt, splits, progress or NoProgress())
            _check_same_as_before(round, manifest)
            return manifest

        manifest = archives.keep(task.name, round.number, fill)
        where = archives.where(task.name, round.number)
        if round.frozen_at is None:
            _mark(store, round_id, where, manifest, last_attempt, who=who, why=why, now=clock.now())
        elif move and where != round.archive_uri:
            _move(store, round_id, where, who=who, why=why, now=clock.now())
    own = where if move else round.archive_uri or where
    moved = round.archive_uri not in (None, own)
    rows = {name.removesuffix(".parquet"): one.rows for name, one in manifest.files.items() if "parquet" in name}
    return Frozen(
        task.name, round.number, where, own, manifest.sha256, rows, splits, round.frozen_at is not None, moved
    )


def _last_attempt(store: Store, round: Round) -> int:
    """Return the id of the last attempt in the archive; attempts that arrive after the first freeze are left out."""
    with store.write() as session:
        if round.frozen_at is not None:
            entries = select(AuditEntry.after).where(AuditEntry.round_id == round.id, AuditEntry.action == ACTION)
            after = session.scalar(entries.order_by(AuditEntry.id).limit(1))
            return int((after or {})["last_attempt"])
        if session.get_bind().dialect.name == "postgresql":
            # Ids are assigned before rows become visible: wait for transactions that store attempts now, so that no
            # row with a lower id appears later.
            session.execute(text("LOCK TABLE attempt IN SHARE MODE"))
        return session.scalar(select(func.max(Attempt.id)).where(Attempt.round_id == round.id)) or 0


def _fill(
    store: Store, task: Task, round: Round, draft: Path, last_attempt: int, splits: SplitReport, progress: Progress
) -> ArchiveManifest:
    with store.read() as session, ArchiveFiles(draft) as files:
        stored = sum(collected(session, round).stored.values())
        rows = RoundRows(session, task, round, last_attempt=last_attempt, beside=files.made)
        columns = rows.tables.columns
        progress.start(stored, f"freezing round {round.number} of {task.name}")
        examples, votes = files.table("examples", columns.examples), files.table("votes", columns.votes)
        statuses: Counter[str] = Counter()
        for some, their_votes in files.made(rows.tables.examples, rows.examples()):
            examples.write(some)
            votes.write(their_votes)
            statuses.update({one["values"]: one["counts"] for one in some["status"].value_counts().to_pylist()})
            progress.advance(some.num_rows)
        files.add(examples, votes)
        files.write("attempts", columns.attempts, files.made(rows.tables.attempts, rows.attempts()))
        files.write("contexts", columns.contexts, rows.contexts())
        models = rows.models()
        files.write("models", columns.models, [models])
        progress.finish()
        return ArchiveManifest(
            task=task.name,
            round=round.number,
            kind=columns.spec.kind,
            opened_at=_time(round.opened_at),
            validating_at=_time(round.validating_at),
            closed_at=_time(round.closed_at),
            spec_sha256=round.spec_sha256,
            spec=round.spec,
            models=models.select(["version", "rank", "sha256"]).to_pylist(),
            examples=dict(statuses),
            splits=splits.as_data(),
            written_by={"outfox": installed_version("outfox"), "pyarrow": pa.__version__},
            files=files.entries,
        )


def _check_same_as_before(round: Round, manifest: ArchiveManifest) -> None:
    if round.archive_sha256 not in (None, manifest.sha256):
        made = ", ".join(f"{name} {version}" for name, version in manifest.written_by.items())
        text = f"round {round.number} was frozen as {str(round.archive_sha256)[:12]} and would now be"
        advice = "use the versions that its manifest names, or copy the first archive"
        raise ArchiveConflict(f"{text} {manifest.sha256[:12]} (with {made}); {advice}")


def _mark(
    store: Store,
    round_id: int,
    where: str,
    manifest: ArchiveManifest,
    last_attempt: int,
    *,
    who: str,
    why: str,
    now: datetime,
) -> None:
    with store.write() as session:
        round = session.get_one(Round, round_id)
        if round.frozen_at is not None:
            return
        round.frozen_at, round.archive_sha256, round.archive_uri = now, manifest.sha256, where
        after = {"archive": where, "sha256": manifest.sha256, "last_attempt": last_attempt}
        note(session, ACTION, round, who=who, why=why, now=now, of=round, after=after)


def _move(store: Store, round_id: int, where: str, *, who: str, why: str, now: datetime) -> None:
    with store.write() as session:
        round = session.get_one(Round, round_id)
        before, round.archive_uri = {"archive": round.archive_uri}, where
        note(session, MOVED, round, who=who, why=why, now=now, of=round, before=before, after={"archive": where})


def _time(at: datetime | None) -> str:
    return at.isoformat() if at else ""
