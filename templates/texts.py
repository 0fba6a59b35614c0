"""Texts that people write: whether they are blank, too long, or look like another text."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from templates.spec import TaskField, TaskSpec

# Unicode categories of invisible characters: controls, formats (zero-width ones included), spaces and line ends.
INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


@dataclass(frozen=True)
class TooLong:
    """A text that is longer than its field allows."""

    field: TaskField
    length: int

    def sentence(self, spec: TaskSpec) -> str:
        """Return the message for its author, in the task's language."""
        slots = {"title": self.field.title, "length": str(self.length), "most": str(self.field.max_chars)}
        return spec.messages.too_long.format_map(slots)


def too_long(field: TaskField, text: str) -> TooLong | None:
    """Return how long the text is if its field does not allow it, else None."""
    return TooLong(field, len(text)) if len(text) > field.max_chars else None


def first_too_long(spec: TaskSpec, texts: Mapping[str, str]) -> TooLong | None:
    """Return the first of these texts, by field name, that is too long. Contexts are never checked."""
    fields = (field for field in spec.fields if field.role != "context" and field.name in texts)
    return next((found for field in fields if (found := too_long(field, texts[field.name]))), None)


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character."""
    return all(unicodedata.category(char) in INVISIBLE for char in text)


def lookalike_key(text: str) -> str:
    """Return a key that is equal for texts that differ only in case, spacing or Unicode form."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    visible = "".join(char for char in unicodedata.normalize("NFKC", folded) if unicodedata.category(char) != "Cf")
    return " ".join(visible.split())


def lookalikes(texts: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the index of each text that looks like an earlier one, and the index of that one."""
    seen: dict[str, int] = {}
    for index, text in enumerate(texts):
        first = seen.setdefault(lookalike_key(text), index)
        if first != index:
            yield index, first
