"""Proof that an archive is what it says: hashes, counts, both forms of every table, and the rule of its splits."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ml_backend.hashing import file_sha256
from round_manager.archive.columns import Columns
from round_manager.archive.duplicates import Written
from round_manager.archive.files import FORMS
from round_manager.archive.json_lines import json_lines
from round_manager.archive.manifest import FILE, ArchiveManifest
from round_manager.archive.split_plan import plan_splits
from round_manager.archive.splitting import split_seed, written
from round_manager.errors import ArchiveError
from round_manager.examples.submissions import content_sha256
from round_manager.models import Attempt, AuditEntry, Example, ExampleStatus, ModelVersion, Round, RoundModel, Vote
from round_manager.tasks.rounds import collected
from templates import TaskSpec

CURE = "restore the archive from a copy, or freeze the round again"
BATCH = 10_000
TABLES = ("examples", "votes", "attempts", "contexts", "models")


@dataclass(frozen=True)
class Proof:
    """What was looked at, and what is wrong; an archive is proved when nothing is."""

    manifest: ArchiveManifest
    checked: tuple[str, ...]
    problems: tuple[str, ...]


def verify(folder: Path, *, database: tuple[Session, Round] | None = None) -> Proof:
    """The proof of the archive in a folder, held against the round in a database where one is given."""
    manifest = read_manifest(folder)
    problems = list(_file_problems(folder, manifest))
    checked = ["hashes of all files"]
    # What was changed cannot be read with trust, or at all.
    if not problems:
        problems += _table_problems(folder, manifest)
        problems += _split_problems(folder, manifest)
        checked += ["rows of both forms", "votes of every example", "splits, recomputed"]
    if database is not None:
        problems += _database_problems(*database, manifest)
        checked.append("the database")
    return Proof(manifest, tuple(checked), tuple(problems))


def read_manifest(folder: Path) -> ArchiveManifest:
    """The manifest of the archive in a folder."""
    try:
        content = (folder / FILE).read_bytes()
    except OSError as error:
        raise ArchiveError(f"there is no archive at {folder}; `outfox round freeze` makes one") from error
    return ArchiveManifest.read(content, str(folder / FILE))


def _file_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    there = {path.name for path in folder.iterdir() if path.name != FILE}
    for name in sorted(there - manifest.files.keys()):
        yield f"{name} is not in the manifest; move it away"
    for name, entry in sorted(manifest.files.items()):
        if name not in there:
            yield f"{name} is missing; {CURE}"
        elif (folder / name).stat().st_size != entry.size or file_sha256(folder / name) != entry.sha256:
            yield f"{name} was changed (its SHA-256 differs); {CURE}"
    for name in sorted(
        {f"{table}.{form}" for table in TABLES for form in ("parquet", "jsonl")} - manifest.files.keys()
    ):
        yield f"{name} is not part of it; {CURE}"


def _table_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    for table in TABLES:
        lines, rows = hashlib.sha256(), 0
        for batch in _batches(folder, table):
            lines.update(json_lines(batch))
            rows += batch.num_rows
        forms = [manifest.files[f"{table}.{form}"] for form in FORMS]
        if any(entry.rows != rows for entry in forms):
            yield f"{table} has {rows} rows, the manifest says {forms[0].rows}; {CURE}"
        if lines.hexdigest() != forms[1].sha256:
            yield f"{table}.jsonl and {table}.parquet do not hold the same; {CURE}"
    statuses: Counter[str] = Counter()
    votes = 0
    for batch in _batches(folder, "examples", ["status", "votes"]):
        statuses.update(batch.column("status").to_pylist())
        votes += len(batch.column("votes").flatten())
    if dict(statuses) != dict(manifest.examples):
        yield f"the examples' statuses are {dict(statuses)}, the manifest says {dict(manifest.examples)}; {CURE}"
    if votes != manifest.files["votes.parquet"].rows:
        yield f"the examples have {votes} votes, there are {manifest.files['votes.parquet'].rows}; {CURE}"


def _split_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    spec = TaskSpec.model_validate(manifest.spec)
    seed = split_seed(manifest.task, manifest.round)
    plan, report = plan_splits(ArchivedTexts(folder, spec), spec.rounds, seed)
    if report.told() != dict(manifest.splits):
        yield f"the splits would be {report.told()}, the manifest says {dict(manifest.splits)}; {CURE}"
    sides: dict[str, set[str]] = defaultdict(set)
    wrong = 0
    for batch in _batches(folder, "examples", ["id", "author", "status", "split"]):
        for row in batch.to_pylist():
            verified = row["status"] == ExampleStatus.VERIFIED
            wrong += row["split"] != (plan.part(row["id"], row["author"]) if verified else None)
            if row["split"]:
                sides[row["author"]].add(row["split"])
    if wrong:
        yield f"{wrong} examples are not in the part that follows from their ids; {CURE}"
    both = sum(len(parts) > 1 for parts in sides.values())
    if spec.rounds.split_by_worker and both:
        yield f"{both} workers are in both parts, and the task forbids it; {CURE}"


def _database_problems(session: Session, round: Round, manifest: ArchiveManifest) -> Iterator[str]:
    if round.archive_sha256 != manifest.sha256:
        yield f"the database knows the archive as {round.archive_sha256}, this is {manifest.sha256}; {CURE}"
    had = collected(session, round).stored
    if had != dict(manifest.examples):
        yield f"the database has the examples {had}, the manifest says {dict(manifest.examples)}; {CURE}"
    in_round = select(func.count()).select_from(Vote).join(Example, Example.id == Vote.example_id)
    votes = session.scalar(in_round.where(Example.round_id == round.id)) or 0
    if votes != manifest.files["votes.parquet"].rows:
        yield f"the database has {votes} votes, the archive {manifest.files['votes.parquet'].rows}; {CURE}"
    pinned = select(ModelVersion.name, RoundModel.rank, ModelVersion.sha256)
    pinned = pinned.join(ModelVersion, ModelVersion.id == RoundModel.model_version_id)
    rows = session.execute(pinned.where(RoundModel.round_id == round.id).order_by(RoundModel.rank))
    models = [{"version": name, "rank": rank, "sha256": sha256} for name, rank, sha256 in rows]
    if models != manifest.models:
        yield f"the database pins other models than the manifest names; {CURE}"
    yield from _attempt_problems(session, round, manifest)


def _attempt_problems(session: Session, round: Round, manifest: ArchiveManifest) -> Iterator[str]:
    frozen = select(AuditEntry.after).where(AuditEntry.round_id == round.id, AuditEntry.action == "frozen")
    after = session.scalar(frozen.limit(1)) or {}
    counted = select(func.count()).select_from(Attempt).where(Attempt.round_id == round.id)
    attempts = session.scalar(counted.where(Attempt.id <= after.get("last_attempt", 0))) or 0
    if attempts != manifest.files["attempts.parquet"].rows:
        yield f"the database has {attempts} attempts, the archive {manifest.files['attempts.parquet'].rows}; {CURE}"


class ArchivedTexts:
    """The verified examples of a round in an archive."""

    def __init__(self, folder: Path, spec: TaskSpec) -> None:
        self._folder = folder
        self._columns = Columns(spec)

    def batches(self) -> Iterator[Written]:
        """In the archive's order, which is that of their ids."""
        spec = self._columns.spec
        names = {name: column for name, column in self._columns.written if name in spec.model_input}
        for batch in _batches(self._folder, "examples", ["id", "author", "status", *names.values()]):
            some = batch.filter(pa.compute.equal(batch.column("status"), ExampleStatus.VERIFIED.value))
            if some.num_rows == 0:
                continue
            texts = {name: some.column(column) for name, column in names.items()}
            rows = pa.RecordBatch.from_pydict(texts).to_pylist()
            contents = [content_sha256(spec, row) for row in rows]
            ids, authors = some.column("id").to_pylist(), some.column("author").to_pylist()
            yield written(self._columns, ids, authors, contents, texts)


def _batches(folder: Path, table: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    with parquet.ParquetFile(folder / f"{table}.parquet") as file:
        yield from file.iter_batches(batch_size=BATCH, columns=columns)
