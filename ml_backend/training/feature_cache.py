"""What a frozen encoder said, kept on disk, so that the same text is read once."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ml_backend.errors import ModelError

Features = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

FILE = "features.sqlite"
MOST_BYTES = 1024**3
SECONDS_TO_WAIT = 30

_BROKEN_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class _Broken(ModelError):
    """The file is no database, or not a whole one."""


class FeatureCache:
    """Arrays by key in one file, which several trainings may use at once; the oldest go when it grows too large."""

    def __init__(self, directory: Path, width: int) -> None:
        self._path = directory / FILE
        self._width = width
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelError(f"cannot keep a cache in {directory}: {error.strerror}; choose another folder") from error
        try:
            self._prepare()
        except _Broken:
            # A cache that cannot be read is worth nothing: start it again.
            for path in directory.glob(f"{FILE}*"):
                path.unlink(missing_ok=True)
            self._prepare()

    def missing(self, keys: Iterable[bytes]) -> set[bytes]:
        """Which of the keys are not there yet."""
        with self._open() as store:
            there = {key for (key,) in store.execute("SELECT key FROM features WHERE width = ?", (self._width,))}
        return set(keys) - there

    def put(self, found: Iterable[tuple[bytes, Features]]) -> None:
        """Keep arrays of so many columns as this cache is for."""
        now = time.time()
        rows = [(key, self._width, now, array.astype("<f4").tobytes()) for key, array in found]
        with self._open() as store:
            store.executemany("INSERT OR REPLACE INTO features (key, width, used, data) VALUES (?, ?, ?, ?)", rows)

    def get(self, keys: Sequence[bytes]) -> list[Features]:
        """The arrays of keys that are all there, in the order of the keys."""
        with self._open() as store:
            found = [store.execute("SELECT data FROM features WHERE key = ?", (key,)).fetchone() for key in keys]
        if any(row is None for row in found):
            raise ModelError(f"{self._path} lost rows while it was used; train again")
        return [np.frombuffer(data, dtype="<f4").reshape(-1, self._width) for (data,) in found]

    def trim(self, used: Iterable[bytes], most_bytes: int = MOST_BYTES) -> None:
        """Note what was used now, and drop what was not used for longest until the rest is small enough."""
        now = time.time()
        with self._open() as store:
            store.executemany("UPDATE features SET used = ? WHERE key = ?", [(now, key) for key in used])
            store.execute(
                "DELETE FROM features WHERE key IN (SELECT key FROM (SELECT key, SUM(LENGTH(data)) OVER "
                "(ORDER BY used DESC, key) AS total FROM features) WHERE total > ?)",
                (most_bytes,),
            )

    def _prepare(self) -> None:
        with self._open() as store:
            store.execute(
                "CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, width INTEGER NOT NULL, "
                "used REAL NOT NULL, data BLOB NOT NULL)"
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=SECONDS_TO_WAIT)) as store:
                store.execute("PRAGMA auto_vacuum = FULL")
                store.execute("PRAGMA journal_mode = WAL")
                # A cache that a crash took is computed again; it need not wait for the disk.
                store.execute("PRAGMA synchronous = OFF")
                with store:
                    yield store
        except sqlite3.Error as error:
            kind = _Broken if getattr(error, "sqlite_errorcode", None) in _BROKEN_CODES else ModelError
            raise kind(f"cannot use the cache {self._path} ({error}); delete it and train again") from error
