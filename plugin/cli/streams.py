"""Where a command prints: streams that are closed, full or know few characters end no command in a traceback."""

import os
import sys
from io import TextIOWrapper
from pathlib import Path

UTF_8 = ("utf-8", "utf8")


def knows_all_characters() -> bool:
    """Whether standard output takes whatever people wrote as it is."""
    return (getattr(sys.stdout, "encoding", None) or "").lower() in UTF_8


def take_every_text() -> None:
    """From here on both streams take every text, one that was closed too; unknown characters are told as numbers."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - to the process's end
        elif isinstance(stream, TextIOWrapper) and (stream.encoding or "").lower() not in UTF_8:
            stream.reconfigure(errors="backslashreplace")


def give_up_output() -> None:
    """Nothing more goes to standard output: Python would try once more at its end, and fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
