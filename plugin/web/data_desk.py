"""What researchers may have of a task: its frozen rounds, file by file, for those who may read them."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from common.clock import Clock
from plugin.errors import PluginError
from plugin.lazy_store import LazyStore
from round_manager.archive.csv_cache import CsvCache
from round_manager.archive.manifest import FILE, ArchiveManifest, FileEntry
from round_manager.archive.reader import ArchiveSource, FileVerifier, FolderSource, open_source
from round_manager.errors import ArchiveError
from round_manager.models import Round
from round_manager.tasks.data_access import readable_task
from round_manager.tasks.rounds import list_rounds

NAME = re.compile(r"(examples|votes|attempts|contexts|models)\.(parquet|jsonl|csv)")
TYPES = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
}
# Of a process's threads, a quarter: the others are the workers' pages'.
MOST_AT_ONCE = 4
MOST_KNOWN = 64
BUSY = "too many files are being read at once; try again in a moment"


class NoSuchData(PluginError):
    """A round or a file that is not there."""

    code = "no_such_data"


class DataBusy(PluginError):
    """As many files are being sent as may be at once."""

    code = "data_busy"
    retry = True


@dataclass(frozen=True)
class DataFile:
    """One file: what it is to the byte, and how to read a part of it."""

    name: str
    entry: FileEntry
    public: bool
    pieces: Callable[[int, int], Iterator[bytes]]

    @property
    def content_type(self) -> str:
        return TYPES[self.name.rpartition(".")[2]]


@dataclass(frozen=True)
class OpenedTask:
    """A task that somebody may read: its frozen rounds by number, and whether anybody may."""

    name: str
    rounds: Mapping[int, Round]
    public: bool


class DataDesk:
    """Hands out files to whoever may read them, a few at a time."""

    def __init__(self, lazy_store: LazyStore, shelf: CsvCache, clock: Clock, *, at_once: int = MOST_AT_ONCE) -> None:
        self._lazy_store = lazy_store
        self._shelf = shelf
        self._clock = clock
        self._places = threading.BoundedSemaphore(at_once)
        # An archive never changes: what its manifest says has to be read once.
        self._opened = lru_cache(maxsize=MOST_KNOWN)(_open)
        self._proved = FileVerifier()

    def take_place(self) -> Callable[[], None]:
        """A place among those who are sent a file, and how to give it back; DataBusy where all are taken."""
        if not self._places.acquire(blocking=False):
            raise DataBusy(BUSY)
        return self._places.release

    def opened_task(self, name: str, token: str) -> OpenedTask:
        """The task, for whoever may read it."""
        with self._lazy_store.open().read() as session:
            task = readable_task(session, name, token, now=self._clock.now())
            rounds = {one.number: one for one in list_rounds(session, task) if one.frozen_at}
            return OpenedTask(task.name, rounds, task.published_at is not None)

    def listing(self, task: OpenedTask) -> dict[str, Any]:
        """The task's frozen rounds and their files, for a program to read; CSV has no size before it is made."""
        return {"task": task.name, "rounds": [self._listed(task.name, one) for one in task.rounds.values()]}

    def file(self, task: OpenedTask, number: int, name: str) -> DataFile:
        """A file of a frozen round; ArchiveFileChanged where it is not what was frozen."""
        public = task.public
        if number not in task.rounds:
            there = ", ".join(map(str, task.rounds)) or "none"
            raise NoSuchData(f"round {number} of {task.name} is not frozen; the frozen rounds are: {there}")
        if name != FILE and not NAME.fullmatch(name):
            raise NoSuchData(f"there is no such file; /data/{task.name} lists what there is")
        round = task.rounds[number]
        archive, manifest = self._opened(str(round.archive_uri), str(round.archive_sha256))
        if name == FILE:
            content = manifest.written()
            entry = FileEntry(manifest.sha256, len(content), 1)
            return DataFile(name, entry, public, lambda start, stop: iter((content[start:stop],)))
        if name.endswith(".csv"):
            return self._csv(archive, manifest, name, public=public)
        entry = manifest.files[name]
        # A bucket's objects tell the hash that they were stored with, and are compared with it when they are read.
        if isinstance(archive, FolderSource):
            with archive.local(name, entry) as path:
                self._proved.check(path, entry)
        return DataFile(name, entry, public, lambda start, stop: archive.pieces(name, entry, start, stop))

    def _csv(self, archive: ArchiveSource, manifest: ArchiveManifest, name: str, *, public: bool) -> DataFile:
        source = _source_of(name)
        entry = manifest.files[source]
        made = self._shelf.get(archive, source, entry)
        return DataFile(
            name, made.entry, public, lambda start, stop: self._shelf.pieces(archive, source, entry, start, stop)
        )

    def _listed(self, task: str, round: Round) -> dict[str, Any]:
        base = f"/data/{task}/rounds/{round.number}"
        about = {"round": round.number, "manifest": f"{base}/{FILE}", "manifest_sha256": round.archive_sha256}
        try:
            _, manifest = self._opened(str(round.archive_uri), str(round.archive_sha256))
        except ArchiveError:
            # The others can still be read.
            return {**about, "files": {}, "problem": "its archive cannot be read now; tell the task's owner"}
        files: dict[str, Any] = {name: asdict(entry) for name, entry in manifest.files.items()}
        for name in [name for name in files if name.endswith(".parquet")]:
            made = self._shelf.find(manifest.files[name])
            rows = manifest.files[name].rows
            unmade = {"sha256": None, "size": None, "rows": rows}
            files[name.replace(".parquet", ".csv")] = asdict(made.entry) if made else unmade
        return {**about, "files": {name: {"url": f"{base}/{name}", **files[name]} for name in sorted(files)}}


def _source_of(name: str) -> str:
    return name.replace(".csv", ".parquet")


def _open(uri: str, sha256: str) -> tuple[ArchiveSource, ArchiveManifest]:
    archive = open_source(uri)
    manifest = archive.manifest()
    if manifest.sha256 != sha256:
        raise ArchiveError(f"{uri} is another archive than the one that was frozen there; restore it")
    return archive, manifest
