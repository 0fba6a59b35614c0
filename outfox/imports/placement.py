"""Finished archives of an import in their places: all of them, or none, even if the process is killed.

<folder>/.importing-ID/   drafts, on the same disk as their places
<folder>/.importing.json  a journal: what is being placed, so that a killed import can be undone
"""

import json
import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from outfox.archives import MANIFEST, sha256_of

DRAFTS = ".importing-"
JOURNAL = ".importing.json"
# What a journal may name: it is read from a shared folder, and what it names is removed.
PLACE = re.compile(r"(round-[0-9]{1,10}|(predictions/)?(suite-[a-z0-9_-]{1,40}|rounds-[0-9-]{1,600}))")


@dataclass(frozen=True)
class Placement:
    """The places of an import's archives below a task's folder.

    `owner` says who decides whether an interrupted import happened: a database; without one it is undone.
    """

    folder: Path
    owner: str = "folder"

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Yield a folder for drafts; it is removed afterwards. Other imports into the same folder wait."""
        missing = [one for one in (self.folder, *self.folder.parents) if not one.exists()]
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"{DRAFTS}{uuid.uuid4().hex}"
        try:
            with _locked(self.folder):
                for left in self.folder.glob(f"{DRAFTS}*"):
                    shutil.rmtree(left, ignore_errors=True)
                draft.mkdir()
                yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            for one in missing:
                with suppress(OSError):  # It holds an archive now.
                    one.rmdir()

    def place(self, drafts: Mapping[str, Path]) -> None:
        """Move the drafts to their names, all or none; call `settle` when the import is complete."""
        new = {name: draft for name, draft in drafts.items() if not (self.folder / name).exists()}
        journal = {"owner": self.owner, "places": {name: _manifest_hash(draft) for name, draft in new.items()}}
        for draft in new.values():
            _flush(*draft.iterdir(), draft)
        _write(self.folder / JOURNAL, json.dumps(journal, indent=1).encode())
        try:
            for name, draft in new.items():
                (self.folder / name).parent.mkdir(exist_ok=True)
                draft.rename(self.folder / name)
            _flush(self.folder)
        except BaseException:
            self.undo()
            raise

    def settle(self) -> None:
        """Forget how to undo: the import is complete."""
        (self.folder / JOURNAL).unlink(missing_ok=True)

    def unfinished(self) -> dict[str, str]:
        """Return the places of an interrupted import with the hashes of their manifests."""
        try:
            journal = json.loads((self.folder / JOURNAL).read_bytes())
            places = {str(name): str(sha256) for name, sha256 in journal["places"].items()}
            mine = journal["owner"] == self.owner
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}
        return {name: sha256 for name, sha256 in places.items() if mine and PLACE.fullmatch(name)}

    def undo(self, known: Collection[str] = ()) -> None:
        """Remove what an interrupted import placed, unless one of its manifests is known: then it is complete."""
        places = self.unfinished()
        if not known or not any(sha256 in known for sha256 in places.values()):
            for name, sha256 in places.items():
                if (self.folder / name).is_dir() and _manifest_hash(self.folder / name) == sha256:
                    # Renamed first: a part of it is never visible.
                    trash = self.folder / f"{DRAFTS}{uuid.uuid4().hex}"
                    (self.folder / name).rename(trash)
                    shutil.rmtree(trash, ignore_errors=True)
            with suppress(OSError):  # It holds predictions of other imports, or is not there.
                (self.folder / "predictions").rmdir()
        if places:
            self.settle()


def _manifest_hash(folder: Path) -> str:
    """Return the hash of an archive's manifest; a folder of predictions has none."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            return sha256_of(file)
    except OSError:
        return ""


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which ends with the process; without locks on systems that have none."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # Some shared folders know no locks.
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    draft.write_bytes(content)
    _flush(draft)
    draft.replace(path)
    _flush(path.parent)


def _flush(*paths: Path) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
