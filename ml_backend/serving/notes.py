"""A few notes that are kept for a while: in this process, or in a folder that the processes of one backend share."""

import hashlib
import json
import os
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol

Note = dict[str, Any]
# The backend's task, Label Studio's project, Label Studio's task.
Key = tuple[str, int, int]

MOST_NOTES = 4_096
KEPT_FOR = 3_600.0


class Notes(Protocol):
    """Keeps a note under a key until it is old, or until there are too many."""

    def read(self, key: Key) -> Note | None:
        """The note under the key, if it is still there."""
        ...

    def write(self, key: Key, note: Note) -> None:
        """Keeps the note from now on; nothing is promised for how long."""
        ...


class OwnNotes:
    """Notes in the memory of this process."""

    def __init__(self, most: int = MOST_NOTES) -> None:
        self._most = most
        self._notes: OrderedDict[Key, Note] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, key: Key) -> Note | None:
        return self._notes.get(key)

    def write(self, key: Key, note: Note) -> None:
        with self._lock:
            self._notes[key] = note
            self._notes.move_to_end(key)
            if len(self._notes) > self._most:
                self._notes.popitem(last=False)


class SharedNotes:
    """Notes as files of one folder, one each, which several processes read and replace; a lost note is no harm."""

    def __init__(self, folder: Path, most: int = MOST_NOTES) -> None:
        self._folder = folder
        self._most = most
        self._written = 0

    def read(self, key: Key) -> Note | None:
        try:
            note = json.loads(self._path(key).read_bytes())
        except (OSError, ValueError):
            return None
        return note if isinstance(note, dict) else None

    def write(self, key: Key, note: Note) -> None:
        path = self._path(key)
        draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            draft.write_bytes(json.dumps(note).encode("ascii"))
            draft.replace(path)
            self._written += 1
            if self._written % 256 == 1:
                self._tidy()
        except OSError:
            draft.unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._folder / hashlib.sha256(repr(key).encode()).hexdigest()[:32]

    def _tidy(self) -> None:
        """Removes what is old, then what is oldest, until no more are left than may be."""
        with os.scandir(self._folder) as entries:
            files = sorted((entry.stat().st_mtime, entry.path) for entry in entries)
        oldest = time.time() - KEPT_FOR
        spare = len(files) - self._most
        for place, (written, path) in enumerate(files):
            if written < oldest or place < spare:
                Path(path).unlink(missing_ok=True)
