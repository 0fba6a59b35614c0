"""What a leaderboard shows to one client: a board with its weights, and the ranking that follows from them."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from common.clock import Clock
from outfox.dynascore import DATA_WEIGHT
from outfox.figures import BoardFigures
from outfox.ranking import Ranking, rank_board, scored_axes
from plugin.web.data_files import BUSY, DataBusy
from round_manager.database.store import LazyStore
from round_manager.errors import EvaluationsMissing, SnapshotNotFound
from round_manager.evaluation.figures import FigureCache, read_card
from round_manager.services.board_snapshots import Snapshot, SnapshotView, list_snapshots, read_snapshot
from round_manager.services.context import ServiceContext
from round_manager.services.leaderboards import MOST_WEIGHT, BoardList, BoardView, find_board, list_boards

AXIS_PREFIX, DATA_PREFIX = "w.", "d."
# Of three threads of a process, so that workers' pages are served; a wait is better than an error.
MOST_AT_ONCE = 2
SECONDS_TO_WAIT = 2.0
MOST_RANKINGS = 32
MOST_SNAPSHOTS = 4
Value = TypeVar("Value")


@dataclass(frozen=True)
class ShownBoard:
    """A board as one client sees it. `version` changes with everything that is shown."""

    figures: BoardFigures
    boards: BoardList
    snapshots: tuple[SnapshotView, ...]
    board: BoardView
    is_custom: bool
    snapshot: Snapshot | None
    version: str


class Boards:
    """Reads the leaderboards of all tasks; rankings are kept, and a few are computed at a time."""

    def __init__(self, lazy_store: LazyStore, place: str, clock: Clock) -> None:
        self._lazy_store = lazy_store
        self._clock = clock
        self._place = place
        self._figures = FigureCache(place)
        self._rankings = _Kept[Ranking](MOST_RANKINGS)
        self._snapshots = _Kept[Snapshot](MOST_SNAPSHOTS)
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)

    def context(self) -> ServiceContext:
        """Return what use cases need."""
        return ServiceContext(self._lazy_store.open(), self._clock)

    def show(self, task: str, asked: Mapping[str, str]) -> ShownBoard:
        """Return what the parameters of an address ask for: `board`, `snapshot`, and weights."""
        context = self.context()
        boards, snapshots = list_boards(context, task), list_snapshots(context, task)
        if asked.get("snapshot"):
            kept = self._snapshot(context, task, asked["snapshot"], snapshots)
            return ShownBoard(
                kept.ranking.figures,
                boards,
                snapshots,
                kept.board,
                False,
                kept,
                _hash(kept.sha256, boards, snapshots, None),
            )
        try:
            stored = self._figures.get(task)
            figures, version = stored.figures, stored.version
        except EvaluationsMissing:
            figures, version = BoardFigures(task, (), (), {}, ()), ""
        figures = figures.without(boards.excluded)
        board = find_board(boards, figures, asked.get("board", ""))
        custom = _custom_weights(board, figures, asked)
        return ShownBoard(
            figures, boards, snapshots, custom or board, custom is not None, None,
            _hash(version, boards, snapshots, custom or board),
        )  # fmt: skip

    def card(self, task: str, model: str) -> str:
        """Return the card of a model of the leaderboard, empty if there is none."""
        return read_card(self._place, task, model)

    def ranking(self, shown: ShownBoard) -> Ranking:
        """Return the ranking by the weights of a board; that of a snapshot is the frozen one."""
        if shown.snapshot:
            return shown.snapshot.ranking

        def compute() -> Ranking:
            with self.slot():
                return rank_board(shown.figures, shown.board.weights, shown.board.data_weights)

        return self._rankings.get(shown.version, compute)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Take one of the slots for work that takes long; raise DataBusy if none is free in time."""
        if not self._slots.acquire(timeout=SECONDS_TO_WAIT):
            raise DataBusy(BUSY)
        try:
            yield
        finally:
            self._slots.release()

    def _snapshot(self, context: ServiceContext, task: str, key: str, snapshots: tuple[SnapshotView, ...]) -> Snapshot:
        found = next((one for one in snapshots if len(key) >= len(one.key) and one.sha256.startswith(key)), None)
        if found is None:
            raise SnapshotNotFound(f"{task} has no such snapshot")
        with self.slot():
            return self._snapshots.get(
                f"{task} {found.sha256}", lambda: read_snapshot(context, task, found.sha256)
            )  # fmt: skip


class _Kept(Generic[Value]):
    """The values that were used last, by a key that changes with their content."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()
        with self._lock:
            self._values[key] = made
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return made


def _custom_weights(board: BoardView, figures: BoardFigures, asked: Mapping[str, str]) -> BoardView | None:
    """Return the board with the weights that an address names, None if it names none; invalid ones are ignored."""
    axes = {axis: _weight(asked.get(f"{AXIS_PREFIX}{axis}")) for axis in scored_axes(figures)}
    data = {one.name: _weight(asked.get(f"{DATA_PREFIX}{one.name}")) for one in figures.data}
    if not any(value is not None for value in (*axes.values(), *data.values())):
        return None
    weights = {axis: board.weights.get(axis, 0.0) if value is None else value for axis, value in axes.items()}
    by_data = {
        name: board.data_weights.get(name, DATA_WEIGHT) if value is None else value for name, value in data.items()
    }
    return replace(board, weights=weights, data_weights=by_data)


def _weight(written: str | None) -> float | None:
    try:
        value = round(float(written or ""), 2)
    except ValueError:
        return None
    return value if 0 <= value <= MOST_WEIGHT else None


def _hash(version: str, boards: BoardList, snapshots: tuple[SnapshotView, ...], board: BoardView | None) -> str:
    parts = (version, boards.boards, sorted(boards.excluded), snapshots, board)
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()
