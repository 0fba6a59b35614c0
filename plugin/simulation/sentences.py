"""The sentences of the simulated crowd: patterns with a known meaning, written for Outfox, and how they are filled.

The patterns and words are in sentences.toml. A pattern is filled with a thing from the prompt and with listed words.
People understand each one as its label says; the hard ones mislead a reader who goes by single words. The same seed,
worker and attempt always give the same sentence. The record keeps what each sentence means, and how long a person
would have worked.
"""

import json
import re
import threading
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from templates import Pack

MAX_QUOTED_LENGTH = 160
TYPO_SHARE = 0.15
MIN_TYPO_LENGTH = 5
PLAIN = "plain"


@dataclass(frozen=True)
class Pattern:
    """A sentence with gaps, its rhetorical device, and its meaning."""

    label: str
    device: str
    text: str


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PATTERNS = [
    Pattern(label, device, text)
    for label, devices in _TEXTS["patterns"].items()
    for device, texts in devices.items()
    for text in texts
]
THINGS: Mapping[str, str] = _TEXTS["things"]
ANY_THING = "place"


@dataclass(frozen=True)
class Draft:
    """A sentence, its meaning, and the device that it tries to mislead a model with."""

    text: str
    reading: str
    device: str


def write(prompt: str, target: str, rng: Random, *, skill: float, honest: bool = True) -> Draft:
    """Return a sentence about the prompt's subject with the wanted meaning.

    The higher the skill, the more often it is a hard one. A dishonest worker writes a plain sentence with another
    meaning: the model is right about it, and so differs from the requested label.
    """
    if not honest:
        others = sorted({one.label for one in PATTERNS} - {target})
        return _filled(prompt, rng.choice(others), rng, hard=False)
    return _filled(prompt, target, rng, hard=rng.random() < skill)


def _filled(prompt: str, label: str, rng: Random, *, hard: bool) -> Draft:
    fitting = [one for one in PATTERNS if one.label == label and (one.device != PLAIN) is hard]
    if len(prompt) > MAX_QUOTED_LENGTH:
        fitting = [one for one in fitting if "{prompt}" not in one.text]
    device = rng.choice(sorted({one.device for one in fitting}))
    pattern = rng.choice([one for one in fitting if one.device == device])
    words = _TEXTS["words"]
    good, good2 = rng.sample(words["good"], 2)
    bad, bad2 = rng.sample(words["bad"], 2)
    who = rng.choice(words["people"])
    gaps = {"good": good, "good2": good2, "bad": bad, "bad2": bad2, "who": who, "Who": who[0].upper() + who[1:]}
    thing, quoted = thing_of(prompt), prompt.rstrip(".").replace("“", "'").replace("”", "'")
    text = _articles(pattern.text.format(**gaps, thing=thing, time=rng.choice(words["times"]), prompt=quoted))
    if not hard and rng.random() < TYPO_SHARE:
        return Draft(_misspelt(text, rng), pattern.label, "typo")
    return Draft(text, pattern.label, pattern.device)


def thing_of(prompt: str) -> str:
    """Return the subject of the prompt, as one noun."""
    words = re.findall(r"[a-z]+", prompt.lower())
    named = (THINGS.get(word) or THINGS.get(word.removesuffix("s")) for word in words)
    return next((thing for thing in named if thing), ANY_THING)


def _articles(text: str) -> str:
    """Write `an` before vowels; the patterns have `a` before every gap."""
    return re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", text)


def _misspelt(text: str, rng: Random) -> str:
    """Swap two letters of one long word, like a typing error."""
    words = text.split(" ")
    long = [place for place, word in enumerate(words) if word.isalpha() and len(word) >= MIN_TYPO_LENGTH]
    if not long:
        return text
    place = rng.choice(long)
    word = words[place]
    at = rng.randrange(1, len(word) - 2)
    words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)


class SimulationRecord:
    """Tells simulated validators what a sentence means; Outfox itself never reads it.

    `meaning` returns what a person meant with a sentence of theirs, or an empty text if that is unknown too.
    """

    def __init__(self, file: Path, pack: Pack, meaning: Callable[[str], str] = lambda _text: "") -> None:
        self._file = file
        self._meaning = meaning
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = {}
        (self._input,) = pack.spec.with_role("input")
        # Sentences that are not in the record are compared with the seed's.
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
        known = self._readings.get(text) or self._meaning(text)
        if known:
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
