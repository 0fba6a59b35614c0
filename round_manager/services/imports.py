"""Use cases about published data: import rounds and test suites, and list the suites.

An import reads all files once, writes complete archives, and then adds the rounds in one transaction. Archives that
were placed without that transaction are removed by the next import or freeze of the task.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from common.errors import Hint
from common.progress import NoProgress, Progress
from outfox.errors import ImportNotWritten, InvalidArgument, NotImportable, OutfoxError
from outfox.imports.drafts import ImportDraft, ImportPlan, Provenance, draft_rounds
from outfox.imports.mapping import Choices
from outfox.imports.rounds import (
    PREDICTIONS,
    checked_provenance,
    checked_suite,
    folder_name,
    form_of,
    placed_drafts,
    predictions_name,
    sources_of,
    votes_by_id,
)
from outfox.imports.sources import count_rows
from round_manager.archive import imported_rounds
from round_manager.archive.imported_texts import add_imported_texts, unknown_rounds
from round_manager.archive.storage import Archives
from round_manager.database.store import process_lock
from round_manager.errors import ArchiveError, DataImportError, ImportInvalid, ImportNotPossible, ProvenanceMissing
from round_manager.models import Round, Suite
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task

HELP = Hint("describe_import")


@dataclass(frozen=True)
class ImportRequest:
    """What is imported: files in a form, where they are from, and choices; `outfox.import_rounds` explains them.

    `renumber` gives published rounds other numbers.
    """

    form: str
    files: Sequence[str | Path]
    source: str
    licence: str
    citation: str = ""
    rounds: Sequence[int] = ()
    splits: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    slices: Sequence[str] = ()
    votes: Sequence[Path] = ()
    renumber: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedArchive:
    """One imported round, or a suite, whose number is 0; `already` says whether it was imported before."""

    number: int
    where: str
    sha256: str
    examples: Mapping[str, int]
    splits: Mapping[str, Any]
    votes: int
    already: bool


@dataclass(frozen=True)
class DataImported:
    """An import: its archives, the predictions of published models, and the number of texts that became known.

    After a dry run, none of this exists. `next_round` is the number of the round that can be opened next.
    """

    task: str
    archives: tuple[ImportedArchive, ...]
    predictions: Mapping[str, str]
    texts: int
    next_round: int
    dry_run: bool


def import_rounds(
    context: ServiceContext,
    actor: Actor,
    task: str,
    request: ImportRequest,
    archives: Archives,
    *,
    dry_run: bool = False,
    reason: str = "",
    progress: Progress | None = None,
) -> DataImported:
    """Import published rounds as closed and frozen rounds of the task, all or none; safe to repeat.

    Raises:
        ImportInvalid: Files have mistakes; all of them are in `problems`, with their lines.
        RoundNumberTaken: A published round has the number of another round of the task.
    """
    started = _Import(context, actor, task, request, archives, reason, progress or NoProgress())
    done = started.run(dry_run=dry_run)
    return done if dry_run else replace(done, texts=index_texts(context, task, progress))


def import_suite(
    context: ServiceContext,
    actor: Actor,
    task: str,
    name: str,
    request: ImportRequest,
    archives: Archives,
    *,
    hidden: bool = False,
    dry_run: bool = False,
    reason: str = "",
    progress: Progress | None = None,
) -> DataImported:
    """Import a published test suite, which belongs to no round; safe to repeat. No model is ever trained on it.

    Raises:
        ImportInvalid: Files have mistakes; all of them are in `problems`, with their lines.
        SuiteExists: The task has another suite of that name.
    """
    if not name:
        raise ImportNotPossible("a test suite needs a name", hint=HELP)
    started = _Import(
        context, actor, task, request, archives, reason, progress or NoProgress(), suite=name, hidden=hidden
    )
    return started.run(dry_run=dry_run)


def import_lock(context: ServiceContext, task: str) -> AbstractContextManager[None]:
    """Return the lock that an import into the task holds."""
    return process_lock(context.store, f"import-{task}")


def index_texts(context: ServiceContext, task: str, progress: Progress | None = None) -> int:
    """Make known the texts of imported rounds that are not known yet, and return how many; safe to repeat."""
    with context.store.read() as session:
        waiting = unknown_rounds(session, find_task(session, task))
    return add_imported_texts(context.store, task, waiting, progress)


def list_suites(context: ServiceContext, task: str) -> list[Suite]:
    """Return the task's test suites by name."""
    with context.store.read() as session:
        return imported_rounds.list_suites(session, find_task(session, task))


def undo_interrupted_import(context: ServiceContext, task: str, archives: Archives) -> None:
    """Remove archives that a killed import placed without adding their rounds."""
    with import_lock(context, task):
        archives.undo(task, _known_archives(context, task))


