"""Verification of an archive: hashes, counts, both formats of every table, votes, gold labels and splits."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from common.text import count
from ml_backend.hashing import file_sha256, json_sha256
from outfox.errors import DataCorrupt
from outfox.evaluation_records import NAME as RECORD
from outfox.evaluation_records import read_record
from outfox.json_lines import json_lines
from outfox.schemas import TEXT
from outfox.table_files import FORMS
from round_manager.archive.duplicate_check import DuplicateCheck
from round_manager.archive.files import FILE, REPAIR, ArchiveManifest, read_manifest
from round_manager.archive.import_check import ImportCheck
from round_manager.archive.reader import TableCursor, table_batches
from round_manager.archive.recount import Recount, SplitCheck, is_decided
from round_manager.archive.round_rows import ArchiveRules, count_archived_attempts
from round_manager.archive.tables import Columns
from round_manager.archive.withheld import examples_without, withheld_examples
from round_manager.models import AuditEntry, Example, ExampleStatus, ModelVersion, Round, RoundModel, Vote
from round_manager.tasks.rounds import collected
from templates import TaskSpec

TABLES = ("examples", "votes", "attempts", "contexts", "models")


@dataclass(frozen=True)
class Verification:
    """What was checked, what could not be checked, and the problems; an archive without problems is valid."""

    manifest: ArchiveManifest
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    problems: tuple[str, ...]


def verify(folder: Path, *, database: tuple[Session, Round] | None = None, stated: str | None = None) -> Verification:
    """Verify the archive in a folder, and compare it with the round in a database, or with a stated hash, if given."""
    manifest = read_manifest(folder)
    checked, unchecked = ["hashes of all files"], list[str]()
    problems = list(_file_problems(folder, manifest))
    if (folder / RECORD).is_file():
        problems += _record_problems(folder, manifest)
        checked.append("the record of evaluations")
    # Files that were changed cannot be trusted or may not be readable.
    spec = None if problems else _spec(manifest, problems)
    if spec is not None:
        try:
            _check_content(folder, manifest, spec, checked, unchecked, problems)
        except (pa.ArrowException, OSError) as error:
            problems.append(f"a table cannot be read ({str(error).splitlines()[0]}); {REPAIR}")
    if database is not None:
        problems += _database_problems(*database, manifest)
        checked.append("the database")
    if stated is not None:
        if stated != manifest.sha256:
            problems.append(f"the database has the hash {stated}, the archive {manifest.sha256}; {REPAIR}")
        checked.append("the database")
    return Verification(manifest, tuple(checked), tuple(unchecked), tuple(problems))


def _check_content(
    folder: Path,
    manifest: ArchiveManifest,
    spec: TaskSpec,
    checked: list[str],
    unchecked: list[str],
    problems: list[str],
) -> None:
    imported = manifest.origin is not None
    kept = tuple(map(str, manifest.origin["slices"])) if manifest.origin is not None else None
    columns = Columns(spec, is_decided(manifest), kept)
    problems += _column_problems(folder, columns)
    if problems:
        return
    problems += _table_problems(folder, manifest)
    problems += _model_problems(folder, manifest)
    problems += _vote_problems(folder, columns)
    if imported:
        check = ImportCheck(folder, manifest, columns)
        problems += check.problems()
        unchecked += check.unchecked
        checked += ["the task's terms", "rows in both formats", "models", "votes of every example", "contrast pairs"]
        return
    recount, splits = Recount(folder, columns), SplitCheck(folder, manifest, spec)
    problems += recount.problems()
    problems += splits.problems()
    unchecked += [*recount.unchecked, *splits.unchecked]
    checked += ["the task's terms", "rows in both formats", "models", "votes of every example"]
    checked += ["gold labels, recounted"] if recount.done else []
    checked += ["splits, recomputed"]
    if columns.decided:
        duplicates = DuplicateCheck(folder, columns)
        problems += duplicates.problems()
        unchecked += duplicates.unchecked
        checked += ["duplicates of the round's own texts, compared"]


def _spec(manifest: ArchiveManifest, problems: list[str]) -> TaskSpec | None:
    """Return the terms of the round if they are the original ones and this program can read them."""
    if json_sha256(dict(manifest.spec)) != manifest.spec_sha256:
        problems.append(f"the task in the manifest has changed (its SHA-256 differs); {REPAIR}")
    try:
        spec = TaskSpec.model_validate(manifest.spec)
    except ValueError:
        made = ", ".join(f"{name} {version}" for name, version in manifest.written_by.items())
        problems.append(
            f"the task in the manifest cannot be read by this version; verify it with the one that wrote it ({made})"
        )
        return None
    if (spec.name, spec.kind) != (manifest.task, manifest.kind):
        problems.append(f"the manifest names {manifest.task}, a {manifest.kind} task, but its terms do not; {REPAIR}")
    return None if problems else spec


def _file_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    there = {path.name for path in folder.iterdir() if path.name not in (FILE, RECORD)}
    for name in sorted(there - manifest.files.keys()):
        yield f"{name} is not in the manifest; move it away"
    for name, entry in sorted(manifest.files.items()):
        if name not in there:
            yield f"{name} is missing; {REPAIR}"
        elif (folder / name).stat().st_size != entry.size or file_sha256(folder / name) != entry.sha256:
            yield f"{name} has changed (its SHA-256 differs); {REPAIR}"
    for name in sorted({f"{table}.{form}" for table in TABLES for form in FORMS} - manifest.files.keys()):
        yield f"{name} is not part of the archive; {REPAIR}"


def _record_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    """Yield what is wrong with the evaluations, which are not part of the archive."""
    try:
        read_record((folder / RECORD).read_bytes(), RECORD, manifest.sha256, "remove it; a training writes it again")
    except DataCorrupt as error:
        yield str(error)


def _column_problems(folder: Path, columns: Columns) -> Iterator[str]:
    for table in TABLES:
        if not parquet.read_schema(folder / f"{table}.parquet").equals(getattr(columns, table)):
            yield f"{table} does not have the columns that follow from the task; {REPAIR}"


def _table_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    for table in TABLES:
        lines, rows, elsewhere = hashlib.sha256(), 0, 0
        for batch in table_batches(folder, table):
            lines.update(json_lines(batch))
            rows += batch.num_rows
            elsewhere += batch.num_rows - (pc.sum(pc.equal(batch["round"], manifest.round)).as_py() or 0)
        forms = [manifest.files[f"{table}.{form}"] for form in FORMS]
        if any(entry.rows != rows for entry in forms):
            yield f"{table} has {count(rows, 'row')}, the manifest says {forms[0].rows}; {REPAIR}"
        if lines.hexdigest() != forms[1].sha256:
            yield f"{table}.jsonl and {table}.parquet do not have the same rows; {REPAIR}"
        if elsewhere:
            yield f"{count(elsewhere, 'row is', 'rows are')} of another round in {table}; {REPAIR}"
    statuses: Counter[str] = Counter()
    votes = 0
    for batch in table_batches(folder, "examples", ["status", "votes"]):
        statuses.update(batch.column("status").to_pylist())
        votes += len(batch.column("votes").flatten())
    # Unconfirmed examples are counted in the manifest and left out of the files; older archives contain them.
    left_out = {name: number for name, number in manifest.examples.items() if name != ExampleStatus.UNCONFIRMED}
    if dict(statuses) not in (dict(manifest.examples), left_out):
        yield f"the examples' statuses are {dict(statuses)}, the manifest says {dict(manifest.examples)}; {REPAIR}"
    if votes != manifest.files["votes.parquet"].rows:
        rows = manifest.files["votes.parquet"].rows
        yield f"the examples have {count(votes, 'vote')}, the table votes has {rows}; {REPAIR}"


def _vote_problems(folder: Path, columns: Columns) -> Iterator[str]:
    """Yield a problem if the votes inside the examples differ from the table `votes`."""
    schema = pa.schema([("example", TEXT), *columns.vote])
    votes, wrong = TableCursor(folder, "votes", schema), 0
    for batch in table_batches(folder, "examples", ["id", "votes"]):
        lists = batch["votes"]
        inside = lists.flatten()
        sizes = pc.list_value_length(lists).fill_null(0).to_numpy()
        whose = batch["id"].take(pa.array(np.repeat(np.arange(batch.num_rows), sizes)))
        mine = pa.Table.from_arrays([whose, *inside.flatten()], schema=schema)
        theirs = votes.take(mine.num_rows)
        wrong += mine.num_rows if theirs.num_rows < mine.num_rows else _different(mine, theirs)
    if wrong:
        yield f"{count(wrong, 'vote is', 'votes are')} different in examples and in votes; {REPAIR}"


def _different(one: pa.Table, other: pa.Table) -> int:
    same = np.ones(one.num_rows, bool)
    for name in one.column_names:
        mine, theirs = one[name], other[name]
        alike = pc.or_(pc.equal(mine, theirs).fill_null(False), pc.and_(mine.is_null(), theirs.is_null()))
        same &= alike.to_numpy()
    return int((~same).sum())


def _model_problems(folder: Path, manifest: ArchiveManifest) -> Iterator[str]:
    named = ["version", "rank", "sha256"]
    rows = [row for batch in table_batches(folder, "models", named) for row in batch.to_pylist()]
    if rows != manifest.models:
        yield f"the manifest and the table models name different models; {REPAIR}"


def _database_problems(session: Session, round: Round, manifest: ArchiveManifest) -> Iterator[str]:
    if round.archive_sha256 != manifest.sha256:
        yield f"the database has the hash {round.archive_sha256}, the archive {manifest.sha256}; {REPAIR}"
    if manifest.origin is not None:
        # The database has the counts of an imported round, not its rows.
        had = dict(collected(session, round).stored)
        if had != dict(manifest.examples):
            yield f"the database has the examples {had}, the manifest says {dict(manifest.examples)}; {REPAIR}"
        return
    withheld = withheld_examples(session, round)
    if len(withheld) != manifest.withheld:
        yield f"the database withholds {count(len(withheld), 'example')}, the manifest {manifest.withheld}; {REPAIR}"
    stored = Counter(collected(session, round).stored)
    stored[ExampleStatus.VERIFIED.value] -= len(withheld)
    had = dict(+stored)
    if had != dict(manifest.examples):
        yield f"the database has the examples {had}, the manifest says {dict(manifest.examples)}; {REPAIR}"
    in_round = select(func.count()).select_from(Vote).join(Example, Example.id == Vote.example_id)
    votes = session.scalar(in_round.where(Example.round_id == round.id, examples_without(withheld))) or 0
    if votes != manifest.files["votes.parquet"].rows:
        yield f"the database has {count(votes, 'vote')}, the archive {manifest.files['votes.parquet'].rows}; {REPAIR}"
    pinned = select(ModelVersion.name, RoundModel.rank, ModelVersion.sha256)
    pinned = pinned.join(ModelVersion, ModelVersion.id == RoundModel.model_version_id)
    rows = session.execute(pinned.where(RoundModel.round_id == round.id).order_by(RoundModel.rank))
    models = [{"version": name, "rank": rank, "sha256": sha256} for name, rank, sha256 in rows]
    if models != manifest.models:
        yield f"the database and the manifest name different models; {REPAIR}"
    yield from _attempt_problems(session, round, manifest)


def _attempt_problems(session: Session, round: Round, manifest: ArchiveManifest) -> Iterator[str]:
    frozen = select(AuditEntry.after).where(AuditEntry.round_id == round.id, AuditEntry.action == "frozen")
    after = session.scalar(frozen.limit(1)) or {}
    withheld = withheld_examples(session, round)
    rules = ArchiveRules(after.get("last_attempt", 0), after.get("last_assignment"), withheld)
    attempts = count_archived_attempts(session, round, rules)
    if attempts != manifest.files["attempts.parquet"].rows:
        text = f"the database has {count(attempts, 'attempt')}, the archive"
        yield f"{text} {manifest.files['attempts.parquet'].rows}; {REPAIR}"
