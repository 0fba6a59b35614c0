"""Errors of task packs.

TemplateError                  template_error
├── PackError                  pack_invalid          a pack has one or more Problems
│   └── PackRefused            pack_refused          a pack to import has something that no pack may have
├── PackNotFound               pack_not_found        no pack has that name or is in that folder
└── PackNotCreated             pack_not_created      a pack cannot be copied to that folder
    ├── InvalidPackName        invalid_pack_name
    └── PackExists             pack_exists
"""

from collections.abc import Iterable
from dataclasses import dataclass

from common.errors import CodedError


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a pack: its file and line, a stable code for its kind, what is wrong, and how to fix it."""

    file: str
    line: int | None
    code: str
    text: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.text}"


class TemplateError(CodedError):
    """A task pack cannot be found, used or copied."""


class PackError(TemplateError):
    """A pack is invalid; `problems` lists every mistake that was found."""

    code = "pack_invalid"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PackRefused(PackError):
    """A pack to import has something that no pack may have: a link, a program, a huge file, a wrong hash."""

    code = "pack_refused"


class PackNotFound(TemplateError):
    """No pack has that name or is in that folder."""


class PackNotCreated(TemplateError):
    """A pack cannot be copied to that folder."""


class InvalidPackName(PackNotCreated):
    """The folder's name cannot be the name of a task."""


class PackExists(PackNotCreated):
    """The folder of the new pack already exists."""
