"""The notebook: what simulated people wrote and meant, and how long real ones would have worked; kept over restarts."""

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from templates import Pack


class Notebook:
    """Read by simulated validators in place of understanding a sentence; the task's own software never sees it."""

    def __init__(self, file: Path, pack: Pack) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        (self._input,) = pack.spec.with_role("input")
        # Gold comes from the seed.
        self._readings = {row.fields[self._input.name]: row.label or "" for row in pack.seed}
        if file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                self._learn(_parsed(line))

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds that a person would have needed, by the marketplace's assignment."""
        return self._seconds

    def note_text(self, text: str, reading: str) -> None:
        """What people read in a sentence."""
        self._note({"text": text, "reading": reading})

    def note_work(self, assignment: str, seconds: float) -> None:
        """How long a person would have worked on an assignment."""
        self._note({"assignment": assignment, "seconds": round(seconds, 1)})

    def reading(self, text: str) -> str:
        """What people read in a sentence; one that nobody here wrote reads as the most similar one that is known."""
        known = self._readings.get(text)
        if known is not None:
            return known
        words = _words(text)
        with self._lock:
            # Others write while this one reads.
            readings = dict(self._readings)
        likest = max(readings, key=lambda one: (_likeness(words, _words(one)), one))
        return readings[likest]

    def _note(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._learn(line)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _learn(self, line: Mapping[str, Any]) -> None:
        if "text" in line:
            self._readings[line["text"]] = line["reading"]
        elif "assignment" in line:
            self._seconds[line["assignment"]] = line["seconds"]


def _parsed(line: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}  # The last line of a process that was killed.
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))
