"""The base of every error that Outfox raises on purpose.

An error carries a stable `code` for programs, a message for people, `retry` (whether the same call can succeed later),
and an optional `hint`: an action that resolves the problem, as data. The command line renders a hint as the command to
type, a page as a button or a link.
"""

import re
from typing import ClassVar

_NEXT_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Hint:
    """An action that resolves a problem, with its parameters, for example `Hint("open_round", task="nli")`."""

    __slots__ = ("action", "params")

    def __init__(self, action: str, **params: str | int) -> None:
        self.action = action
        self.params = params

    def as_data(self) -> dict[str, object]:
        """Return the hint as JSON-compatible data."""
        return {"action": self.action, "params": dict(self.params)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hint) and self.as_data() == other.as_data()

    def __hash__(self) -> int:
        return hash((self.action, tuple(sorted(self.params.items(), key=str))))

    def __repr__(self) -> str:
        params = "".join(f", {name}={value!r}" for name, value in self.params.items())
        return f"Hint({self.action!r}{params})"


class CodedError(Exception):
    """An expected failure.

    The `code` of a subclass is its name in snake case, `round_not_open` for `RoundNotOpen`, unless it declares another.
    A private subclass keeps the code of its base. A snapshot test guards all codes against a careless rename.
    """

    code: ClassVar[str] = "error"
    retry: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" not in cls.__dict__ and not cls.__name__.startswith("_"):
            cls.code = snake_case(cls.__name__)

    def __init__(self, message: str = "", *, hint: Hint | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def message(self) -> str:
        """The message as it was given: one for workers is a `Message`, which pages show in their language."""
        text: str = self.args[0]
        return text

    @property
    def summary(self) -> str:
        """What kind of error it is: unlike the message, it names no path, host or address, so anyone may read it."""
        return (type(self).__doc__ or self.code).strip().partition("\n")[0]

    def as_data(self) -> dict[str, object]:
        """Return the error as JSON-compatible data, without its message."""
        return {"code": self.code, "retry": self.retry, "hint": self.hint.as_data() if self.hint else None}


def snake_case(name: str) -> str:
    """Return the name of a class in snake case."""
    return _NEXT_WORD.sub("_", name).lower()


def one_line(error: BaseException) -> str:
    """Return another library's error message on one line, short enough to quote in one of ours."""
    return " ".join(str(error).split())[:200] or type(error).__name__
