"""Use cases about archives: freeze closed rounds and verify archives."""

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version as installed_version
from pathlib import Path

import pyarrow as pa
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from common.errors import Hint
from common.progress import NoProgress, Progress
from outfox.table_files import ArchiveFiles
from round_manager.archive.files import ArchiveManifest
from round_manager.archive.imported_rounds import ImportedFigures, find_suite
from round_manager.archive.round_rows import ArchiveRules, RoundRows, StoredDecisions, StoredTexts
from round_manager.archive.split_plan import (
    RULE,
    Sides,
    SplitPlan,
    SplitReport,
    plan_decided,
    plan_splits,
    split_seed,
)
from round_manager.archive.storage import Archives, copy_archive, opened_archive
from round_manager.archive.verification import Verification, verify
from round_manager.archive.withheld import withheld_examples, withhold
from round_manager.audit import note
from round_manager.bulk_rows import PlainRows
from round_manager.database.store import Store, process_lock
from round_manager.errors import ArchiveConflict, ArchiveNotFound, RoundNotClosed
from round_manager.learning.training_data import closed_rounds
from round_manager.models import (
    Assignment,
    Attempt,
    AuditEntry,
    Example,
    ExampleStatus,
    Hit,
    Round,
    RoundStatus,
    Split,
    Task,
    spec_of,
)
from round_manager.novelty.decisions import duplicate_rule
from round_manager.pseudonyms import NameLookup
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.evaluation_records import record_round
from round_manager.services.imports import undo_interrupted_import
from round_manager.tasks.rounds import collected, find_round, live_round
from round_manager.tasks.tasks import find_task

# Actions of the audit log.
SPLIT, FROZEN, MOVED = "split", "frozen", "archive moved"
BATCH = 10_000
CLOSED = "the round is closed"
PUBLISHED = "the round was imported, and its splits were fixed then"


@dataclass(frozen=True)
class Frozen:
    """A frozen round: the address of this archive and of the round's own one, its hash, and its rows by table.

    `withheld` examples serve as gold and are not in it. `already` says whether it was frozen before, `moved` whether
    its own archive has another address now.
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
    withheld: int = 0


@dataclass(frozen=True)
class ArchiveVerified:
    """What the verification of an archive found; it is valid if there are no problems."""

    uri: str
    result: Verification


def freeze_round(
    context: ServiceContext,
    actor: Actor,
    task: str,
    archives: Archives,
    *,
    number: int | None = None,
    reason: str = "",
    move: bool = False,
    progress: Progress | None = None,
) -> Frozen:
    """Write the archive of a closed round, by default the newest, and fix its splits; safe to repeat.

    If the round is already frozen, its archive is written again and compared; an archive that would differ is refused.
    In another place it is a copy, which becomes the round's own archive with `move`. An imported round is frozen
    already; its archive is only copied.
    """
    store, clock = context.store, context.clock
    with store.read() as session:
        owner = find_task(session, task)
        round = _closed_round(session, owner, number)
        if round.status is not RoundStatus.CLOSED:
            raise _not_closed(task, round)
    # Archives of an import that was killed may be in the way.
    undo_interrupted_import(context, task, archives)
    with process_lock(store, f"freeze-{round.id}"):
        splits = _imported_splits(round) if round.is_imported else split_round(context, actor, round.id)
        with store.read() as session:
            round = session.get_one(Round, round.id)
        rules = None if round.is_imported else _archive_rules(store, round)

        def fill(draft: Path) -> ArchiveManifest:
            if rules is None:
                return copy_archive(str(round.archive_uri), draft)
            manifest = _fill(store, owner, round, draft, rules, splits, progress or NoProgress())
            _check_same_as_before(round, manifest)
            return manifest

        manifest = archives.keep(task, round.number, fill)
        where = archives.where(task, round.number)
        with store.write() as session:
            row, now, who = session.get_one(Round, round.id), clock.now(), actor.name
            if row.frozen_at is None and rules is not None:
                row.frozen_at, row.archive_sha256, row.archive_uri = now, manifest.sha256, where
                after = {"archive": where, "sha256": manifest.sha256, **asdict(rules)}
                note(session, FROZEN, row, actor=who, reason=reason, now=now, of=row, after=after)
            elif move and where != row.archive_uri:
                before, row.archive_uri = {"archive": row.archive_uri}, where
                after = {"archive": where}
                note(session, MOVED, row, actor=who, reason=reason, now=now, of=row, before=before, after=after)
    with store.read() as session:
        record_round(context, session.get_one(Round, round.id), where)
    own = where if move else round.archive_uri or where
    moved = round.archive_uri not in (None, own)
    rows = {name.removesuffix(".parquet"): one.rows for name, one in manifest.files.items() if "parquet" in name}
    return Frozen(
        task,
        round.number,
        where,
        own,
        manifest.sha256,
        rows,
        splits,
        round.frozen_at is not None,
        moved,
        manifest.withheld,
    )


def unfrozen_rounds(context: ServiceContext, task: str) -> list[int]:
    """Return the numbers of the task's closed rounds without an archive."""
    with context.store.read() as session:
        return [one.number for one in closed_rounds(session, find_task(session, task)) if one.frozen_at is None]


