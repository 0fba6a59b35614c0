"""Imported rounds and suites in a folder of archives, without a database."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outfox.archives import MANIFEST, read_manifest
from outfox.arguments import checked_folder, checked_task, quoted, reason
from outfox.errors import ArchiveExists, ImportNotWritten, InvalidArgument, OutfoxError
from outfox.imports.drafts import DraftRound, ImportDraft, ImportPlan, Provenance, draft_rounds
from outfox.imports.forms import FORMS, Form
from outfox.imports.mapping import Choices
from outfox.imports.placement import Placement
from outfox.imports.problems import Problems
from outfox.imports.sources import Source, archive_sources, frame_source, open_sources
from outfox.imports.specs import as_own, new_spec

MAX_LICENCE = 100
SUITE_PREFIX = "suite-"
PREDICTIONS = "predictions"


@dataclass(frozen=True)
class ImportedRound:
    """One imported round, or a suite, whose number is 0: where it is, its hash, and how many examples it has."""

    number: int
    path: Path
    sha256: str
    examples: dict[str, int]
    splits: dict[str, Any]
    votes: int
    already: bool = False


@dataclass(frozen=True)
class ImportReport:
    """The rounds of an import, and the files with predictions of published models. After a dry run, none exist."""

    rounds: tuple[ImportedRound, ...]
    predictions: dict[str, Path]


def form_of(name: Any) -> Form:
    """Return the form of that name."""
    if not isinstance(name, str) or name not in FORMS:
        raise InvalidArgument(f"`form` must be one of {', '.join(FORMS)}, not {quoted(name)}")
    return FORMS[name]


def checked_provenance(source: Any, licence: Any, citation: Any) -> Provenance:
    """Return where the data is from; a source and a licence are required."""
    for name, value, example in (("source", source, "https://…"), ("licence", licence, "CC-BY-4.0")):
        if not isinstance(value, str) or not value.strip():
            raise InvalidArgument(f"pass `{name}`, such as {example!r}: imported data always says where it is from")
    if len(licence.strip()) > MAX_LICENCE or not licence.isprintable():
        raise InvalidArgument(f"`licence` must be the name of a licence with at most {MAX_LICENCE} characters")
    if not isinstance(citation, str):
        raise InvalidArgument(f"`citation` must be a text, not {quoted(citation)}")
    return Provenance(source.strip(), licence.strip(), citation.strip())


def sources_of(data: Any, form: Form, splits: Sequence[str], rounds: Sequence[int]) -> list[Source]:
    """Return the files, folders or DataFrame that are imported; a split or a round for all of them, or one for each."""
    if hasattr(data, "iloc"):
        found = [frame_source(data)]
    else:
        paths = [data] if isinstance(data, str | Path) else data
        if not isinstance(paths, Iterable):
            raise InvalidArgument(f"`data` must be files or a DataFrame, not {quoted(data)}")
        files = [checked_folder("data", one, "train.jsonl") for one in paths]
        if not files:
            raise InvalidArgument("`data` names no file")
        found = archive_sources(files) if form.name == "outfox" else open_sources(files, form.kind)
    for name, values in (("split", splits), ("round", rounds)):
        if values and len(values) not in (1, len(found)):
            raise InvalidArgument(f"pass one {name} for all files, or one for each of the {len(found)}")
    return [
        replace(
            one,
            split=splits[place % len(splits)] if splits else one.split,
            round=rounds[place % len(rounds)] if rounds else one.round,
        )
        for place, one in enumerate(found)
    ]


def votes_by_id(paths: Sequence[Path], form: Form) -> dict[str, Any] | None:
    """Return the votes of separate files, such as ANLI's, by the id of the example."""
    if not paths:
        return None
    found: dict[str, Any] = {}
    problems = Problems()
    for source in open_sources(paths, None):
        for line, raw in source.read(problems):
            keys = [key for key in form.columns.get("votes", ("votes",)) if key in raw]
            own = next((raw[key] for key in form.columns.get("id", ("id",)) if key in raw), None)
            if not keys or own is None:
                problems.add(source.name, line, "votes_invalid", "has no id or no votes; is it a file of votes?")
            elif str(own) in found:
                problems.add(source.name, line, "id_duplicate", f"has votes on {quoted(own)} again; list each id once")
            else:
                found[str(own)] = raw[keys[0]]
    problems.check()
    return found


