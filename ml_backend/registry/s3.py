"""A registry in an S3 bucket, for processes on many machines; its keys are the paths of the registry in a folder.

<task>/<version>/   a model version, visible once its manifest is there, which is written last
<task>/pins.json    what is pinned, written only over what the writer had read
.beats/<id>.json    a serving process
"""

import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from ml_backend import manifest as manifests
from ml_backend.artefact import read_manifest, verify
from ml_backend.errors import ModelError
from ml_backend.manifest import Manifest
from ml_backend.registry.arrival import arrive, discard
from ml_backend.registry.beats import FOLDER as BEATS
from ml_backend.registry.beats import MAX_BYTES as MOST_BEAT_BYTES
from ml_backend.registry.bucket import Bucket, Moved
from ml_backend.registry.errors import PinsMoved, RegistryError
from ml_backend.registry.pins import FILE as PINS
from ml_backend.registry.pins import MAX_BYTES as MOST_PINS_BYTES
from ml_backend.registry.pins import Book, Pins, Reason, check_pins, check_task, check_version
from ml_backend.registry.registry import Beat, Pace

SECONDS_UNTIL_SWEPT = 3600.0
MOST_TRIES = 20


class S3Registry:
    """A registry that every machine with the bucket's credentials can use."""

    pace = Pace(poll=1.0, wait=0.3, beat=5.0, lease=45.0)

    def __init__(self, bucket: Bucket, cache: Path) -> None:
        self._bucket = bucket
        self._cache = cache

    @classmethod
    def open(cls, url: str, cache: Path) -> Self:
        """The registry at s3://bucket/prefix."""
        bucket = Bucket.open(url)
        # Two registries may hold different tasks of one name.
        return cls(bucket, cache / re.sub(r"[^A-Za-z0-9.-]+", "_", url.removeprefix("s3://").strip("/")))

    def publish(self, directory: Path) -> str:
        """Uploads what is not there; a version with a file that was spoiled in the bucket is mended."""
        mine = verify(directory)
        there = self._manifest(mine.task, mine.version)
        self._upload(directory, mine, there[0] if there else mine)
        if there is None:
            with suppress(Moved):
                content = (directory / manifests.FILE).read_bytes()
                self._bucket.write(f"{mine.task}/{mine.version}/{manifests.FILE}", content, replaces="")
            # Another publisher of the same version may have been at it meanwhile, with a card of its own.
            there = self._manifest(mine.task, mine.version)
            self._upload(directory, mine, there[0] if there else mine)
        return mine.version

    def fetch(self, task: str, version: str) -> Path:
        target = self._cache / check_task(task) / check_version(version)
        if target.is_dir():
            try:
                verify(target)
                return target
            except ModelError:
                discard(target)
        there = self._manifest(task, version)
        if there is None:
            raise ModelError(f"task {task} has no model version {version}; `outfox model publish` brings it")
        return arrive(target, lambda draft: self._download(*there, draft))

    def tasks(self) -> list[str]:
        return sorted(name for name in self._bucket.folders() if not name.startswith("."))

    def versions(self, task: str) -> list[str]:
        wanted = re.compile(rf"{check_task(task)}/(m[0-9a-f]{{12}})/{re.escape(manifests.FILE)}")
        found = [(one.age, match[1]) for one in self._bucket.below(f"{task}/") if (match := wanted.fullmatch(one.key))]
        return [version for _, version in sorted(found)]

    def pins(self, task: str, round: int | None = None) -> Pins | None:
        return self.book(task).pins(round)

    def set_pins(
        self,
        task: str,
        versions: Sequence[str],
        *,
        round: int | None = None,
        after: int | None = None,
        repeats: int | None = None,
        who: str = "",
        why: str = "",
    ) -> Pins:
        chosen = check_pins(versions, round)
        for version in chosen:
            if not self._bucket.etag(f"{check_task(task)}/{version}/{manifests.FILE}"):
                raise ModelError(f"task {task} has no model version {version}; `outfox model publish` brings it")
        reason = Reason(who, why, datetime.now(UTC).isoformat(), uuid.uuid4().hex)
        for _ in range(MOST_TRIES):
            book, etag = self._book(task)
            if done := book.written_by(reason.token):
                # The bucket took the change, and the answer was lost: boto3 asked again and was refused.
                return done
            changed = book.changed(chosen, round, after, repeats, reason)
            with suppress(Moved):
                self._bucket.write(f"{task}/{PINS}", changed.written(), replaces=etag)
                return Pins(task, round, changed.generation, chosen)
        raise PinsMoved(f"others keep changing the pins of {task}; try again")

    def book(self, task: str) -> Book:
        return self._book(task)[0]

    def stamp(self, task: str) -> str:
        return self._bucket.etag(f"{check_task(task)}/{PINS}")

    def beat(self, beat: Beat) -> None:
        self._bucket.write(f"{BEATS}/{beat.id}.json", beat.written())

    def beats(self, task: str) -> list[Beat]:
        found = []
        for one in self._bucket.below(f"{BEATS}/"):
            read = self._bucket.read(one.key, MOST_BEAT_BYTES)
            if read is None:
                continue
            beat = Beat.read(read[0], self._bucket.where(one.key))
            if beat.is_gone(one.age):
                if one.age > SECONDS_UNTIL_SWEPT:
                    self._bucket.remove(one.key)
            elif task in beat.tasks:
                found.append(beat)
        return found

    def leave(self, beat_id: str) -> None:
        self._bucket.remove(f"{BEATS}/{beat_id}.json")

    def _book(self, task: str) -> tuple[Book, str]:
        key = f"{check_task(task)}/{PINS}"
        read = self._bucket.read(key, MOST_PINS_BYTES)
        if read is None:
            return Book(task=task), ""
        return Book.read(read[0], task, self._bucket.where(key)), read[1]

    def _manifest(self, task: str, version: str) -> tuple[Manifest, bytes] | None:
        """The manifest in the bucket: only a version that has one is there."""
        key = f"{task}/{version}/{manifests.FILE}"
        read = self._bucket.read(key, manifests.MAX_BYTES)
        if read is None:
            return None
        with TemporaryDirectory() as folder:
            (Path(folder) / manifests.FILE).write_bytes(read[0])
            try:
                manifest = read_manifest(Path(folder))
            except ModelError as error:
                cure = "remove it and publish the version again"
                raise ModelError(f"{self._bucket.where(key)} is not a right manifest; {cure}") from error
        if (manifest.task, manifest.version) != (task, version):
            raise ModelError(f"{self._bucket.where(key)} is of {manifest.version} of {manifest.task}; remove it")
        return manifest, read[0]

    def _upload(self, directory: Path, mine: Manifest, wanted: Manifest) -> None:
        """Every file that the wanted manifest names is in the bucket."""
        for name, record in wanted.files.items():
            key = f"{mine.task}/{mine.version}/{name}"
            if self._bucket.sha256(key) == record.sha256:
                continue
            if mine.files.get(name) != record:
                cure = "publish it from where it was first published"
                raise RegistryError(f"{self._bucket.where(key)} is spoiled, and {directory} has another one; {cure}")
            self._bucket.upload(key, directory / name, record.sha256)

    def _download(self, manifest: Manifest, content: bytes, draft: Path) -> None:
        for name, record in manifest.files.items():
            self._bucket.download(f"{manifest.task}/{manifest.version}/{name}", draft / name, record.size)
        (draft / manifests.FILE).write_bytes(content)
