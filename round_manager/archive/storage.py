"""Storage of archives: a folder or an S3 bucket; an archive is complete or not there at all.

<place>/<task>/round-<number>/   an archive: its manifest and the files that it names
<place>/<task>/suite-<name>/     the same for a test suite

The archives of an import appear together or not at all. A journal says what to undo after a kill, unless the database
knows them.
"""

import json
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from ml_backend.artefact import UNFINISHED, flush, sweep
from ml_backend.errors import BackendError
from ml_backend.hashing import file_sha256
from outfox.evaluation_records import MOST_BYTES as RECORD_BYTES
from outfox.evaluation_records import NAME as RECORD
from outfox.imports.placement import JOURNAL, PLACE, Placement
from round_manager.archive.files import FILE, MOST_BYTES, ArchiveManifest, read_manifest
from round_manager.errors import ArchiveConflict, ArchiveCorrupt, ArchiveError, ArchiveUnreachable

S3 = "s3://"
Fill = Callable[[Path], ArchiveManifest]
# Who decides whether an interrupted import happened.
OWNER = "database"


class Archives(Protocol):
    """Storage of archives."""

    def where(self, task: str, number: int) -> str:
        """Return the address of a round's archive."""

    def keep(self, task: str, number: int, fill: Fill) -> ArchiveManifest:
        """Store a round's archive, which `fill` writes into a draft folder; an equal archive is kept and repaired."""

    def place_of(self, task: str, name: str) -> str:
        """Return the address of an archive of that name."""

    def staging(self, task: str) -> AbstractContextManager[Path]:
        """Provide a folder for the drafts of an import."""

    def place(self, task: str, drafts: Mapping[str, Path]) -> None:
        """Store complete drafts under these names, all or none; an equal archive is kept. Call `settle` afterwards."""

    def settle(self, task: str) -> None:
        """Note that the database knows what was placed."""

    def undo(self, task: str, known: Collection[str]) -> None:
        """Remove what an interrupted import has placed, unless its hashes are known."""


def open_archives(place: str) -> Archives:
    """Return the storage at a folder or at s3://bucket/prefix."""
    return BucketArchives(place) if place.startswith(S3) else FolderArchives(Path(place).expanduser().resolve())


def archive_name(number: int) -> str:
    """Return the folder name of a round's archive."""
    return f"round-{number}"


class FolderArchives:
    """Archives below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def where(self, task: str, number: int) -> str:
        return str(self._root / task / archive_name(number))

    def keep(self, task: str, number: int, fill: Fill) -> ArchiveManifest:
        target = self._root / task / archive_name(number)
        with _write_errors(str(target)), _draft(target.parent) as draft:
            manifest = fill(draft)
            _write_manifest(draft, manifest)
            if not _moved(draft, target):
                _check_same(_manifest_in(target), manifest, str(target))
                _repair(target, draft, manifest)
        return manifest

    def place_of(self, task: str, name: str) -> str:
        return str(self._root / task / name)

    @contextmanager
    def staging(self, task: str) -> Iterator[Path]:
        with _write_errors(str(self._root)), self._placement(task).staging() as folder:
            yield folder

    def place(self, task: str, drafts: Mapping[str, Path]) -> None:
        for name, draft in drafts.items():
            target = self._root / task / name
            if target.exists() and (draft / FILE).is_file():
                _check_same(_manifest_in(target), _manifest_in(draft), str(target))
        with _write_errors(str(self._root)):
            self._placement(task).place(drafts)

    def settle(self, task: str) -> None:
        self._placement(task).settle()

    def undo(self, task: str, known: Collection[str]) -> None:
        with _write_errors(str(self._root)):
            self._placement(task).undo(known)

    def _placement(self, task: str) -> Placement:
        return Placement(self._root / task, OWNER)


class BucketArchives:
    """Archives below a prefix of an S3 bucket; the manifest is written last, so that its files are there."""

    def __init__(self, url: str) -> None:
        # boto3 takes a second to import.
        from ml_backend.registry.bucket import Bucket

        with bucket_errors():
            self._bucket = Bucket.open(url)

    def where(self, task: str, number: int) -> str:
        return self._bucket.where(f"{task}/{archive_name(number)}")

    def keep(self, task: str, number: int, fill: Fill) -> ArchiveManifest:
        from ml_backend.registry.bucket import PreconditionFailed

        where, key = self.where(task, number), f"{task}/{archive_name(number)}"
        with _write_errors(where), TemporaryDirectory(prefix="outfox-archive-") as folder:
            manifest = fill(Path(folder))
            with bucket_errors():
                there = self._manifest(key)
                if there is not None:
                    _check_same(there, manifest, where)
                for name, entry in manifest.files.items():
                    if self._bucket.sha256(f"{key}/{name}") != entry.sha256:
                        self._bucket.upload(f"{key}/{name}", Path(folder) / name, entry.sha256)
                if there is None:
                    try:
                        self._bucket.write(f"{key}/{FILE}", manifest.written(), replaces="")
                    except PreconditionFailed:  # Another process wrote it first.
                        _check_same(self._manifest(key), manifest, where)
        return manifest

    def place_of(self, task: str, name: str) -> str:
        return self._bucket.where(f"{task}/{name}")

    @contextmanager
    def staging(self, task: str) -> Iterator[Path]:
        with _write_errors("a temporary folder"), TemporaryDirectory(prefix="outfox-import-") as folder:
            yield Path(folder)

    def place(self, task: str, drafts: Mapping[str, Path]) -> None:
        """Upload all files, and then the manifests, without which nothing is visible."""
        with _write_errors(self._bucket.where(task)), bucket_errors():
            new: dict[str, Path] = {}
            for name, draft in drafts.items():
                there = self._manifest(f"{task}/{name}")
                if there is None:
                    new[name] = draft
                else:
                    _check_same(there, _manifest_in(draft), self._bucket.where(f"{task}/{name}"))
            if not any((one / FILE).is_file() for one in new.values()):
                return
            self._bucket.write(f"{task}/{JOURNAL}", json.dumps(dict.fromkeys(new, "")).encode())
            try:
                for last in (False, True):
                    for name, draft in new.items():
                        for file in sorted(draft.iterdir()):
                            if (file.name == FILE) is last:
                                self._bucket.upload(f"{task}/{name}/{file.name}", file, file_sha256(file))
            except BaseException:
                self.undo(task, ())
                raise

    def settle(self, task: str) -> None:
        with bucket_errors():
            self._bucket.remove(f"{task}/{JOURNAL}")

    def undo(self, task: str, known: Collection[str]) -> None:
        with bucket_errors():
            read = self._bucket.read(f"{task}/{JOURNAL}", MOST_BYTES)
            names = [name for name in json.loads(read[0]) if PLACE.fullmatch(name)] if read else []
            manifests = [self._manifest(f"{task}/{name}") for name in names]
            if not any(one is not None and one.sha256 in known for one in manifests):
                for name in names:
                    keys = [one.key for one in self._bucket.below(f"{task}/{name}/")]
                    # The manifest first: nothing is visible without it.
                    for key in sorted(keys, key=lambda one: not one.endswith(f"/{FILE}")):
                        self._bucket.remove(key)
            if read:
                self._bucket.remove(f"{task}/{JOURNAL}")

    @contextmanager
    def copy(self, key: str) -> Iterator[Path]:
        """Download the archive at a key; files that are missing in the bucket are missing in the copy."""
        prefix = f"{key}/" if key else ""
        with _write_errors(self._bucket.where(key)), TemporaryDirectory(prefix="outfox-archive-") as folder:
            with bucket_errors():
                manifest = self._manifest(key)
                if manifest is not None:
                    (Path(folder) / FILE).write_bytes(manifest.written())
                    for name, entry in manifest.files.items():
                        if self._bucket.etag(f"{prefix}{name}"):
                            self._bucket.download(f"{prefix}{name}", Path(folder) / name, entry.size)
                    record = self._bucket.read(f"{prefix}{RECORD}", RECORD_BYTES)
                    if record is not None:
                        (Path(folder) / RECORD).write_bytes(record[0])
            yield Path(folder)

    def _manifest(self, key: str) -> ArchiveManifest | None:
        path = f"{key}/{FILE}" if key else FILE
        read = self._bucket.read(path, MOST_BYTES)
        return ArchiveManifest.read(read[0], self._bucket.where(path)) if read else None


@contextmanager
def opened_archive(place: str) -> Iterator[Path]:
    """Open the archive at a path or at s3://bucket/prefix as a folder."""
    if place.startswith(S3):
        with BucketArchives(place).copy("") as folder:
            yield folder
    else:
        yield Path(place).expanduser()


