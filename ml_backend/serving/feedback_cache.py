"""The feedback cache: what was last asked about a Label Studio task, in this process or shared between processes."""

import hashlib
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Entry = dict[str, Any]
# The backend's task, Label Studio's project, Label Studio's task.
Key = tuple[str, int, int]

MAX_ENTRIES = 4_096
KEEP_SECONDS = 3_600.0
# How long one part of an answer waits for the other; later, another annotator may have opened the task.
JOIN_SECONDS = 600.0
# How long attempts are counted; an example takes minutes, and packs allow up to half an hour.
COUNT_SECONDS = 3_600.0
# Longer texts are not kept, so that memory use stays small.
MAX_CHARS = 4_000


class Cache(Protocol):
    """Keeps an entry under a key until it is old or there are too many."""

    def read(self, key: Key) -> Entry | None:
        """Return the entry, if it is still there."""

    def write(self, key: Key, entry: Entry) -> None:
        """Keep the entry, without a promise for how long."""


class MemoryCache:
    """A cache in the memory of this process."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, key: Key) -> Entry | None:
        return self._entries.get(key)

    def write(self, key: Key, entry: Entry) -> None:
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            if len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)


class SharedCache:
    """A cache in a folder, one file per entry, for several processes; losing an entry is harmless."""

    def __init__(self, folder: Path, max_entries: int = MAX_ENTRIES) -> None:
        self._folder = folder
        self._max_entries = max_entries
        self._written = 0

    def read(self, key: Key) -> Entry | None:
        try:
            entry = json.loads(self._path(key).read_bytes())
        except (OSError, ValueError):
            return None
        return entry if isinstance(entry, dict) else None

    def write(self, key: Key, entry: Entry) -> None:
        path = self._path(key)
        draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            draft.write_bytes(json.dumps(entry).encode("ascii"))
            draft.replace(path)
            self._written += 1
            if self._written % 256 == 1:
                self._remove_old()
        except OSError:
            draft.unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._folder / hashlib.sha256(repr(key).encode()).hexdigest()[:32]

    def _remove_old(self) -> None:
        """Remove expired entries, then the oldest ones beyond the limit."""
        with os.scandir(self._folder) as entries:
            files = sorted((entry.stat().st_mtime, entry.path) for entry in entries)
        oldest = time.time() - KEEP_SECONDS
        excess = len(files) - self._max_entries
        for place, (written, path) in enumerate(files):
            if written < oldest or place < excess:
                Path(path).unlink(missing_ok=True)


@dataclass
class TaskFeedback:
    """The texts and the answer last sent for one task, when they were sent, and the number of different attempts."""

    inputs: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    heard: float = 0.0
    asked: str = ""
    asked_at: float = 0.0
    tries: int = 0


class FeedbackCache:
    """Joins partial calls about a task and counts its attempts, for the feedback text only.

    Label Studio sends a question without the selected answer, and the answer without the question. It does not name
    the annotator and does not report deletions, so a joined call can be stale or mix two annotators. The result decides
    which sentence is shown and nothing else: an example is judged again when it is submitted, from what was submitted.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def join(
        self, key: Key, inputs: Mapping[str, str], target: str | None, now: float
    ) -> tuple[dict[str, str], str | None]:
        """Return the inputs and the target of this call, completed from a recent earlier one."""
        known = self._read(key)
        if now - known.heard > JOIN_SECONDS:
            known.inputs, known.target = {}, None
        joined = {**known.inputs, **inputs}
        answer = known.target if target is None else target
        short = sum(map(len, joined.values())) + len(answer or "") <= MAX_CHARS
        known.inputs, known.target, known.heard = (joined, answer, now) if short else ({}, None, now)
        self._cache.write(key, dict(vars(known)))
        return joined, answer

    def count(self, key: Key, inputs_hash: str, now: float) -> int:
        """Return the number of this attempt; repeating the same inputs does not count again."""
        known = self._read(key)
        if now - known.asked_at > COUNT_SECONDS:
            known.tries = 0
        known.tries += known.asked != inputs_hash or not known.tries
        known.asked, known.asked_at = inputs_hash, now
        self._cache.write(key, dict(vars(known)))
        return known.tries

    def _read(self, key: Key) -> TaskFeedback:
        entry = self._cache.read(key)
        return TaskFeedback(**entry) if entry else TaskFeedback()
