"""Checks of what callers pass, before anything is read, and values as error messages quote them."""

import os
import re
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from outfox.errors import InvalidArgument

MAX_QUOTED_CHARACTERS = 300

Rounds = int | Iterable[int] | None
Columns = str | Iterable[str] | None


def checked_task(task: Any) -> str:
    """Return a task's name. Control characters are refused: error messages quote the name on one line."""
    if not isinstance(task, str) or not task.strip() or not task.isprintable():
        raise InvalidArgument(f"`task` must be a task's name, such as 'sentiment', not {quoted(task)}")
    return task


def checked_rounds(rounds: Any) -> list[int] | None:
    """Return round numbers without repetitions; NumPy's integers and 2.0, which pandas makes of 2, are accepted."""
    if rounds is None:
        return None
    expected = "a number, such as 2, or several, such as [1, 2]"
    given = _as_list("rounds", rounds, Real, expected)
    for number in given:
        if isinstance(number, bool) or number != number // 1:
            raise InvalidArgument(f"`rounds` must be {expected}, not {quoted(number)}")
    return list(dict.fromkeys(int(number) for number in given))


def checked_columns(columns: Any) -> list[str] | None:
    """Return the names of columns without repetitions."""
    if columns is None:
        return None
    expected = "a name, such as 'text', or several, such as ['text', 'split']"
    return list(dict.fromkeys(_as_list("columns", columns, str, expected)))


def checked_verify(verify: Any) -> bool:
    """Return whether to compare hashes."""
    return checked_flag("verify", verify)


def checked_flag(name: str, value: Any) -> bool:
    """Return a value that is true or false."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(f"`{name}` must be True or False, not {quoted(value)}")
    return bool(value)


def checked_chunk(chunk: Any) -> int:
    """Return a number of rows."""
    if isinstance(chunk, bool) or not isinstance(chunk, Integral) or int(chunk) < 1:
        raise InvalidArgument(f"`chunk` must be a whole number of 1 or more, not {quoted(chunk)}")
    return int(chunk)


def checked_folder(name: str, path: Any, example: str) -> Path:
    """Return a folder's path, with `~` expanded."""
    try:
        folder = Path(path).expanduser()
        if b"\0" in os.fsencode(folder):
            raise ValueError("a path cannot contain a null character")
    except RuntimeError as error:
        raise InvalidArgument(f"`{name}` names an unknown home directory: {path}; write the full path") from error
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"`{name}` must be a folder, such as '{example}', not {quoted(path)}") from error
    return folder


def checked_url(url: Any) -> str:
    """Return a server's address without a trailing slash. The error does not quote it: it may contain a token."""
    valid = isinstance(url, str) and url.isprintable() and not set(" ?#") & set(url)
    try:
        parts = urlsplit(url if valid else "")
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        valid = False
    if not valid:
        expected = "the address of an Outfox server, such as 'https://outfox.example.org'"
        raise InvalidArgument(f"`url` must be {expected}; pass a token as `token`")
    return str(url).rstrip("/")


def checked_token(token: Any) -> str:
    """Return a token without surrounding whitespace, such as the newline of the file that it was read from."""
    found = "" if token is None else token
    found = found.strip() if isinstance(found, str) else None
    if found is None or not found.isascii() or not found.isprintable() or " " in found:
        raise InvalidArgument("`token` has characters that are not part of any token; copy it again")
    return str(found)


def quoted(value: Any) -> str:
    """Return a value as an error message shows it."""
    return one_line(repr(value), 60)


def one_line(text: str, limit: int = MAX_QUOTED_CHARACTERS) -> str:
    """Return text from elsewhere on one line, short, and without control characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 10 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def reason(error: OSError) -> str:
    """Return the operating system's reason as the end of a clause, or nothing if it gives none."""
    return f": {error.strerror}" if error.strerror else ""


def missing(error: KeyError, what: str) -> str:
    """Say which key is missing. If several are missing, pandas' message is a sentence, which is not quoted."""
    name = str(error.args[0]) if error.args else ""
    return f"has no {what} {quoted(name)}" if re.fullmatch(r"[\w.]+", name) else f"is missing {what}s"


def _as_list(name: str, given: Any, kind: type, expected: str) -> list[Any]:
    single = isinstance(given, str | bytes | Real) or not hasattr(given, "__iter__")
    try:
        values = [given] if single else list(given)
    except TypeError:  # A NumPy array without dimensions has __iter__ but cannot be iterated.
        values = [given]
    if not values:
        raise InvalidArgument(f"`{name}` is empty; omit it to get all")
    for value in values:
        if not isinstance(value, kind):
            raise InvalidArgument(f"`{name}` must be {expected}, not {quoted(value)}")
    return values