def verify_archive(uri: str) -> ArchiveVerified:
    """Verify the archive in a folder or at s3://bucket/prefix, without a database."""
    with opened_archive(uri) as folder:
        return ArchiveVerified(uri, verify(folder))


def verify_round(context: ServiceContext, task: str, *, number: int | None = None) -> ArchiveVerified:
    """Verify the archive of a frozen round, by default the newest, and compare it with the database."""
    with context.store.read() as session:
        chosen = _closed_round(session, find_task(session, task), number)
        if chosen.archive_uri is None:
            hint = Hint("freeze_round", task=task, round=chosen.number)
            raise ArchiveNotFound(f"round {chosen.number} of {task} is not frozen yet", hint=hint)
        with opened_archive(chosen.archive_uri) as folder:
            return ArchiveVerified(chosen.archive_uri, verify(folder, database=(session, chosen)))


def verify_suite(context: ServiceContext, task: str, name: str) -> ArchiveVerified:
    """Verify the archive of a test suite, and compare it with the database."""
    with context.store.read() as session:
        suite = find_suite(session, find_task(session, task), name)
    with opened_archive(suite.archive_uri) as folder:
        return ArchiveVerified(suite.archive_uri, verify(folder, stated=suite.archive_sha256))


def _closed_round(session: Session, task: Task, number: int | None) -> Round:
    """Return the task's round of that number, by default the newest closed one."""
    if number:
        return find_round(session, task, number)
    closed = closed_rounds(session, task)
    if not closed:
        raise _not_closed(task.name, live_round(session, task.id))
    return closed[-1]


def _not_closed(task: str, round: Round | None) -> RoundNotClosed:
    """Return the error for a round that is not closed, or for a task that has none."""
    hint = Hint("close_round", task=task)
    if round is None:
        return RoundNotClosed(f"{task} has no closed round yet", hint=hint)
    if round.status is RoundStatus.VALIDATING:
        text = f"round {round.number} of {task} is being validated, and closes when all of its work is in"
        return RoundNotClosed(text, hint=Hint("show_status"))
    text = f"round {round.number} of {task} is {round.status.value}; only a closed round can be frozen"
    return RoundNotClosed(text, hint=hint)


def split_round(context: ServiceContext, actor: Actor, round_id: int) -> SplitReport:
    """Put every verified example of a closed round into train or held out, unless it is a duplicate or withheld.

    It is done once, in several small transactions, so that other processes can write; safe to repeat after an
    interruption.
    """
    store = context.store
    with store.read() as session:
        round = session.get_one(Round, round_id)
    # Two rounds that are split at the same time would not see the sides that the other one gives to workers.
    with process_lock(store, f"split-{round.task_id}"):
        with store.read() as session:
            done = split_report(session, round)
            if done is not None:
                return done
        with store.write() as session:
            withhold(session, round, now=context.now())
        with store.read() as session:
            withheld = withheld_examples(session, round)
            task = session.get_one(Task, round.task_id)
            policy, seed = spec_of(round).rounds, split_seed(task.name, round.number)
            if duplicate_rule(round) is None:
                texts = StoredTexts(session, task, round, withheld)
                workers = texts.workers
                plan, report = plan_splits(texts, policy, seed, _sides(session, round, workers))
            else:
                decided = StoredDecisions(session, task, round, withheld)
                workers = decided.workers
                plan, report = plan_decided(decided, policy, seed, _sides(session, round, workers))
        last = 0
        while last >= 0:
            with store.write() as session:
                last = _apply_splits(session, round, plan, workers, frozenset(withheld), last)
        with store.write() as session:
            note(
                session,
                SPLIT,
                round,
                actor=actor.name,
                reason=CLOSED,
                now=context.now(),
                of=round,
                after=report.as_data(),
            )
    return report


def _imported_splits(round: Round) -> SplitReport:
    """Return how an imported round is split: as it was published, or drawn when it was imported."""
    figures = ImportedFigures.of(round)
    share = float(spec_of(round).rounds.held_out_share)
    usable = figures.train + figures.held_out
    return SplitReport(usable, figures.train, figures.held_out, share, False, 0, 0, 0, 0, 0, note=PUBLISHED)


def split_report(session: Session, round: Round) -> SplitReport | None:
    """Return how the round was split, if it was."""
    entries = select(AuditEntry.after).where(AuditEntry.round_id == round.id, AuditEntry.action == SPLIT)
    after = session.scalar(entries.order_by(AuditEntry.id).limit(1))
    return SplitReport.read(after) if after else None


