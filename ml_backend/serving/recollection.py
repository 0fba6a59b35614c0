"""What was last asked about a Label Studio task, so that halves that come in separate calls can be told together."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ml_backend.serving.notes import Key, Notes

# How long a half waits for its other half; later somebody else may have the task open.
JOINED_FOR = 600.0
# How long tries are counted; an example takes minutes, and packs allow up to half an hour.
COUNTED_FOR = 3_600.0
# Longer texts are not kept, so that the memory stays small whatever is sent.
MOST_CHARS = 4_000


@dataclass
class Recalled:
    """One task's texts and answer as last heard, when that was, and the number of different questions so far."""

    inputs: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    heard: float = 0.0
    asked: str = ""
    asked_at: float = 0.0
    tries: int = 0


class Recollection:
    """A short memory for feedback only, never for truth.

    Label Studio sends a question without the selected answer, and the answer without the question; it names no
    annotator, and tells nobody when something is deleted. What is joined here can therefore be stale or of two
    people. It decides which sentence is shown, and nothing else: an example is judged again when it is submitted, from
    what was submitted. It is bounded, forgets by itself and may be lost at any time.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def join(
        self, key: Key, inputs: Mapping[str, str], target: str | None, now: float
    ) -> tuple[dict[str, str], str | None]:
        """What this call says, completed with what an earlier one said a short while ago."""
        recalled = self._recall(key)
        if now - recalled.heard > JOINED_FOR:
            recalled.inputs, recalled.target = {}, None
        joined = {**recalled.inputs, **inputs}
        known = recalled.target if target is None else target
        short = sum(map(len, joined.values())) + len(known or "") <= MOST_CHARS
        recalled.inputs, recalled.target, recalled.heard = (joined, known, now) if short else ({}, None, now)
        self._notes.write(key, dict(vars(recalled)))
        return joined, known

    def count(self, key: Key, inputs_hash: str, now: float) -> int:
        """The how manieth different question in a row this is; the same one again is no new try."""
        recalled = self._recall(key)
        if now - recalled.asked_at > COUNTED_FOR:
            recalled.tries = 0
        recalled.tries += recalled.asked != inputs_hash or not recalled.tries
        recalled.asked, recalled.asked_at = inputs_hash, now
        self._notes.write(key, dict(vars(recalled)))
        return recalled.tries

    def _recall(self, key: Key) -> Recalled:
        noted = self._notes.read(key)
        return Recalled(**noted) if noted else Recalled()
