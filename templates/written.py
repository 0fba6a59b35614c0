"""What people wrote, measured the same way wherever it is judged or handed in."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from templates.spec import TaskField, TaskSpec

# Unicode's categories of characters that have no shape: controls, formats (zero-width ones too), spaces and line ends.
UNSEEN = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})


@dataclass(frozen=True)
class TooLong:
    """A text that its field does not take."""

    field: TaskField
    length: int

    def sentence(self, spec: TaskSpec) -> str:
        """What whoever wrote it reads, in the task's language."""
        slots = {"title": self.field.title, "length": str(self.length), "most": str(self.field.max_chars)}
        return spec.messages.too_long.format_map(slots)


def too_long(field: TaskField, text: str) -> TooLong | None:
    """How much longer the text is than its field takes; None where it is not."""
    return TooLong(field, len(text)) if len(text) > field.max_chars else None


def first_too_long(spec: TaskSpec, written: Mapping[str, str]) -> TooLong | None:
    """The first of the texts, by their fields' names, that is too long; what the task shows is never that."""
    fields = (field for field in spec.fields if field.role != "context" and field.name in written)
    return next((found for field in fields if (found := too_long(field, written[field.name]))), None)


def is_blank(text: str) -> bool:
    """Whether people would see nothing: spaces, marks without a shape, or no character at all."""
    return all(unicodedata.category(one) in UNSEEN for one in text)
