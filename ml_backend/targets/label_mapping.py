"""Matching the labels of a foreign model with those of a task. A doubtful match is proposed, and never just used."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.errors import Hint
from ml_backend.errors import LabelMappingUnconfirmed, LabelMappingUnknown, ModelMismatch

# In a message.
MOST_LISTED = 20
# Names without meaning, such as LABEL_0, 0 or class-2.
_NUMBERED = re.compile(r"(?:label|class)?[\W_]*(\d+)", re.IGNORECASE)
# Words that models use for the same label. A match by synonym has to be confirmed.
SYNONYMS = (
    frozenset({"positive", "pos", "good", "favorable", "favourable"}),
    frozenset({"negative", "neg", "bad", "unfavorable", "unfavourable"}),
    frozenset({"neutral", "neu", "undetermined", "unknown", "neither"}),
    frozenset({"entailment", "entail", "entails", "e"}),
    frozenset({"contradiction", "contradict", "contradicts", "c"}),
    frozenset({"hate", "hateful", "hatespeech", "toxic", "offensive"}),
    frozenset({"nothate", "nothateful", "nonhate", "nohate", "nontoxic", "normal", "notoffensive", "none"}),
    frozenset({"n", "neutral"}),
)


@dataclass(frozen=True)
class LabelMapping:
    """The task's label for each output of a model, in their order; `certain` unless a person has to confirm it."""

    theirs: tuple[str, ...]
    labels: tuple[str, ...]
    certain: bool

    def __str__(self) -> str:
        return ",".join(f"{theirs}={ours}" for theirs, ours in zip(self.theirs, self.labels, strict=True))

    def confirmed(self) -> tuple[str, ...]:
        """Return the labels; raise LabelMappingUnconfirmed unless the mapping is certain."""
        if not self.certain:
            raise LabelMappingUnconfirmed(
                f"the model's labels probably mean {self}; confirm that, or give another mapping",
                hint=Hint("give_labels", labels=str(self)),
            )
        return self.labels


def map_labels(theirs: Sequence[str], ours: Sequence[str], given: Mapping[str, str] | None = None) -> LabelMapping:
    """Return the mapping of a model's labels: the given one, or else one inferred from their names.

    Names that differ only in case, spaces and punctuation are certain. Synonyms, and numbered names in the order of the
    task's labels, have to be confirmed.
    """
    if len(theirs) != len(ours):
        raise ModelMismatch(
            f"the model has {len(theirs)} labels ({_listed(theirs)}), the task {len(ours)} ({_listed(ours)}); "
            "use a model with the labels of the task"
        )
    if given:
        return _given(theirs, ours, given)
    plain = {_plain(label): label for label in ours}
    exact = [plain.get(_plain(name)) for name in theirs]
    if _complete(exact, ours):
        return LabelMapping(tuple(theirs), tuple(map(str, exact)), certain=True)
    close = [_synonym(name, ours) for name in theirs]
    if _complete(close, ours):
        return LabelMapping(tuple(theirs), tuple(map(str, close)), certain=False)
    numbers = [_NUMBERED.fullmatch(name.strip()) for name in theirs]
    if all(numbers):
        return LabelMapping(tuple(theirs), tuple(ours), certain=False)
    example = ",".join(f"{name}={label}" for name, label in zip(theirs, ours, strict=True))
    raise LabelMappingUnknown(
        f"the model's labels are {_listed(theirs)}, the task's {_listed(ours)}; say which is which",
        hint=Hint("give_labels", labels=example),
    )


def _given(theirs: Sequence[str], ours: Sequence[str], given: Mapping[str, str]) -> LabelMapping:
    order = [given.get(name) for name in theirs]
    if set(given) != set(theirs) or not _complete(order, ours):
        raise LabelMappingUnknown(
            f"the mapping must give each of the model's labels ({_listed(theirs)}) another one of the task's "
            f"({_listed(ours)})",
            hint=Hint("give_labels", labels=",".join(f"{a}={b}" for a, b in zip(theirs, ours, strict=True))),
        )
    return LabelMapping(tuple(theirs), tuple(map(str, order)), certain=True)


def _complete(order: Sequence[str | None], ours: Sequence[str]) -> bool:
    return sorted(map(str, order)) == sorted(ours)


def _synonym(name: str, ours: Sequence[str]) -> str | None:
    plain = _plain(name)
    for label in ours:
        mine = _plain(label)
        if plain == mine or any(plain in group and mine in group for group in SYNONYMS):
            return label
    return None


def _plain(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())


def _listed(labels: Sequence[str]) -> str:
    listed = ", ".join(label[:60] for label in labels[:MOST_LISTED])
    return f"{listed}, …" if len(labels) > MOST_LISTED else listed