def _sides(session: Session, round: Round, workers: NameLookup) -> Sides:
    """Return the sides that the task's other split rounds gave to workers."""
    split = select(AuditEntry.round_id).where(AuditEntry.action == SPLIT, AuditEntry.round_id.is_not(None))
    others = select(Round).where(Round.task_id == round.task_id, Round.id != round.id, Round.id.in_(split))
    rounds = session.scalars(others.order_by(Round.number)).all()
    on: dict[Split, set[str]] = {part: set() for part in Split}
    for one in rounds:
        met = select(Example.author_id, Example.split).where(Example.round_id == one.id, Example.split.is_not(None))
        rows = session.execute(met.distinct()).all()
        for (_, part), worker in zip(rows, workers.of([author for author, _ in rows]), strict=True):
            if part is not None:
                on[part].add(worker)
    train = frozenset(on[Split.TRAIN])
    return Sides(tuple(one.number for one in rounds), train, frozenset(on[Split.HELD_OUT]) - train)


def _apply_splits(
    session: Session, round: Round, plan: SplitPlan, workers: NameLookup, withheld: frozenset[int], after: int
) -> int:
    """Apply the plan to the next examples; return the id of the last one, or -1 if there are no more."""
    plain = PlainRows(session)
    columns = (Example.id, plain.hex(Example.public_id), Example.author_id, plain.word(Example.split))
    # All of them, not only verified ones: SQLite would use another index and sort the round for every batch.
    wanted = select(*columns, plain.word(Example.status)).where(Example.round_id == round.id, Example.id > after)
    rows = plain.fetch(wanted.order_by(Example.id).limit(BATCH))
    verified = [row for row in rows if row[4] == ExampleStatus.VERIFIED and row[0] not in withheld]
    authors = workers.of([row[2] for row in verified])
    moved: dict[Split | None, list[int]] = defaultdict(list)
    for (number, example, _, split, _), author in zip(verified, authors, strict=True):
        part = plan.part(example, author)
        if part != split:
            moved[part].append(number)
    for part, numbers in moved.items():
        session.connection().execute(update(Example).where(Example.id.in_(_padded(numbers))).values(split=part))
    return int(rows[-1][0]) if rows else -1


def _padded(numbers: list[int]) -> list[int]:
    """Return the numbers, the last one repeated up to a power of two.

    SQLite's driver caches the last hundred statements, half a megabyte each; each length would be another statement.
    """
    return numbers + numbers[-1:] * ((1 << (len(numbers) - 1).bit_length()) - len(numbers))


def _archive_rules(store: Store, round: Round) -> ArchiveRules:
    """Return which rows are archived; attempts and confirmations that arrive after the first freeze are left out."""
    with store.write() as session:
        withheld = withheld_examples(session, round)
        if round.frozen_at is not None:
            entries = select(AuditEntry.after).where(AuditEntry.round_id == round.id, AuditEntry.action == FROZEN)
            after = session.scalar(entries.order_by(AuditEntry.id).limit(1))
            known = after or {}
            return ArchiveRules(int(known["last_attempt"]), known.get("last_assignment"), withheld)
        if session.get_bind().dialect.name == "postgresql":
            # Ids are assigned before rows become visible: wait for transactions that store attempts or assignments
            # now, so that no row with a lower id appears later.
            session.execute(text("LOCK TABLE assignment, attempt IN SHARE MODE"))
        attempts = select(func.max(Attempt.id)).where(Attempt.round_id == round.id)
        assignments = select(func.max(Assignment.id)).join(Hit, Hit.id == Assignment.hit_id)
        last_assignment = session.scalar(assignments.where(Hit.round_id == round.id)) or 0
        return ArchiveRules(session.scalar(attempts) or 0, last_assignment, withheld)


def _fill(
    store: Store, task: Task, round: Round, draft: Path, rules: ArchiveRules, splits: SplitReport, progress: Progress
) -> ArchiveManifest:
    with store.read() as session, ArchiveFiles(draft) as files:
        stored = collected(session, round).stored
        decided = splits.rule >= RULE
        rows = RoundRows(session, task, round, rules=rules, beside=files.made, decided=decided)
        columns = rows.tables.columns
        progress.start(sum(stored.values()), f"freezing round {round.number} of {task.name}")
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
        # Unconfirmed examples are not in the files; the manifest says how many there were.
        statuses[ExampleStatus.UNCONFIRMED.value] = stored.get(ExampleStatus.UNCONFIRMED, 0)
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
            examples={name: number for name, number in statuses.items() if number},
            splits=splits.as_data(),
            written_by={"outfox": installed_version("outfox"), "pyarrow": pa.__version__},
            files=files.entries,
            withheld=len(rules.withheld),
        )


def _check_same_as_before(round: Round, manifest: ArchiveManifest) -> None:
    if round.archive_sha256 not in (None, manifest.sha256):
        made = ", ".join(f"{name} {version}" for name, version in manifest.written_by.items())
        text = f"round {round.number} was frozen as {str(round.archive_sha256)[:12]} and would now be"
        advice = "use the versions that its manifest names, or copy the first archive"
        raise ArchiveConflict(f"{text} {manifest.sha256[:12]} (with {made}); {advice}")


def _time(at: datetime | None) -> str:
    return at.isoformat() if at else ""
