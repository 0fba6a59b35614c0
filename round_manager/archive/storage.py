"""Where archives are kept: a folder, or an S3 bucket; an archive is there whole, or it is not there.

<place>/<task>/round-<number>/   an archive, with its manifest and the files that this names
"""

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from ml_backend.artefact import UNFINISHED, flush, sweep
from ml_backend.errors import BackendError
from ml_backend.hashing import file_sha256
from round_manager.archive.manifest import FILE, MOST_BYTES, ArchiveManifest
from round_manager.errors import ArchiveError, ArchiveUnreachable

S3 = "s3://"
Fill = Callable[[Path], ArchiveManifest]


class Archives(Protocol):
    """A place for archives."""

    def where(self, task: str, number: int) -> str:
        """The address of a round's archive."""
        ...

    def keep(self, task: str, number: int, fill: Fill) -> ArchiveManifest:
        """The round's archive, filled in a draft and visible in one step; an equal one stays, and is mended."""
        ...


def open_archives(place: str) -> Archives:
    """The archives at a folder or at s3://bucket/prefix."""
    return BucketArchives(place) if place.startswith(S3) else FolderArchives(Path(place).expanduser().resolve())


def archive_name(number: int) -> str:
    """The name of a round's archive."""
    return f"round-{number}"


class FolderArchives:
    """Archives below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def where(self, task: str, number: int) -> str:
        return str(self._root / task / archive_name(number))

    def keep(self, task: str, number: int, fill: Fill) -> ArchiveManifest:
        target = self._root / task / archive_name(number)
        with _told(str(target)), _draft(target.parent) as draft:
            manifest = fill(draft)
            _write_manifest(draft, manifest)
            if not _moved(draft, target):
                _check_same(_manifest_in(target), manifest, str(target))
                _mend(target, draft, manifest)
        return manifest


class BucketArchives:
    """Archives below a prefix of an S3 bucket; whoever finds a manifest there finds all that it names."""

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
        with _told(where), TemporaryDirectory(prefix="outfox-archive-") as folder:
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
                    except PreconditionFailed:  # Another process was faster.
                        _check_same(self._manifest(key), manifest, where)
        return manifest

    @contextmanager
    def copy(self, key: str) -> Iterator[Path]:
        """The archive at a key, downloaded; what is missing in the bucket is missing here."""
        prefix = f"{key}/" if key else ""
        with _told(self._bucket.where(key)), TemporaryDirectory(prefix="outfox-archive-") as folder:
            with bucket_errors():
                manifest = self._manifest(key)
                if manifest is not None:
                    (Path(folder) / FILE).write_bytes(manifest.written())
                    for name, entry in manifest.files.items():
                        if self._bucket.etag(f"{prefix}{name}"):
                            self._bucket.download(f"{prefix}{name}", Path(folder) / name, entry.size)
            yield Path(folder)

    def _manifest(self, key: str) -> ArchiveManifest | None:
        path = f"{key}/{FILE}" if key else FILE
        read = self._bucket.read(path, MOST_BYTES)
        return ArchiveManifest.read(read[0], self._bucket.where(path)) if read else None


@contextmanager
def opened_archive(place: str) -> Iterator[Path]:
    """The folder of the archive at a path or at s3://bucket/prefix."""
    if place.startswith(S3):
        with BucketArchives(place).copy("") as folder:
            yield folder
    else:
        yield Path(place).expanduser()


def _write_manifest(draft: Path, manifest: ArchiveManifest) -> None:
    (draft / FILE).write_bytes(manifest.written())
    for path in (draft / FILE, draft):
        flush(path)


def _manifest_in(folder: Path) -> ArchiveManifest:
    try:
        content = (folder / FILE).read_bytes()
    except OSError as error:
        raise ArchiveError(f"{folder} is there and is no archive; move it away") from error
    return ArchiveManifest.read(content, str(folder / FILE))


def _check_same(there: ArchiveManifest | None, mine: ArchiveManifest, where: str) -> None:
    if there is None or there.sha256 != mine.sha256:
        raise ArchiveError(f"{where} holds another archive; move it away, or choose another place")


def _mend(target: Path, draft: Path, manifest: ArchiveManifest) -> None:
    """Every file of the archive is what its manifest says."""
    for name, entry in manifest.files.items():
        found = target / name
        if not found.is_file() or file_sha256(found) != entry.sha256:
            (draft / name).replace(found)


@contextmanager
def _draft(parent: Path) -> Iterator[Path]:
    """A folder beside the target; whatever happens, it is not there afterwards, nor what was made for it in vain."""
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
            with suppress(OSError):  # There is an archive in it now, or something of others.
                one.rmdir()


def _moved(draft: Path, target: Path) -> bool:
    """Whether the draft became the target; False where something is there already."""
    try:
        draft.rename(target)
    except OSError:
        if target.exists():
            return False
        raise
    flush(target.parent)
    return True


@contextmanager
def _told(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise ArchiveError(f"cannot write {where}: {why}; free the disk or its rights, nothing was kept") from error


@contextmanager
def bucket_errors() -> Iterator[None]:
    """Translates the bucket's errors."""
    try:
        yield
    except BackendError as error:
        raise (ArchiveUnreachable if error.retry else ArchiveError)(str(error)) from error