@dataclass(frozen=True)
class _Import:
    """One import into a task, of rounds or, with a name, of a suite."""

    context: ServiceContext
    actor: Actor
    task: str
    request: ImportRequest
    archives: Archives
    reason: str
    progress: Progress
    suite: str = ""
    hidden: bool = False

    def run(self, *, dry_run: bool) -> DataImported:
        """Read the files, write the archives, and add the rounds or the suite; a dry run only reads."""
        with import_lock(self.context, self.task), _import_errors():
            plan = self._plan()
            self._undo()
            with self.archives.staging(self.task) as folder:
                self.progress.start(sum(map(count_rows, plan.sources)), f"importing into {self.task}")
                draft = draft_rounds(plan, folder, self.progress.advance)
                self.progress.finish()
                with self.context.store.read() as session:
                    already = self._already(session, draft)
                places = placed_drafts(draft, plan)
                if not dry_run and len(already) < len(draft.rounds):
                    self._place(draft, places)
                return self._report(plan, draft, already, dry_run=dry_run)

    def _plan(self) -> ImportPlan:
        request, form = self.request, form_of(self.request.form)
        if self.suite:
            checked_suite(self.suite)
        provenance = _provenance(request)
        sources = sources_of(list(request.files), form, request.splits, request.rounds)
        votes = votes_by_id(request.votes, form)
        with self.context.store.read() as session:
            owner = find_task(session, self.task)
            same = imported_rounds.same_files(session, owner, {one.name: one.sha256 for one in sources})
            number = same.number if same else imported_rounds.next_number(session, owner)
            spec = owner.spec
        choices = Choices(request.columns, request.labels, request.slices, votes, bool(self.suite))
        return ImportPlan(form, spec, sources, choices, provenance, number, request.renumber, self.suite, self.hidden)

    def _place(self, draft: ImportDraft, places: Mapping[str, Path]) -> None:
        """Make the archives visible and add their rounds: both, or none."""
        try:
            self.archives.place(self.task, places)
            self._add(draft)
        except BaseException:
            self._undo()
            raise
        self.archives.settle(self.task)

    def _undo(self) -> None:
        self.archives.undo(self.task, _known_archives(self.context, self.task))

    def _add(self, draft: ImportDraft) -> None:
        with self.context.store.write() as session:
            owner = find_task(session, self.task)
            # A round can have been opened since the last look.
            already = self._already(session, draft)
            new = [(one, self._where(one.number)) for one in draft.rounds if one.number not in already]
            change = imported_rounds.Change(self.actor.name, self.reason, self.context.now())
            if self.suite:
                for one, where in new:
                    imported_rounds.add_suite(session, owner, one, where, change)
            else:
                imported_rounds.add_rounds(session, owner, new, change)

    def _already(self, session: Session, draft: ImportDraft) -> set[int]:
        """Return the numbers of what is imported already."""
        owner = find_task(session, self.task)
        if not self.suite:
            return imported_rounds.check_numbers(session, owner, draft.rounds)
        (only,) = draft.rounds
        return {only.number} if imported_rounds.is_suite_known(session, owner, only) else set()

    def _where(self, number: int) -> str:
        return self.archives.place_of(self.task, folder_name(number, self.suite))

    def _report(self, plan: ImportPlan, draft: ImportDraft, already: set[int], *, dry_run: bool) -> DataImported:
        found = tuple(
            ImportedArchive(
                one.number,
                self._where(one.number),
                one.manifest.sha256,
                dict(one.manifest.examples),
                dict(one.manifest.splits),
                one.manifest.files["votes.parquet"].rows,
                one.number in already,
            )
            for one in draft.rounds
        )
        place = self.archives.place_of(self.task, f"{PREDICTIONS}/{predictions_name(draft, plan)}")
        predictions = {model: f"{place}/{file.name}" for model, file in draft.predictions.items()}
        with self.context.store.read() as session:
            following = imported_rounds.next_number(session, find_task(session, self.task))
        following = max(following, *(one.number + 1 for one in draft.rounds))
        return DataImported(self.task, found, predictions, 0, following, dry_run)


def _provenance(request: ImportRequest) -> Provenance:
    for name, value in (("source", request.source), ("licence", request.licence)):
        if not value.strip():
            text = f"imported data needs a {name}: say where it is from, and under which licence it may be used"
            raise ProvenanceMissing(text, hint=HELP)
    return checked_provenance(request.source, request.licence, request.citation)


def _known_archives(context: ServiceContext, task: str) -> set[str]:
    with context.store.read() as session:
        owner = find_task(session, task)
        rows: list[Round | Suite] = [*list_rounds(session, owner), *imported_rounds.list_suites(session, owner)]
        return {str(one.archive_sha256) for one in rows if one.archive_sha256}


@contextmanager
def _import_errors() -> Iterator[None]:
    """Raise errors of the client as errors of this program."""
    try:
        yield
    except NotImportable as error:
        raise ImportInvalid(str(error), error.problems, hint=HELP) from error
    except InvalidArgument as error:
        raise ImportNotPossible(str(error), hint=HELP) from error
    except ImportNotWritten as error:
        raise ArchiveError(str(error)) from error
    except OutfoxError as error:
        raise DataImportError(str(error), hint=HELP) from error
