"""The features that the output layer of a frozen network sees, cached on disk so that each text is read once."""

import hashlib
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from transformers import PreTrainedModel

from ml_backend.encoding import TextEncoder, Tokens
from ml_backend.errors import ModelFileNotWritable, ModelMismatch
from ml_backend.targets.torch_runtime import batch_of
from ml_backend.training.start import ProgressMonitor, fingerprint_parts, output_layer

Features = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

FILE = "features.sqlite"
MAX_BYTES = 1024**3
LOCK_SECONDS = 30

_CORRUPT_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class _CorruptCache(ModelFileNotWritable):
    """The cache file is not a database, or is corrupt."""


class FeatureCache:
    """Arrays by key in one file that several trainings may share; the least recently used are dropped."""

    def __init__(self, directory: Path, width: int) -> None:
        self._path = directory / FILE
        self._width = width
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelFileNotWritable(
                f"cannot write a cache to {directory}: {error.strerror}; choose another folder"
            ) from error
        try:
            self._prepare()
        except _CorruptCache:
            # A corrupt cache is worthless: start a new one.
            for path in directory.glob(f"{FILE}*"):
                path.unlink(missing_ok=True)
            self._prepare()

    def missing(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return the keys that are not cached yet."""
        with self._open() as store:
            cached = {key for (key,) in store.execute("SELECT key FROM features WHERE width = ?", (self._width,))}
        return set(keys) - cached

    def put(self, found: Iterable[tuple[bytes, Features]]) -> None:
        """Store arrays by their keys."""
        now = time.time()
        rows = [(key, self._width, now, array.astype("<f4").tobytes()) for key, array in found]
        with self._open() as store:
            store.executemany("INSERT OR REPLACE INTO features (key, width, used, data) VALUES (?, ?, ?, ?)", rows)

    def get(self, keys: Sequence[bytes]) -> list[Features]:
        """Return the arrays of cached keys, in the order of the keys."""
        with self._open() as store:
            found = [store.execute("SELECT data FROM features WHERE key = ?", (key,)).fetchone() for key in keys]
        if any(row is None for row in found):
            raise ModelFileNotWritable(f"{self._path} lost rows while it was in use; train again")
        return [np.frombuffer(data, dtype="<f4").reshape(-1, self._width) for (data,) in found]

    def trim(self, used: Iterable[bytes], max_bytes: int = MAX_BYTES) -> None:
        """Mark the used keys, and drop the least recently used ones until the rest fits."""
        now = time.time()
        with self._open() as store:
            store.executemany("UPDATE features SET used = ? WHERE key = ?", [(now, key) for key in used])
            store.execute(
                "DELETE FROM features WHERE key IN (SELECT key FROM (SELECT key, SUM(LENGTH(data)) OVER "
                "(ORDER BY used DESC, key) AS total FROM features) WHERE total > ?)",
                (max_bytes,),
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
            with closing(sqlite3.connect(self._path, timeout=LOCK_SECONDS)) as store:
                store.execute("PRAGMA auto_vacuum = FULL")
                store.execute("PRAGMA journal_mode = WAL")
                # A cache lost in a crash is computed again, so it need not wait for the disk.
                store.execute("PRAGMA synchronous = OFF")
                with store:
                    yield store
        except sqlite3.Error as error:
            kind = _CorruptCache if getattr(error, "sqlite_errorcode", None) in _CORRUPT_CODES else ModelFileNotWritable
            raise kind(f"cannot use the cache {self._path} ({error}); delete it and train again") from error


ROWS_PER_PASS = 32
TOKENS_PER_PASS = 4_096

_NOT_ABOUT_FEATURES = frozenset({"id2label", "label2id", "problem_type", "transformers_version"})


class FrozenNetwork:
    """A network of which only the last layer is trained, with a cache of the features before it."""

    def __init__(self, network: PreTrainedModel, encoder: TextEncoder, cache: FeatureCache) -> None:
        self._network = network
        self._encoder = encoder
        self._cache = cache
        self._fingerprint = _fingerprint(network)

    def keys(self, texts: Sequence[Tokens]) -> list[bytes]:
        """Return the cache key of each text: a hash of this network, these tokens, and the threads that read them."""
        start = self._fingerprint + str(torch.get_num_threads()).encode("ascii")
        return [
            hashlib.sha256(start + repr((list(text.ids), list(text.type_ids))).encode("ascii")).digest()
            for text in texts
        ]

    def read(self, texts: Sequence[Tokens], monitor: ProgressMonitor) -> list[bytes]:
        """Make sure that the features of every text are cached; return their keys."""
        keys = self.keys(texts)
        missing = self._cache.missing(keys)
        missing_texts = {key: text for key, text in zip(keys, texts, strict=True) if key in missing}
        monitor.start(len(missing_texts), "Reading the training data with the base model")
        for batch in _equal_lengths(list(missing_texts.items())):
            self._cache.put(zip([key for key, _ in batch], self._features([text for _, text in batch]), strict=True))
            monitor.step(len(batch))
        monitor.finish()
        return keys

    def _features(self, batch: list[Tokens]) -> list[Features]:
        seen: list[torch.Tensor] = []

        def look(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            seen.append(inputs[0])

        hook = output_layer(self._network).register_forward_pre_hook(look)
        try:
            with torch.inference_mode():
                self._network(**batch_of(self._encoder, batch))
        finally:
            hook.remove()
        if len(seen) != 1 or len(seen[0]) != len(batch):
            raise ModelMismatch(f"{type(self._network).__name__} cannot be trained in head mode; use mode full")
        return [row.reshape(-1, row.shape[-1]).numpy() for row in seen[0]]


def _equal_lengths(pending: list[tuple[bytes, Tokens]]) -> Iterator[list[tuple[bytes, Tokens]]]:
    """Yield batches without padding, so that the features of a text do not depend on other texts."""
    groups: dict[int, list[tuple[bytes, Tokens]]] = defaultdict(list)
    for one in pending:
        groups[len(one[1])].append(one)
    for length, group in sorted(groups.items()):
        size = max(1, min(ROWS_PER_PASS, TOKENS_PER_PASS // length))
        yield from (group[first : first + size] for first in range(0, len(group), size))


def _fingerprint(network: PreTrainedModel) -> bytes:
    config = {key: value for key, value in network.config.to_dict().items() if key not in _NOT_ABOUT_FEATURES}
    digest = hashlib.sha256(f"{type(network).__name__} {json.dumps(config, sort_keys=True, default=str)}".encode())
    for part in fingerprint_parts(network):
        digest.update(part.contiguous().numpy().tobytes())
    return digest.digest()