def import_into(
    data: Any,
    task: Any,
    *,
    form: Any,
    to: Any,
    source: Any,
    licence: Any,
    citation: Any,
    rounds: Sequence[int],
    splits: Sequence[str],
    columns: Mapping[str, str],
    values: Mapping[str, str],
    slices: Sequence[str],
    votes: Sequence[Path],
    labels: Sequence[str] | None,
    inputs: Sequence[str] | None,
    suite: str | None,
    hidden: bool,
    dry_run: bool,
) -> ImportReport:
    """Import into the folder of archives; see `outfox.import_rounds`."""
    name, chosen, root = checked_task(task), form_of(form), checked_folder("to", to, "archives")
    provenance = checked_provenance(source, licence, citation)
    sources = sources_of(data, chosen, splits, rounds)
    there = _archives_of(root, name)
    plan = ImportPlan(
        chosen,
        _spec(name, chosen, sources, there, labels, inputs),
        sources,
        Choices(columns, values, slices, votes_by_id(votes, chosen), suite is not None),
        provenance,
        next_round=max((number for number in there if number), default=0) + 1,
        suite="" if suite is None else checked_suite(suite),
        hidden=hidden,
    )
    placement = Placement(root / name)
    try:
        with placement.staging() as staging:
            placement.undo()
            draft = draft_rounds(plan, staging)
            if not dry_run:
                already = already_there(draft, root / name, plan)
                placement.place(placed_drafts(draft, plan))
                placement.settle()
            return _report(draft, root / name, plan, set() if dry_run else already)
    except OSError as error:
        text = f"cannot write {root}{reason(error)}; choose another folder, or free some disk space"
        raise ImportNotWritten(text) from error


def checked_suite(name: Any) -> str:
    """Return the name of a suite: lower-case letters, digits and hyphens."""
    valid = isinstance(name, str) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    if not valid or len(name) > 40 or name != name.lower() or not name[0].isalnum():
        raise InvalidArgument(f"a suite's name is up to 40 of a-z, 0-9, - and _, not {quoted(name)}")
    return str(name)


def folder_name(number: int, suite: str) -> str:
    """Return the name of an archive's folder."""
    return f"{SUITE_PREFIX}{suite}" if suite else f"round-{number}"


def _spec(
    task: str,
    form: Form,
    sources: Sequence[Source],
    there: Mapping[int, Mapping[str, Any]],
    labels: Sequence[str] | None,
    inputs: Sequence[str] | None,
) -> Mapping[str, Any]:
    """Return the task's settings: those of its newest archive, or new ones."""
    if there and not labels and not inputs:
        return dict(there[max(there)]["spec"])
    copied = next((one.spec for one in sources if one.spec is not None), None)
    return as_own(copied, task) if copied is not None else new_spec(task, form, labels, inputs)


def _archives_of(root: Path, task: str) -> dict[int, Mapping[str, Any]]:
    found: dict[int, Mapping[str, Any]] = {}
    for file in sorted((root / task).glob(f"*/{MANIFEST}")):
        manifest = read_manifest(file, "repair it first")
        found[int(manifest["round"])] = manifest
    return found


def already_there(draft: ImportDraft, folder: Path, plan: ImportPlan) -> set[int]:
    """Return the numbers of the archives that are there already; raise ArchiveExists if one has other data."""
    return {one.number for one in draft.rounds if _is_there(one, folder / folder_name(one.number, plan.suite))}


def placed_drafts(draft: ImportDraft, plan: ImportPlan) -> dict[str, Path]:
    """Complete the drafts with their manifests; return them by their places in the task's folder."""
    for one in draft.rounds:
        (one.folder / MANIFEST).write_bytes(one.manifest.written())
    found = {folder_name(one.number, plan.suite): one.folder for one in draft.rounds}
    if draft.predictions:
        found[f"{PREDICTIONS}/{predictions_name(draft, plan)}"] = next(iter(draft.predictions.values())).parent
    return found


def predictions_folder(folder: Path, draft: ImportDraft, plan: ImportPlan) -> Path:
    """Return where the predictions of published models are kept, in a task's folder."""
    return folder / PREDICTIONS / predictions_name(draft, plan)


def predictions_name(draft: ImportDraft, plan: ImportPlan) -> str:
    """Return the name of an import's predictions: its rounds, or its suite."""
    numbers = [one.number for one in draft.rounds]
    return f"{SUITE_PREFIX}{plan.suite}" if plan.suite else f"rounds-{'-'.join(map(str, numbers))}"


def _is_there(one: DraftRound, target: Path) -> bool:
    if not target.exists():
        return False
    try:
        same = read_manifest(target / MANIFEST, "move it away")["sha256"] == one.manifest.sha256
    except OutfoxError:
        same = False
    if not same:
        text = f"{target} has other data; import it as another round with `rounds`, or move it away"
        raise ArchiveExists(text)
    return True


def _report(draft: ImportDraft, folder: Path, plan: ImportPlan, already: set[int]) -> ImportReport:
    where = predictions_folder(folder, draft, plan)
    rounds = tuple(
        ImportedRound(
            one.number,
            folder / folder_name(one.number, plan.suite),
            one.manifest.sha256,
            dict(one.manifest.examples),
            dict(one.manifest.splits),
            one.manifest.files["votes.parquet"].rows,
            one.number in already,
        )
        for one in draft.rounds
    )
    return ImportReport(rounds, {model: where / file.name for model, file in draft.predictions.items()})
