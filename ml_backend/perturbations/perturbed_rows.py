"""Perturbed copies of rows, each with the right answer of its original."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ml_backend.errors import PerturbationInvalid, PerturbationNotFound
from ml_backend.perturbations.edit import Change, Draw, Edit, Text, primary
from ml_backend.perturbations.protection import protected_spans
from ml_backend.perturbations.registry import find_edits
from templates.rows import SeedRow


@dataclass(frozen=True)
class PerturbedRow:
    """A copy of a row that one edit changed: all fields of the original, and the place of its answer, if it has one."""

    original_id: str
    edit: str
    fields: Mapping[str, str]
    answer_start: int | None = None


def perturb(
    rows: Iterable[SeedRow],
    edits: Sequence[Edit | str],
    *,
    fields: Sequence[str],
    language: str,
    kind: str,
    protected: Sequence[str] = (),
    seed: int = 0,
) -> list[PerturbedRow]:
    """Return a copy of each row for each edit that changes it, in the order of the rows.

    `fields` are those that the model reads; for QA, the first is the passage. `protected` are words that bear a label
    of the task. They stay, as do answers, addresses and the words of `LABEL_WORDS`. A copy depends on the seed, the
    edit and the row's id and content only: rows can be perturbed in any order, and in parts.
    """
    names = [edit for edit in edits if isinstance(edit, str)]
    by_name = dict(zip(names, find_edits(names), strict=True)) if names else {}
    chosen = [by_name[edit] if isinstance(edit, str) else edit for edit in edits]
    for edit in chosen:
        if not edit.fits(language, kind):
            raise PerturbationNotFound(f"perturbation {edit.name} does not fit {kind} tasks in {language}")
    found = []
    for row in rows:
        texts = {name: _text(row.fields[name], row, primary(language), protected) for name in fields}
        for edit in chosen:
            copy = _copy(row, edit, texts, seed)
            if copy is not None:
                found.append(copy)
    return found


def _text(content: str, row: SeedRow, language: str, protected: Sequence[str]) -> Text:
    answers = () if row.answer is None else (row.answer,)
    return Text(content, language, tuple(protected_spans(content, language, protected, answers)))


def _copy(row: SeedRow, edit: Edit, texts: Mapping[str, Text], seed: int) -> PerturbedRow | None:
    found = {name: sorted(changes, key=lambda one: one.start) for name, changes in _found(row, edit, texts, seed)}
    for name, changes in found.items():
        _check(edit, texts[name], changes)
    new = {name: _applied(texts[name].content, changes) for name, changes in found.items()}
    if all(new[name] == texts[name].content for name in new):
        return None
    start = row.answer_start
    if start is not None:
        passage = next(iter(texts))
        start += sum(len(one.new) - (one.end - one.start) for one in found.get(passage, []) if one.end <= start)
    return PerturbedRow(row.id, edit.name, {**row.fields, **new}, start)


def _found(row: SeedRow, edit: Edit, texts: Mapping[str, Text], seed: int) -> Iterable[tuple[str, Sequence[Change]]]:
    return edit.find(texts, Draw(seed, edit.name, row.id)).items()


def _check(edit: Edit, text: Text, changes: Sequence[Change]) -> None:
    """Raise PerturbationInvalid if an edit does what it declares not to do, before a model is measured with it."""
    problem = ""
    for change in changes:
        if not 0 <= change.start <= change.end <= len(text.content):
            problem = "changes what is not there"
        elif not text.is_free(change.start, change.end):
            problem = "changes protected text"
        elif not edit.allows(text.content[change.start : change.end], change.new):
            problem = "changes other characters than it declares"
    if any(first.end > second.start for first, second in pairwise(changes)):
        problem = "changes the same text twice"
    if problem:
        raise PerturbationInvalid(f"perturbation {edit.name} {problem}; report it to the author of its package")


def _applied(content: str, changes: Sequence[Change]) -> str:
    parts, place = [], 0
    for change in changes:
        parts += [content[place : change.start], change.new]
        place = change.end
    return "".join([*parts, content[place:]])
