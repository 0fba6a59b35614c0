"""What can be wrong with a task pack.

TemplateError
└── PackError      a pack has one or more Problems
"""

from collections.abc import Iterable
from dataclasses import dataclass

from common.errors import CodedError


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a pack: where it stands, what it is and what cures it."""

    file: str
    line: int | None
    text: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.text}"


class TemplateError(CodedError):
    """A mistake in a template folder; trying again does not help, mending the folder does."""

    code = "template_error"
    retry = False


class PackError(TemplateError):
    """A pack that cannot be used, with every problem that was found."""

    code = "pack_invalid"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
