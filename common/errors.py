"""The base of every error that Outfox raises on purpose.

An error carries a stable `code` for programs, a message for people, `retry` (whether the same call can succeed later),
and an optional `hint`: an action that resolves the problem, as data. The command line renders a hint as the command to
type, a page as a button or a link.
"""

from typing import ClassVar


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
    """An expected failure. Every public subclass declares its own `code`; a private one keeps its base's."""

    code: ClassVar[str] = "error"
    retry: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" not in cls.__dict__ and not cls.__name__.startswith("_"):
            raise TypeError(f"{cls.__name__} must declare its own error code")

    def __init__(self, message: str = "", *, hint: Hint | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def as_data(self) -> dict[str, object]:
        """Return the error as JSON-compatible data, without its message."""
        return {"code": self.code, "retry": self.retry, "hint": self.hint.as_data() if self.hint else None}


def one_line(error: BaseException) -> str:
    """Return another library's error message on one line, short enough to quote in one of ours."""
    return " ".join(str(error).split())[:200] or type(error).__name__
