"""One row of an import: what a published example says, checked against the task that it is imported into."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outfox.arguments import quoted
from outfox.imports.problems import RowError

MAX_ID = 200
MAX_TEXT = 100_000
STATUSES = ("verified", "disputed", "unchecked", "pending", "flagged", "withdrawn")
TRAIN, HELD_OUT = "train", "held_out"
# The splits of published data, and what they may be used for here.
USES = {
    "train": TRAIN, "training": TRAIN, "dev": HELD_OUT, "validation": HELD_OUT, "valid": HELD_OUT, "val": HELD_OUT,
    "test": HELD_OUT, "held_out": HELD_OUT,
}  # fmt: skip
# Labels as known data sets write them; they stand for the other one where the task has that.
SAME_LABELS = {
    "e": "entailment", "n": "neutral", "c": "contradiction", "hate": "hateful", "nothate": "not_hateful",
    "non_hateful": "not_hateful",
}  # fmt: skip
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


@dataclass(frozen=True)
class TaskShape:
    """What an import needs to know about the task: its labels and the roles of its fields."""

    name: str
    kind: str
    labels: tuple[str, ...]
    inputs: tuple[str, ...]
    fields: Mapping[str, str]

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "TaskShape":
        """Return the shape of a task with these settings."""
        return cls(
            spec["name"],
            spec["kind"],
            tuple(label["name"] for label in spec["labels"]),
            tuple(spec["model_input"]),
            # The span that is selected is the answer.
            {one["name"]: one["role"] for one in spec["fields"] if one["role"] != "span"},
        )

    def first(self, role: str) -> str | None:
        """Return the first field of a role that the model does not read."""
        return next((name for name, its in self.fields.items() if its == role and name not in self.inputs), None)


@dataclass(slots=True)
class ImportedVote:
    """One published vote; workers are often not named."""

    worker: str | None
    value: str | None
    start: int | None = None
    flag: str | None = None


@dataclass(slots=True)
class ImportedRow:
    """One published example, in the terms of the task."""

    id: str
    round: int | None
    fields: dict[str, str | None]
    gold: str | None
    gold_start: int | None
    status: str
    author_label: str | None = None
    author_start: int | None = None
    published_split: str | None = None
    split: str | None = None
    model: str | None = None
    prediction: str | None = None
    confidence: float | None = None
    probabilities: dict[str, float] | None = None
    fooled: bool | None = None
    votes: list[ImportedVote] = field(default_factory=list)
    author: str | None = None
    context: str | None = None
    original: str | None = None
    kept: tuple[str | None, ...] = ()
    predictions: dict[str, str] = field(default_factory=dict)


class Labels:
    """Finds the task's label for a published one."""

    def __init__(self, labels: Sequence[str], given: Mapping[str, str]) -> None:
        self._labels = labels
        self._found: dict[Any, str] = {name: name for name in labels}
        self._found |= {one: name for one, name in SAME_LABELS.items() if name in labels and one not in labels}
        self._found |= given

    def find(self, value: Any) -> str | None:
        """Return the task's label, or None if there is no such label."""
        key = value if isinstance(value, str) else _number_text(value)
        found = self._found.get(key)
        if found is None and key is not None:
            found = self._found.get(re.sub(r"[^a-z0-9]+", "_", key.strip().lower()))
            if found is not None:
                self._found[key] = found
        return found

    def of(self, value: Any, what: str) -> str:
        """Return the task's label; raise RowError if there is no such label."""
        # Most labels are written as in the task, or were met before.
        found = self._found.get(value) if type(value) is str else None
        if found is None:
            found = self.find(value)
        if found is None:
            known = ", ".join(self._labels)
            raise RowError("label_unknown", f"{what} is {quoted(value)}; the task's labels are {known}")
        return found


def text_in(value: Any, what: str, most: int = MAX_TEXT) -> str:
    """Return a text that can be stored; raise RowError for anything else."""
    if not isinstance(value, str) or not value.strip():
        raise RowError("text_missing", f"has no text in `{what}`; add it, or name its column")
    if len(value) > most:
        raise RowError("text_too_long", f"has {len(value):,} characters in `{what}`; at most {most:,} are allowed")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RowError("text_invalid", f"has half of a character in `{what}`; correct the text") from None
    if "\0" in value:
        raise RowError("text_invalid", f"has a null character in `{what}`; remove it")
    return value


def optional_text(value: Any, what: str) -> str | None:
    """Return a text, a number as text, or None if there is none."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        value = _number_text(value)
    return text_in(value, what)


def id_in(value: Any, what: str) -> str:
    """Return an id: a short text on one line, or a number."""
    own = value if isinstance(value, str) else _number_text(value)
    if not own or not own.strip() or len(own) > MAX_ID or _CONTROLS.search(own):
        raise RowError("id_invalid", f"{what} is {quoted(value)}; write one line of 1 to {MAX_ID} characters")
    return text_in(own, what, MAX_ID)


def split_in(value: Any) -> tuple[str, str]:
    """Return a split as it was published, and what it may be used for."""
    if type(value) is str and value in USES:
        return value, USES[value]
    name = value.strip() if isinstance(value, str) else ""
    use = USES.get(name.lower())
    if use is None:
        raise RowError("split_unknown", f"the split is {quoted(value)}; use one of {', '.join(USES)}")
    return name, use


def count_in(value: Any, what: str, least: int = 0) -> int:
    """Return a whole number."""
    found = _number_text(value) if not isinstance(value, str) else value.strip()
    if not found or not found.isdecimal() or not least <= int(found) <= 2**31 - 1:
        raise RowError("number_invalid", f"{what} is {quoted(value)}; write a whole number from {least}")
    return int(found)


def answer_in(answer: Any, start: Any, passage: str, what: str) -> tuple[str, int]:
    """Return an answer and its position in the passage."""
    text = text_in(answer, what)
    at = passage.find(text) if start is None else count_in(start, "answer_start")
    if at < 0 or passage[at : at + len(text)] != text:
        raise RowError("answer_invalid", f"the passage does not have {quoted(text)} at answer_start; correct it")
    return text, at


def share_in(value: Any, what: str) -> float:
    """Return a probability."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = -1.0
    if not 0 <= found <= 1:
        raise RowError("share_invalid", f"{what} is {quoted(value)}; write a number from 0 to 1")
    return found


def _number_text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(int(value)) if value == value // 1 else str(value)


Get = Callable[[Mapping[str, Any]], Any]
