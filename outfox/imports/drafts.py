"""An import as a whole: all files are read and checked once, and written as drafts of archives, all or none.

The drafts of equal files, choices and settings are equal, wherever they are written.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import pyarrow as pa

from outfox.imports.checks import RowRegister
from outfox.imports.forms import Form
from outfox.imports.mapping import Choices, RowMapper
from outfox.imports.problems import Problems, RowError, refuse
from outfox.imports.rows import HELD_OUT, TRAIN, ImportedRow, TaskShape
from outfox.imports.sources import Source
from outfox.imports.tables import PredictionFiles, RoundTables
from outfox.manifests import RoundManifest, json_sha256
from outfox.schemas import TableSchemas

IMPORTED = "imported"
MAX_ROUNDS = 100
# Rows between two reports of progress.
REPORTED = 5_000
Advance = Callable[[int], None]


@dataclass(frozen=True)
class Provenance:
    """Where the data is from, under which licence it may be used, and how to cite it."""

    source: str
    licence: str
    citation: str = ""


@dataclass(frozen=True)
class ImportPlan:
    """What is imported, and into which task; `next_round` is the number of a round that the files do not number.

    `renumber` gives published rounds other numbers. With `suite`, the rows become a test suite of that name.
    """

    form: Form
    spec: Mapping[str, Any]
    sources: Sequence[Source]
    choices: Choices
    provenance: Provenance
    next_round: int = 1
    renumber: Mapping[int, int] = field(default_factory=dict)
    suite: str = ""
    hidden: bool = False


@dataclass(frozen=True)
class DraftRound:
    """One round, or a suite, as a folder without a manifest, and the manifest.

    `tallies` counts examples by status and by whether they fooled the model, None if that is not known; `cast` counts
    votes that are alike; `parts` counts the published splits.
    """

    number: int
    folder: Path
    manifest: RoundManifest
    tallies: Counter[tuple[str, bool | None]]
    cast: Counter[tuple[str, ...]]
    parts: Counter[str | None]

    @property
    def rows(self) -> int:
        """The number of examples."""
        return self.tallies.total()


@dataclass(frozen=True)
class ImportDraft:
    """The drafts of all rounds by number, and the files with predictions of published models."""

    rounds: tuple[DraftRound, ...]
    predictions: Mapping[str, Path]
    predicted: Counter[str]


def imported_spec(spec: Mapping[str, Any], form: Form, licence: str) -> dict[str, Any]:
    """Return a task's settings as those of its imported rounds: the data's licence and the published policy."""
    validation = {**spec["validation"], "policy": form.policy, "established_votes": 0}
    return {**spec, "data_licence": licence, "validation": validation}


def draft_rounds(plan: ImportPlan, folder: Path, advance: Advance = lambda rows: None) -> ImportDraft:
    """Write the drafts below a folder; raise NotImportable, with all mistakes, if anything is wrong."""
    return _Draft(plan, folder).write(advance)


class _Draft:
    """One pass over all rows."""

    def __init__(self, plan: ImportPlan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._spec = imported_spec(plan.spec, plan.form, plan.provenance.licence)
        self._mapper = RowMapper(plan.form, TaskShape.of(plan.spec), plan.choices)
        self._kept = _kept_columns(self._mapper.slices, self._spec)
        self._schemas = TableSchemas.of(self._spec, imported=self._kept)
        self._tables: dict[int, RoundTables] = {}
        self._registers: dict[int, RowRegister] = {}
        self._problems = Problems()
        # The files that the rows of each round come from; without published splits, ours are drawn.
        self._files: dict[int, dict[str, str]] = {}
        self._drawn: bool | None = None

    def write(self, advance: Advance) -> ImportDraft:
        names = [source.name for source in self._plan.sources]
        predictions = PredictionFiles(self._folder / "predictions")
        with ExitStack() as stack:
            stack.callback(predictions.close)
            for place, source in enumerate(self._plan.sources):
                for line, row in self._rows(source, advance):
                    number = self._number(row, source, line)
                    if number is None:
                        continue
                    if number not in self._tables:
                        self._open(number, stack)
                    self._files.setdefault(number, {})[source.name] = source.sha256
                    self._registers[number].add(row.id, row.original, row.split, place, line)
                    self._tables[number].add(row)
                    if row.predictions and row.split == HELD_OUT:
                        predictions.add(row, number)
            for register in self._registers.values():
                elsewhere = self._plan.form.partners_elsewhere
                register.check(self._problems, names, elsewhere=elsewhere, drawn=bool(self._drawn))
            self._problems.check()
            if not self._tables:
                raise refuse(names[0] if names else "import", "file_empty", "has no rows to import")
            rounds = tuple(self._finished(number) for number in sorted(self._tables))
            return ImportDraft(rounds, predictions.finish(), predictions.counts)

    def _rows(self, source: Source, advance: Advance) -> Iterator[tuple[int, ImportedRow]]:
        first, count = True, 0
        for line, raw in source.read(self._problems):
            if first:
                self._mapper.check_first(source, raw)
                first = False
            count += 1
            if count % REPORTED == 0:
                advance(REPORTED)
            try:
                row = self._mapper.map(raw, source, line)
                self._set_split(row)
            except RowError as error:
                self._problems.add(source.name, line, error.code, str(error))
            else:
                yield line, row
        advance(count % REPORTED)

    def _set_split(self, row: ImportedRow) -> None:
        """Draw the row's split if the files have none."""
        if self._plan.suite:
            return
        is_drawn = row.published_split is None
        if self._drawn is None and self._plan.form.name != "outfox":
            self._drawn = is_drawn
        if not self._drawn:
            if is_drawn and self._plan.form.name != "outfox":
                raise RowError("split_missing", "has no split, but other rows do; add it, or name it for the file")
            return
        if not is_drawn:
            raise RowError("split_missing", "has a split, but other rows do not; add it to all, or leave it out")
        if row.gold is not None and row.status not in ("withdrawn", "flagged", "disputed"):
            # Unconfirmed labels are not measured on.
            is_checked = row.status != "unchecked"
            row.split = drawn_split(self._spec["name"], row.id, row.original, self._held_out_share if is_checked else 0)

    @property
    def _held_out_share(self) -> float:
        return float(self._spec["rounds"].get("held_out_share", 0.2))

    def _number(self, row: ImportedRow, source: Source, line: int) -> int | None:
        if self._plan.suite:
            return 0
        number = self._plan.next_round if row.round is None else self._plan.renumber.get(row.round, row.round)
        if number not in self._tables and len(self._tables) >= MAX_ROUNDS:
            text = f"is the first row of round {number}, the {MAX_ROUNDS + 1}th; is the column right?"
            self._problems.add(source.name, line, "rounds_too_many", text)
            return None
        return number

    def _open(self, number: int, stack: ExitStack) -> None:
        tables = RoundTables(self._folder / f"round-{number}", number, self._schemas)
        stack.callback(tables.close)
        self._tables[number], self._registers[number] = tables, RowRegister()

    def _finished(self, number: int) -> DraftRound:
        plan, tables = self._plan, self._tables[number]
        entries, models = tables.finish()
        statuses: Counter[str] = Counter()
        for (status, _), count in tables.tallies.items():
            statuses[status] += count
        manifest = RoundManifest(
            task=self._spec["name"],
            round=number,
            kind=self._spec["kind"],
            opened_at="",
            validating_at="",
            closed_at="",
            spec_sha256=json_sha256(self._spec),
            spec=self._spec,
            models=models,
            examples=dict(sorted(statuses.items())),
            splits=self._splits(number, tables),
            written_by={"outfox": _version(), "pyarrow": pa.__version__},
            files=entries,
            origin=self._origin(number, plan),
            suite=plan.suite,
        )
        return DraftRound(
            number,
            self._folder / f"round-{number}",
            manifest,
            tables.tallies,
            tables.cast,
            tables.parts,
        )

    def _splits(self, number: int, tables: RoundTables) -> dict[str, Any]:
        register = self._registers[number]
        found: dict[str, Any] = {
            TRAIN: tables.splits[TRAIN],
            HELD_OUT: tables.splits[HELD_OUT],
            "published": {str(name): many for name, many in sorted(tables.parts.items(), key=str) if name is not None},
        }
        if self._drawn:
            found["held_out_share"] = self._held_out_share
        if register.parted_pairs:
            found["parted_pairs"] = register.parted_pairs
        if register.pairs_elsewhere:
            found["pairs_elsewhere"] = register.pairs_elsewhere
        return found

    def _origin(self, number: int, plan: ImportPlan) -> dict[str, Any]:
        known = {name: list(columns) for name, columns in self._mapper.columns.items()}
        found: dict[str, Any] = {
            "kind": IMPORTED,
            "form": plan.form.name,
            "source": plan.provenance.source,
            "licence": plan.provenance.licence,
            "citation": plan.provenance.citation,
            "files": dict(sorted(self._files[number].items())),
            "columns": known,
            "labels": dict(plan.choices.labels) or dict(plan.form.labels),
            "slices": list(self._kept),
        }
        published = sorted(old for old, new in plan.renumber.items() if new == number)
        if published:
            found["published_round"] = published[0]
        if differ := self._tables[number].votes_differ:
            found["votes_differ"] = differ
        if plan.suite:
            found["hidden"] = plan.hidden
        return found


def _kept_columns(slices: Sequence[str], spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that slices become; one whose name is taken is called `source_…`."""
    shape = TableSchemas.of(spec, imported=())
    taken = set(shape.examples.names)
    names: list[str] = []
    for one in slices:
        plain = "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in one.lower()).strip("_")
        plain = plain if plain[:1].isalpha() and plain not in taken else f"source_{plain}"
        if plain in taken:
            raise refuse("slices", "column_repeated", f"{one!r} is named twice; name each column once")
        names.append(plain)
        taken.add(plain)
    return tuple(names)


def drawn_split(task: str, own: str, original: str | None, share: float) -> str:
    """Return the split of an example that was published without one; a contrast has that of its original."""
    place = int.from_bytes(hashlib.sha256(f"{task}/{original or own}".encode()).digest()[:8]) / 2**64
    return HELD_OUT if place < share else TRAIN


def _version() -> str:
    for name in ("outfox", "outfox-client"):
        try:
            return installed_version(name)
        except PackageNotFoundError:
            continue
    return ""
