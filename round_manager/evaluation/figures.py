"""The figures of leaderboards, read from stored evaluations in a folder or a bucket, and kept for a moment."""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from common.errors import Hint, one_line
from outfox.errors import DataCorrupt
from outfox.figures import BoardFigures, collect_figures
from round_manager.archive.storage import S3
from round_manager.errors import ArchiveCorrupt, EvaluationsMissing, LeaderboardTooLarge, LeaderboardUnreadable
from round_manager.evaluation.storage import EvaluationStore, open_evaluations

MOST_FILES = 20_000
MOST_FIGURES = 200_000
MOST_TASKS = 32
READERS = 8
SECONDS_KEPT = 10.0


@dataclass(frozen=True)
class StoredFigures:
    """The figures of a task, and a hash that changes with the files they come from."""

    figures: BoardFigures
    version: str


def read_figures(place: str, task: str, known: StoredFigures | None = None) -> StoredFigures:
    """Return the figures that are stored next to a task's archives, or `known` if the files are the same.

    Raises:
        EvaluationsMissing: There are no evaluations.
        LeaderboardTooLarge: There are more than a leaderboard can show.
        LeaderboardUnreadable: A file is corrupt.
    """
    store = open_evaluations(place, task)
    stamps = store.stamps()
    if not stamps:
        text = f"no model of {task} was evaluated yet"
        raise EvaluationsMissing(text, hint=Hint("evaluate_models", task=task))
    if len(stamps) > MOST_FILES:
        raise LeaderboardTooLarge(f"{task} has {len(stamps):,} stored results; a leaderboard can show {MOST_FILES:,}")
    version = hashlib.sha256(repr(stamps).encode()).hexdigest()
    if known is not None and known.version == version:
        return known
    try:
        figures = collect_figures(task, _contents(store, list(stamps), place))
    except (ArchiveCorrupt, DataCorrupt) as error:
        raise LeaderboardUnreadable(one_line(error), hint=Hint("evaluate_models", task=task)) from error
    if len(figures.figures) > MOST_FIGURES:
        text = f"{task} has {len(figures.figures):,} figures; a leaderboard can show {MOST_FIGURES:,}"
        raise LeaderboardTooLarge(text)
    return StoredFigures(figures, version)


def _contents(store: EvaluationStore, keys: list[str], place: str) -> dict[str, dict[str, object]]:
    if place.startswith(S3):
        with ThreadPoolExecutor(READERS) as pool:
            found = list(pool.map(store.json_file, keys))
    else:
        found = [store.json_file(key) for key in keys]
    return {key: content for key, content in zip(keys, found, strict=True) if content is not None}


def read_card(place: str, task: str, model: str) -> str:
    """Return the model card that was stored with a model's evaluations, empty if there is none."""
    return open_evaluations(place, task).card(model)


class FigureCache:
    """Keeps the figures of some tasks; their files are looked at again after a few seconds.

    One thread reads the files of a task; meanwhile the others get the figures from before, if there are any.
    """

    def __init__(self, place: str, *, seconds: float = SECONDS_KEPT, now: Callable[[], float] = time.monotonic) -> None:
        self._place = place
        self._seconds = seconds
        self._now = now
        self._kept: OrderedDict[str, tuple[float, StoredFigures]] = OrderedDict()
        self._readers: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, task: str) -> StoredFigures:
        """Return the figures of a task; raise what `read_figures` raises."""
        with self._lock:
            kept = self._kept.get(task)
            reader = self._readers.setdefault(task, threading.Lock())
        if kept and self._now() - kept[0] < self._seconds:
            return kept[1]
        if not reader.acquire(blocking=kept is None) and kept:
            return kept[1]
        try:
            with self._lock:
                kept = self._kept.get(task)
            if kept and self._now() - kept[0] < self._seconds:
                return kept[1]  # Another thread has just read them.
            found = read_figures(self._place, task, kept[1] if kept else None)
            with self._lock:
                self._kept[task] = (self._now(), found)
                self._kept.move_to_end(task)
                while len(self._kept) > MOST_TASKS:
                    self._readers.pop(self._kept.popitem(last=False)[0], None)
            return found
        finally:
            reader.release()
