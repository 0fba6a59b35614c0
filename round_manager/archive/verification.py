"""Check that an archive is what it says: hashes, counts, both forms of every table, votes, gold labels and splits."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from common.text import count
from ml_backend.hashing import file_sha256, json_sha256
from round_manager.archive.json_lines import json_lines
from round_manager.archive.manifest import CURE, FILE, ArchiveManifest, read_manifest
from round_manager.archive.reader import table_batches
from round_manager.archive.recount import CountingRule, Recount, vote_problems
from round_manager.archive.split_check import SplitCheck
from round_manager.archive.tables import Columns
from round_manager.archive.writer import FORMS
from round_manager.models import Attempt, AuditEntry, Example, ModelVersion, Round, RoundModel, Vote
from round_manager.tasks.rounds import collected
from templates import TaskSpec

TABLES = ("examples", "votes", "attempts", "contexts", "models")


@dataclass(frozen=True)
class Verification:
    """What was looked at, what could not be, and what is wrong; an archive is proved when nothing is."""

    manifest: ArchiveManifest
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    problems: tuple[str, ...]


def verify(
    folder: Path, *, counting: CountingRule | None = None, database: tuple[Session, Round] | None = None
) -> Verification:
    """The proof of the archive in a folder, held against the round in a database where one is given.

    `counting` knows how policies count votes; without it, gold labels are taken as they are.
    """
    manifest = read_manifest(folder)
    checked, unchecked = ["hashes of all files"], list[str]()
    problems = list(_file_problems(folder, manifest))
    # What was changed cannot be read with trust, or at all.
    spec = None if problems else _spec(manifest, problems)
    if spec is not None:
        try:
            _prove_content(folder, manifest, spec, counting, checked, unchecked, problems)
        except (pa.ArrowException, OSError) as error:
            problems.append(f"a table cannot be read ({str(error).splitlines()[0]}); {CURE}")
    if database is not None:
        problems += _database_problems(*database, manifest)
        checked.append("the database")
    return Verification(manifest, tuple(checked), tuple(unchecked), tuple(problems))


def _prove_content(
    folder: Path,
    manifest: ArchiveManifest,
    spec: TaskSpec,
    counting: CountingRule | None,
    checked: list[str],
    unchecked: list[str],
    problems: list[str],
) -> None:
    columns = Columns(spec)
    problems += _column_problems(folder, columns)
    if problems:
        return
    problems += _table_problems(folder, manifest)
    problems += _model_problems(folder, manifest)
    problems += vote_problems(folder, columns)
    recount, splits = Recount(folder, columns, counting), SplitCheck(folder, manifest, spec)
    problems += recount.problems()
    problems += splits.problems()
    unchecked += [*recount.unchecked, *splits.unchecked]
    checked += ["the task's terms", "rows of both forms", "models", "votes of every example"]
    checked += ["gold labels, recounted"] if recount.done else []
    checked += ["splits, recomputed"]


def _spec(manifest: ArchiveManifest, problems: list[str]) -> TaskSpec | None:
    """The terms of the round, if they are those that it was opened with and this program can read them."""
    if json_sha256(dict(manifest.spec)) != manifest.spec_sha256:
        problems.append(f"the task in the manifest was changed (its SHA-256 differs); {CURE}")
    try:
        spec = TaskSpec.model_validate(manifest.spec)
    except ValueError:
        made = ", ".join(f"{name} {version}" for name, version in manifest.written_by.items())
        problems.append(f"the task in the manifest cannot be read here; verify it with what wrote it ({made})")
        return None
    if (spec.name, spec.kind) != (manifest.task, manifest.kind):
        problems.append(f"the manifest is of {manifest.task}, a {manifest.kind} task, and its terms are not; {CURE}")
    return None if problems else spec


def _file_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    there = {path.name for path in folder.iterdir() if path.name != FILE}
    for name in sorted(there - manifest.files.keys()):
        yield f"{name} is not in the manifest; move it away"
    for name, entry in sorted(manifest.files.items()):
        if name not in there:
            yield f"{name} is missing; {CURE}"
        elif (folder / name).stat().st_size != entry.size or file_sha256(folder / name) != entry.sha256:
            yield f"{name} was changed (its SHA-256 differs); {CURE}"
    for name in sorted({f"{table}.{form}" for table in TABLES for form in FORMS} - manifest.files.keys()):
        yield f"{name} is not part of it; {CURE}"


def _column_problems(folder: Path, columns: Columns) -> Iterator[str]:
    for table in TABLES:
        if not parquet.read_schema(folder / f"{table}.parquet").equals(getattr(columns, table)):
            yield f"{table} has other columns than the task says; {CURE}"


def _table_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    for table in TABLES:
        lines, rows, elsewhere = hashlib.sha256(), 0, 0
        for batch in table_batches(folder, table):
            lines.update(json_lines(batch))
            rows += batch.num_rows
            elsewhere += batch.num_rows - (pc.sum(pc.equal(batch["round"], manifest.round)).as_py() or 0)
        forms = [manifest.files[f"{table}.{form}"] for form in FORMS]
        if any(entry.rows != rows for entry in forms):
            yield f"{table} has {count(rows, 'row')}, the manifest says {forms[0].rows}; {CURE}"
        if lines.hexdigest() != forms[1].sha256:
            yield f"{table}.jsonl and {table}.parquet do not hold the same; {CURE}"
        if elsewhere:
            yield f"{count(elsewhere, 'row is', 'rows are')} of another round in {table}; {CURE}"
    statuses: Counter[str] = Counter()
    votes = 0
    for batch in table_batches(folder, "examples", ["status", "votes"]):
        statuses.update(batch.column("status").to_pylist())
        votes += len(batch.column("votes").flatten())
    if dict(statuses) != dict(manifest.examples):
        yield f"the examples' statuses are {dict(statuses)}, the manifest says {dict(manifest.examples)}; {CURE}"
    if votes != manifest.files["votes.parquet"].rows:
        yield f"the examples have {count(votes, 'vote')}, there are {manifest.files['votes.parquet'].rows}; {CURE}"


def _model_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    named = ["version", "rank", "sha256"]
    rows = [row for batch in table_batches(folder, "models", named) for row in batch.to_pylist()]
    if rows != manifest.models:
        yield f"the manifest names other models than the table models has; {CURE}"


def _database_problems(session: Session, round: Round, manifest: ArchiveManifest) -> Iterator[str]:
    if round.archive_sha256 != manifest.sha256:
        yield f"the database knows the archive as {round.archive_sha256}, this is {manifest.sha256}; {CURE}"
    had = collected(session, round).stored
    if had != dict(manifest.examples):
        yield f"the database has the examples {had}, the manifest says {dict(manifest.examples)}; {CURE}"
    in_round = select(func.count()).select_from(Vote).join(Example, Example.id == Vote.example_id)
    votes = session.scalar(in_round.where(Example.round_id == round.id)) or 0
    if votes != manifest.files["votes.parquet"].rows:
        yield f"the database has {count(votes, 'vote')}, the archive {manifest.files['votes.parquet'].rows}; {CURE}"
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
        told = f"the database has {count(attempts, 'attempt')}, the archive"
        yield f"{told} {manifest.files['attempts.parquet'].rows}; {CURE}"
