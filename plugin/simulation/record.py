"""The simulation's record: what each sentence means, and how long a person would have worked; kept over restarts."""

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from templates import Pack


class SimulationRecord:
    """Tells simulated validators what a sentence means; Outfox itself never reads it."""

    def __init__(self, file: Path, pack: Pack) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        (self._input,) = pack.spec.with_role("input")
        # Gold questions come from the seed.
        self._readings = {row.fields[self._input.name]: row.label or "" for row in pack.seed}
        if file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                self._learn(_parsed(line))

    @property
    def seconds(self) -> Mapping[str, float]:
        """The seconds that a person would have needed, by assignment id."""
        return self._seconds

    def note_text(self, text: str, reading: str) -> None:
        """Record what people understand by a sentence."""
        self._note({"text": text, "reading": reading})

    def note_work(self, assignment: str, seconds: float) -> None:
        """Record how long a person would have worked on an assignment."""
        self._note({"assignment": assignment, "seconds": round(seconds, 1)})

    def reading(self, text: str) -> str:
        """Return what people understand by a sentence; for an unknown one, by the most similar known sentence."""
        known = self._readings.get(text)
        if known is not None:
            return known
        words = _words(text)
        with self._lock:
            # Other threads write meanwhile.
            readings = dict(self._readings)
        closest = max(readings, key=lambda one: (_similarity(words, _words(one)), one))
        return readings[closest]

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
        return {}  # The incomplete last line of a killed process.
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def _similarity(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))
