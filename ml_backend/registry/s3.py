"""A registry in an S3 bucket, for processes on many machines; its keys are the paths of a registry in a folder.

<task>/<version>/   a model version; its manifest is written last and makes it visible
<task>/pins.json    the task's pins; written only if unchanged since they were read
.beats/<id>.json    a serving process's heartbeat
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from ml_backend import errors
from ml_backend import manifest as manifests
from ml_backend.artefact import read_manifest, verify
from ml_backend.manifest import Manifest
from ml_backend.registry.bucket import Bucket, PreconditionFailed
from ml_backend.registry.heartbeats import FOLDER as HEARTBEATS
from ml_backend.registry.heartbeats import MAX_BYTES as MAX_HEARTBEAT_BYTES
from ml_backend.registry.heartbeats import Heartbeat, Timing
from ml_backend.registry.local import install_folder, remove_folder
from ml_backend.registry.pins import FILE as PINS
from ml_backend.registry.pins import MAX_BYTES as MAX_PINS_BYTES
from ml_backend.registry.pins import PinSet, PinStore, check_task, check_version

STALE_SECONDS = 3600.0
MAX_ATTEMPTS = 20


class S3Registry(PinStore):
    """A registry that every machine with the bucket's credentials can use."""

    timing = Timing(poll=1.0, wait=0.3, heartbeat=5.0, lease=45.0)

    def __init__(self, bucket: Bucket, cache: Path) -> None:
        self._bucket = bucket
        self._cache = cache

    @classmethod
    def open(cls, url: str, cache: Path) -> Self:
        """Open the registry at s3://bucket/prefix."""
        bucket = Bucket.open(url)
        # Two registries may hold different tasks of the same name.
        return cls(bucket, cache / re.sub(r"[^A-Za-z0-9.-]+", "_", url.removeprefix("s3://").strip("/")))

    def publish(self, directory: Path) -> str:
        """Upload the missing files; replace a file of the version that is corrupt in the bucket."""
        mine = verify(directory)
        there = self._manifest(mine.task, mine.version)
        self._upload(directory, mine, there[0] if there else mine)
        if there is None:
            with suppress(PreconditionFailed):
                content = (directory / manifests.FILE).read_bytes()
                self._bucket.write(f"{mine.task}/{mine.version}/{manifests.FILE}", content, replaces="")
            # Another publisher may have uploaded the same version in the meantime, with another card.
            there = self._manifest(mine.task, mine.version)
            self._upload(directory, mine, there[0] if there else mine)
        return mine.version

    def fetch(self, task: str, version: str) -> Path:
        target = self._cache / check_task(task) / check_version(version)
        if target.is_dir():
            try:
                verify(target)
                return target
            except errors.ModelError:
                remove_folder(target)
        there = self._manifest(task, version)
        if there is None:
            raise errors.VersionNotFound(task, version)
        return install_folder(target, lambda draft: self._download(*there, draft))

    def tasks(self) -> list[str]:
        return sorted(name for name in self._bucket.folders() if not name.startswith("."))

    def versions(self, task: str) -> list[str]:
        wanted = re.compile(rf"{check_task(task)}/([a-z][0-9a-f]{{12}})/{re.escape(manifests.FILE)}")
        found = [(one.age, match[1]) for one in self._bucket.below(f"{task}/") if (match := wanted.fullmatch(one.key))]
        return [version for _, version in sorted(found)]

    def has_version(self, task: str, version: str) -> bool:
        return bool(self._bucket.etag(f"{task}/{version}/{manifests.FILE}"))

    def change_pins(self, task: str, change: Callable[[PinSet], PinSet], token: str) -> int:
        for _ in range(MAX_ATTEMPTS):
            pin_set, etag = self._read_pin_set(task)
            if done := pin_set.change_with(token):
                # The bucket stored the change but its response was lost, and boto3's retry failed the precondition.
                return done.generation
            changed = change(pin_set)
            with suppress(PreconditionFailed):
                self._bucket.write(f"{task}/{PINS}", changed.written(), replaces=etag)
                return changed.generation
        raise errors.PinsChanged(f"other processes keep changing the pins of {task}; try again")

    def pin_set(self, task: str) -> PinSet:
        return self._read_pin_set(task)[0]

    def stamp(self, task: str) -> str:
        return self._bucket.etag(f"{check_task(task)}/{PINS}")

    def send_heartbeat(self, heartbeat: Heartbeat) -> None:
        self._bucket.write(f"{HEARTBEATS}/{heartbeat.id}.json", heartbeat.written())

    def heartbeats(self, task: str) -> list[Heartbeat]:
        found = []
        for one in self._bucket.below(f"{HEARTBEATS}/"):
            read = self._bucket.read(one.key, MAX_HEARTBEAT_BYTES)
            if read is None:
                continue
            heartbeat = Heartbeat.read(read[0], self._bucket.where(one.key))
            if heartbeat.is_gone(one.age):
                if one.age > STALE_SECONDS:
                    self._bucket.remove(one.key)
            elif task in heartbeat.tasks:
                found.append(heartbeat)
        return found

    def remove_heartbeat(self, heartbeat_id: str) -> None:
        self._bucket.remove(f"{HEARTBEATS}/{heartbeat_id}.json")

    def _read_pin_set(self, task: str) -> tuple[PinSet, str]:
        key = f"{check_task(task)}/{PINS}"
        read = self._bucket.read(key, MAX_PINS_BYTES)
        if read is None:
            return PinSet(task=task), ""
        return PinSet.read(read[0], task, self._bucket.where(key)), read[1]

    def _manifest(self, task: str, version: str) -> tuple[Manifest, bytes] | None:
        """Read the manifest in the bucket; a version without one does not exist."""
        key = f"{task}/{version}/{manifests.FILE}"
        read = self._bucket.read(key, manifests.MAX_BYTES)
        if read is None:
            return None
        with TemporaryDirectory() as folder:
            (Path(folder) / manifests.FILE).write_bytes(read[0])
            try:
                manifest = read_manifest(Path(folder))
            except errors.ModelFileCorrupt as error:
                where = self._bucket.where(key)
                raise errors.VersionCorrupt(
                    f"{where} is not a valid manifest; remove it, then publish again"
                ) from error
        if (manifest.task, manifest.version) != (task, version):
            raise errors.VersionCorrupt(
                f"{self._bucket.where(key)} is for {manifest.version} of {manifest.task}; remove it"
            )
        return manifest, read[0]

    def _upload(self, directory: Path, mine: Manifest, wanted: Manifest) -> None:
        """Upload every file of the wanted manifest that the bucket does not have."""
        for name, record in wanted.files.items():
            key = f"{mine.task}/{mine.version}/{name}"
            if self._bucket.sha256(key) == record.sha256:
                continue
            if mine.files.get(name) != record:
                text = f"{self._bucket.where(key)} is corrupt, and {directory} holds a different file"
                raise errors.RegistryCorrupt(f"{text}; publish from the machine that first published the version")
            self._bucket.upload(key, directory / name, record.sha256)

    def _download(self, manifest: Manifest, content: bytes, draft: Path) -> None:
        for name, record in manifest.files.items():
            self._bucket.download(f"{manifest.task}/{manifest.version}/{name}", draft / name, record.size)
        (draft / manifests.FILE).write_bytes(content)