def copy_archive(uri: str, draft: Path) -> ArchiveManifest:
    """Copy an archive's files into a draft folder, and return its manifest; raise ArchiveCorrupt if they differ."""
    with opened_archive(uri) as folder:
        manifest = read_manifest(folder)
        for name, entry in manifest.files.items():
            shutil.copyfile(folder / name, draft / name)
            if file_sha256(draft / name) != entry.sha256:
                raise ArchiveCorrupt(f"{uri}/{name} is not what was imported; restore it, or import the round again")
    return manifest


def _write_manifest(draft: Path, manifest: ArchiveManifest) -> None:
    (draft / FILE).write_bytes(manifest.written())
    for path in (draft / FILE, draft):
        flush(path)


def _manifest_in(folder: Path) -> ArchiveManifest:
    try:
        content = (folder / FILE).read_bytes()
    except OSError as error:
        raise ArchiveConflict(f"{folder} exists but is not an archive; move it away") from error
    return ArchiveManifest.read(content, str(folder / FILE))


def _check_same(there: ArchiveManifest | None, mine: ArchiveManifest, where: str) -> None:
    if there is None or there.sha256 != mine.sha256:
        raise ArchiveConflict(f"{where} holds another archive; move it away, or choose another place")


def _repair(target: Path, draft: Path, manifest: ArchiveManifest) -> None:
    """Replace the files of the target that are not what the manifest says."""
    for name, entry in manifest.files.items():
        found = target / name
        if not found.is_file() or file_sha256(found) != entry.sha256:
            (draft / name).replace(found)


@contextmanager
def _draft(parent: Path) -> Iterator[Path]:
    """Yield a draft folder next to the target; it is removed afterwards, with parents that were created in vain."""
    draft = parent / f"{UNFINISHED}{uuid.uuid4().hex}"
    missing = [one for one in (parent, *parent.parents) if not one.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        draft.mkdir()
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        for one in missing:
            with suppress(OSError):  # It is not empty: it holds an archive now, or files of others.
                one.rmdir()


def _moved(draft: Path, target: Path) -> bool:
    """Rename the draft to the target and return True; return False if the target exists."""
    try:
        draft.rename(target)
    except OSError:
        if target.exists():
            return False
        raise
    flush(target.parent)
    return True


@contextmanager
def _write_errors(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        text = f"cannot write {where}: {reason}; check the disk space and the permissions. No archive was stored"
        raise ArchiveError(text) from error


@contextmanager
def bucket_errors() -> Iterator[None]:
    """Raise errors of the bucket as ArchiveError or ArchiveUnreachable."""
    try:
        yield
    except BackendError as error:
        raise (ArchiveUnreachable if error.retry else ArchiveError)(str(error)) from error
