"""The files of frozen rounds, for clients that may read them; a few at a time."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from common.clock import Clock
from outfox.evaluation_records import NAME as RECORD
from outfox.table_files import FileEntry
from plugin.errors import PluginError
from round_manager.archive.csv_cache import CsvCache
from round_manager.archive.example_rows import origin_of
from round_manager.archive.files import FILE, ArchiveManifest
from round_manager.archive.reader import ArchiveSource, FileVerifier, FolderSource, open_source
from round_manager.database.store import LazyStore
from round_manager.errors import ArchiveConflict, ArchiveError
from round_manager.models import Round
from round_manager.services.context import ServiceContext
from round_manager.services.data_access import ReadableTask, read_task

NAME = re.compile(r"(examples|votes|attempts|contexts|models)\.(parquet|jsonl|csv)")
TYPES = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
}
# Checking hashes and writing CSV take long: a quarter of a process's requests, so that workers' pages are served.
MOST_AT_ONCE = 4
MOST_KNOWN = 64
HIDDEN = "the rows of this round are hidden; the leaderboard scores it"
BUSY = "too many files are being prepared at the same time; try again in a moment"


class DataFileNotFound(PluginError):
    """The round or the file does not exist."""


class DataBusy(PluginError):
    """The limit of files prepared at the same time is reached."""

    retry = True


@dataclass(frozen=True)
class DataFile:
    """One file: its hash and size, and how to read a part of it."""

    name: str
    entry: FileEntry
    public: bool
    pieces: Callable[[int, int], Iterator[bytes]]

    @property
    def content_type(self) -> str:
        return TYPES[self.name.rpartition(".")[2]]


class DataFiles:
    """Serves the files of frozen rounds; a few are prepared at a time."""

    def __init__(
        self, lazy_store: LazyStore, csv_cache: CsvCache, clock: Clock, *, at_once: int = MOST_AT_ONCE
    ) -> None:
        self._lazy_store = lazy_store
        self._csv_cache = csv_cache
        self._clock = clock
        self._slots = threading.BoundedSemaphore(at_once)
        # An archive never changes, so its manifest is read once.
        self._opened = lru_cache(maxsize=MOST_KNOWN)(_open)
        self._verifier = FileVerifier()

    def take_slot(self) -> Callable[[], None]:
        """Take one of the slots for preparing files and return how to release it; raise DataBusy if all are taken."""
        if not self._slots.acquire(blocking=False):
            raise DataBusy(BUSY)
        return self._slots.release

    def read_task(self, name: str, token: str) -> ReadableTask:
        """Return the task if the token may read it; raise DataRefused if not."""
        return read_task(ServiceContext(self._lazy_store.open(), self._clock), name, token)

    def listing(self, task: ReadableTask) -> dict[str, Any]:
        """Return the task's frozen rounds and their files; a CSV file has no size before its first request."""
        return {"task": task.name, "rounds": [self._listed(task.name, one) for one in task.rounds.values()]}

    def file(self, task: ReadableTask, number: int, name: str) -> DataFile:
        """Return a file of a frozen round; raise ArchiveFileChanged if it is not what was frozen."""
        public = task.public
        if number not in task.rounds:
            there = ", ".join(map(str, task.rounds)) or "none"
            raise DataFileNotFound(f"round {number} of {task.name} is not frozen; the frozen rounds are: {there}")
        if name not in (FILE, RECORD) and not NAME.fullmatch(name):
            raise DataFileNotFound(f"there is no such file; /data/{task.name} lists the files")
        round = task.rounds[number]
        archive, manifest = self._opened(str(round.archive_uri), str(round.archive_sha256))
        if _is_hidden(manifest):
            raise DataFileNotFound(f"the rows of round {number} of {task.name} are hidden; the leaderboard scores it")
        if name in (FILE, RECORD):
            content = manifest.written() if name == FILE else archive.small(RECORD)
            if content is None:
                raise DataFileNotFound(f"the archive of round {number} of {task.name} has no evaluations yet")
            entry = _entry(content)
            return DataFile(name, entry, public, lambda start, stop: iter((content[start:stop],)))
        if name.endswith(".csv"):
            return self._csv(archive, manifest, name, public=public)
        entry = manifest.files[name]
        # Objects in a bucket are stored with their hash and compared with it when they are read.
        if isinstance(archive, FolderSource):
            with archive.local(name, entry) as path:
                self._verifier.check(path, entry)
        return DataFile(name, entry, public, lambda start, stop: archive.pieces(name, entry, start, stop))

    def _csv(self, archive: ArchiveSource, manifest: ArchiveManifest, name: str, *, public: bool) -> DataFile:
        source = name.replace(".csv", ".parquet")
        entry = manifest.files[source]
        made = self._csv_cache.get(archive, source, entry)
        return DataFile(
            name, made.entry, public, lambda start, stop: self._csv_cache.pieces(archive, source, entry, start, stop)
        )

    def _listed(self, task: str, round: Round) -> dict[str, Any]:
        base = f"/data/{task}/rounds/{round.number}"
        about = {"round": round.number, "manifest": f"{base}/{FILE}", "manifest_sha256": round.archive_sha256}
        about["imported"] = round.is_imported
        try:
            archive, manifest = self._opened(str(round.archive_uri), str(round.archive_sha256))
            record = archive.small(RECORD)
        except ArchiveError:
            # The other rounds can still be read.
            problem = "the archive cannot be read at the moment; contact the task's owner"
            return {**about, "files": {}, "problem": problem}
        if _is_hidden(manifest):
            return {"round": round.number, "manifest": None, "manifest_sha256": None, "files": {}, "problem": HIDDEN}
        if record is not None:
            entry = _entry(record)
            about["evaluations"] = {"url": f"{base}/{RECORD}", "sha256": entry.sha256, "size": entry.size}
        files: dict[str, Any] = {name: asdict(entry) for name, entry in manifest.files.items()}
        for name in [name for name in files if name.endswith(".parquet")]:
            made = self._csv_cache.find(manifest.files[name])
            unmade = {"sha256": None, "size": None, "rows": manifest.files[name].rows}
            files[name.replace(".parquet", ".csv")] = asdict(made.entry) if made else unmade
        return {**about, "files": {name: {"url": f"{base}/{name}", **files[name]} for name in sorted(files)}}


def _is_hidden(manifest: ArchiveManifest) -> bool:
    """Whether models are scored on the archive's rows and nobody may read them."""
    return bool(origin_of(manifest).get("hidden", False))


def _entry(content: bytes) -> FileEntry:
    return FileEntry(hashlib.sha256(content).hexdigest(), len(content), 1)


def _open(uri: str, sha256: str) -> tuple[ArchiveSource, ArchiveManifest]:
    archive = open_source(uri)
    manifest = archive.manifest()
    if manifest.sha256 != sha256:
        raise ArchiveConflict(f"{uri} is not the archive that was frozen there")
    return archive, manifest
