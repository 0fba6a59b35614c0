"""From the rows of a published file to examples of the task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outfox.arguments import quoted
from outfox.imports.forms import MEANINGS, MIXED, Form, answers_in, nested, status_of, votes_in
from outfox.imports.problems import RowError, refuse
from outfox.imports.rows import (
    HELD_OUT,
    STATUSES,
    ImportedRow,
    Labels,
    TaskShape,
    answer_in,
    count_in,
    id_in,
    optional_text,
    share_in,
    split_in,
    text_in,
)
from outfox.imports.sources import Source

# A published model without a name.
UNNAMED = "published"


@dataclass(frozen=True)
class Choices:
    """What the caller of an import chose beyond the form.

    `columns` maps a field of the task, or one of `MEANINGS`, to a column; `labels` published labels to the task's.
    `votes` has votes from a separate file, by id.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    slices: Sequence[str] = ()
    votes: Mapping[str, Any] | None = None
    suite: bool = False


class RowMapper:
    """Maps the rows of one form to examples of one task."""

    def __init__(self, form: Form, shape: TaskShape, choices: Choices) -> None:
        self._form = form
        self._shape = shape
        self._choices = choices
        usual = {one: label for one, label in form.labels.items() if label in shape.labels}
        for one, label in choices.labels.items():
            if label not in shape.labels:
                text = f"{quoted(one)} stands for {quoted(label)}; the task's labels are {', '.join(shape.labels)}"
                raise refuse("labels", "label_unknown", text)
        self._labels = Labels(shape.labels, {**usual, **choices.labels})
        self._is_qa = shape.kind == "qa"
        self.columns = self._columns()
        # Whether a key is a path of keys is looked at once, and not for every row.
        self._keys = {name: [(one, "." in one) for one in columns] for name, columns in self.columns.items() if columns}
        self._fields = [(name, name in shape.inputs) for name in shape.fields if name in self._keys]
        self.slices = tuple(choices.slices or form.slices)

    def _columns(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of every field and meaning, in the order in which they are tried."""
        form, shape, given = self._form, self._shape, self._choices.columns
        known = {*shape.fields, *MEANINGS}
        for name in given:
            if name not in known:
                raise refuse("columns", "column_unknown", f"{quoted(name)} is not one of {', '.join(sorted(known))}")
        if form.inputs and len(form.inputs) != len(shape.inputs):
            has, reads = len(form.inputs), len(shape.inputs)
            text = f"the form {form.name} has texts in {has} fields, the model of {shape.name} reads {reads}"
            raise refuse("task", "task_differs", text)
        if (form.name == "squad") != self._is_qa and form.inputs:
            raise refuse("task", "task_differs", f"the form {form.name} does not fit a task of kind {shape.kind}")
        # A column that has one of the task's names means that field.
        found: dict[str, tuple[str, ...]] = {name: (name,) for name in shape.fields}
        if form.name == "outfox":
            found = {name: (f"field_{name}", name) for name in shape.fields}
        if form.inputs:
            found = dict(zip(shape.inputs, form.inputs, strict=True))
            for role, columns in (("reason", form.reason), ("context", form.prompt)):
                if columns and (first := shape.first(role)):
                    found[first] = columns
        found |= {meaning: columns for meaning, columns in form.columns.items() if meaning not in shape.fields}
        return found | {name: (column,) for name, column in given.items()}

    def check_first(self, source: Source, raw: Mapping[str, Any]) -> None:
        """Refuse a file whose first row lacks a column that every row needs."""
        for name in (*self._shape.inputs, "answer" if self._is_qa else "label"):
            candidates = self.columns.get(name, ())
            if not any(one in raw or nested(raw, one) is not None for one in candidates):
                there = ", ".join(str(one) for one in list(raw)[:20])
                wanted = " or ".join(map(repr, candidates)) or "column"
                text = f"has no {wanted} for `{name}`; name its column. The columns are: {there}"
                raise refuse(source.name, "column_missing", text)
        for name in self._choices.slices:
            if name not in raw:
                raise refuse(source.name, "column_missing", f"has no column {name!r} for the slices")

    def map(self, raw: Mapping[str, Any], source: Source, line: int) -> ImportedRow:
        """Return the row as an example; raise RowError if it cannot be one."""
        get = self._get
        given = get(raw, "id")
        own = id_in(given, "the id") if given is not None else f"{source.name}-{line}"
        fields: dict[str, str | None] = {
            name: text_in(get(raw, name), name) if is_read else optional_text(get(raw, name), name)
            for name, is_read in self._fields
        }
        published = source.split or get(raw, "split")
        split, use = (None, None) if published is None else split_in(published)
        if self._choices.suite:
            use = HELD_OUT
        number = source.round if source.round is not None else get(raw, "round")
        row = ImportedRow(
            id=own,
            round=None if number is None or self._choices.suite else count_in(number, "the round", 1),
            fields=fields,
            gold=None,
            gold_start=None,
            status="",
            published_split=split,
            split=use,
            author=optional_text(get(raw, "author"), "author"),
            context=optional_text(get(raw, "context"), "context"),
        )
        original = get(raw, "original")
        row.original = None if original is None or original == "" else id_in(original, "the original")
        if row.original == own:
            raise RowError("original_invalid", "names itself as its original; name the other example")
        self._judge(raw, row)
        self._add_model(raw, row)
        if self.slices:
            row.kept = tuple(_kept(raw.get(name), name) for name in self.slices)
        return row

    def _get(self, raw: Mapping[str, Any], name: str) -> Any:
        for one, is_path in self._keys.get(name, ()):
            found = nested(raw, one) if is_path else raw.get(one)
            if found is not None:
                return found
        return None

    def _judge(self, raw: Mapping[str, Any], row: ImportedRow) -> None:
        """Add the label or answer, the votes and the status."""
        votes = self._get(raw, "votes") if self._choices.votes is None else self._choices.votes.get(row.id)
        gold: Any = self._get(raw, "answer" if self._is_qa else "label")
        known = True
        if self._is_qa:
            row.votes = answers_in(votes)
            passage = row.fields[self._shape.inputs[1]] or ""
            if gold is not None:
                row.gold, row.gold_start = answer_in(gold, self._get(raw, "answer_start"), passage, "answer")
        else:
            row.votes = votes_in(votes, self._labels, self._form)
            if gold is not None and gold != "":
                known = not (self._form.name == "dynasent" and gold == MIXED)
                row.gold = self._labels.of(gold, "the label") if known else MIXED
        self._add_author_label(raw, row)
        status = self._get(raw, "status")
        if status is not None:
            if status not in STATUSES:
                raise RowError("status_unknown", f"the status is {quoted(status)}; use one of {', '.join(STATUSES)}")
            row.status = status
        elif row.gold is None and not (self._form.gold_may_be_missing and row.votes):
            raise RowError("label_missing", "has no label and no votes; add the published label, or leave the row out")
        else:
            row.status = status_of(self._form, row.gold if known else None, row.votes, row.split)
        if row.status in ("verified", "unchecked") and row.gold is None and row.author_label is None:
            raise RowError("label_missing", f"is {row.status} but has no label; add the published label")
        if row.gold is None or not known or row.status in ("withdrawn", "flagged"):
            # Nothing to learn from it or to measure on it; `published_split` keeps where it was.
            row.split = None

    def _add_author_label(self, raw: Mapping[str, Any], row: ImportedRow) -> None:
        if self._form.name == "anli":
            # Its authors write for a label that is given to them, and which is published.
            row.author_label = row.gold
            return
        own = self._get(raw, "author_label")
        if own is None:
            return
        if self._is_qa:
            row.author_label = optional_text(own, "author_label")
            start = raw.get("answer_start")
            row.author_start = None if start is None else count_in(start, "answer_start")
        else:
            row.author_label = self._labels.of(own, "the author's label")

    def _add_model(self, raw: Mapping[str, Any], row: ImportedRow) -> None:
        predictions = self._get(raw, "predictions")
        if predictions is not None:
            row.predictions = {str(name): self._said(value) for name, value in _object(predictions).items()}
        prediction = self._get(raw, "prediction")
        if prediction is None or prediction == "":
            return
        row.prediction = self._said(prediction)
        row.model = optional_text(self._get(raw, "model"), "model") or self._model_name(raw)
        shares = self._get(raw, "probabilities")
        if shares is not None and not self._is_qa:
            row.probabilities = {
                self._labels.of(name, "a probability's label"): share_in(value, "a probability")
                for name, value in _object(shares).items()
                if value is not None
            }
            row.confidence = row.probabilities.get(row.prediction)
        confidence = self._get(raw, "confidence")
        if confidence is not None:
            row.confidence = share_in(confidence, "the confidence")
        fooled = raw.get("fooled")
        if isinstance(fooled, bool):
            row.fooled = fooled
        elif not self._is_qa and (row.author_label or row.gold) is not None:
            row.fooled = row.prediction != (row.author_label or row.gold)

    def _said(self, value: Any) -> str:
        return text_in(value, "prediction") if self._is_qa else self._labels.of(value, "a prediction")

    def _model_name(self, raw: Mapping[str, Any]) -> str:
        """Return the name of a model that only a key names, as in `model_1_label`."""
        key = next((one for one in self.columns["prediction"] if raw.get(one) is not None), "")
        name = key.removesuffix("_label")
        return name if name != key and name != "model" else UNNAMED


def _object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        import json

        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, Mapping):
        raise RowError("object_invalid", f"is {quoted(value)} where an object by label or by model is expected")
    return value


def _kept(value: Any, name: str) -> str | None:
    if isinstance(value, list | dict):
        import json

        return json.dumps(value, ensure_ascii=False)
    return optional_text(value, name)
