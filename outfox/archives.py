"""Frozen rounds: their manifests, and archives in a folder."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from outfox.arguments import checked_folder, missing, reason
from outfox.errors import DataCorrupt, DataNotFound, DataUnreadable
from outfox.evaluation_records import NAME as RECORD
from outfox.evaluation_records import read_record

MANIFEST = "manifest.json"
FORMAT = 1
TABLES = ("examples", "votes", "attempts", "contexts", "models")
# What a data card says about a round, from its manifest and from the task as it was when the round opened.
ROUND_FACTS = (
    "origin", "round", "opened_at", "closed_at", "models", "examples", "splits", "withheld", "written_by", "sha256",
)  # fmt: skip
SPEC_FACTS = (
    "title", "description", "languages", "author", "licence", "data_licence", "labels", "fields", "fooled", "work",
    "validation",
)  # fmt: skip
COPY_AGAIN = "copy the archive again"


@dataclass(frozen=True)
class RoundFiles(ABC):
    """The files of one frozen round, in a folder or on a server."""

    manifest: dict[str, Any]

    @property
    def number(self) -> int:
        """The round's number."""
        return int(self.manifest["round"])

    @property
    def about(self) -> dict[str, Any]:
        """What an export needs to know about the task."""
        return task_facts(self.manifest)

    @abstractmethod
    def file(self, table: str, *, verify: bool) -> Path:
        """Return a table's Parquet file on this machine; with `verify`, only if it has the manifest's hash."""

    @abstractmethod
    def record(self) -> dict[str, Any] | None:
        """Return the record of evaluations in the archive's folder; None if there is none."""

    @abstractmethod
    def remedy(self, *, verify: bool) -> str:
        """Say what to do about a file that cannot be used, depending on whether its hash was compared."""


class RoundSource(Protocol):
    """A place that has archives: a folder or a server."""

    def archives(self, task: str) -> Mapping[int, Callable[[], RoundFiles]]:
        """Return the task's frozen rounds by number; each is opened by calling it."""


@dataclass(frozen=True)
class LocalRound(RoundFiles):
    """A frozen round in a folder."""

    folder: Path

    def file(self, table: str, *, verify: bool) -> Path:
        name = f"{table}.parquet"
        path = self.folder / name
        try:
            with path.open("rb") as file:
                matches = not verify or sha256_of(file) == self.manifest["files"][name]["sha256"]
        except FileNotFoundError as error:
            raise DataCorrupt(f"{path} is missing; {COPY_AGAIN}") from error
        except OSError as error:
            raise DataUnreadable(f"cannot read {path}{reason(error)}; {COPY_AGAIN}") from error
        if not matches:
            raise DataCorrupt(f"{path} was changed (its SHA-256 differs); {COPY_AGAIN}")
        return path

    def record(self) -> dict[str, Any] | None:
        path = self.folder / RECORD
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataUnreadable(f"cannot read {path}{reason(error)}; {COPY_AGAIN}") from error
        return read_record(content, str(path), self.manifest["sha256"], COPY_AGAIN)

    def remedy(self, *, verify: bool) -> str:
        return COPY_AGAIN


class ArchiveFolder:
    """A folder of archives, a task's folder in it, or one archive."""

    def __init__(self, path: Any) -> None:
        self._root = checked_folder("path", path, "archives")

    def __str__(self) -> str:
        return str(self._root)

    def archives(self, task: str) -> dict[int, Callable[[], RoundFiles]]:
        """Return the task's frozen rounds by number; each is opened by calling it."""
        try:
            is_archive = (self._root / MANIFEST).is_file()
            folders = [self._root] if is_archive else self._round_folders(task)
        except OSError as error:
            raise DataUnreadable(f"cannot read {self._root}{reason(error)}; choose a readable folder") from error
        found = [(folder, read_manifest(folder / MANIFEST, COPY_AGAIN)) for folder in folders]
        for folder, manifest in found:
            if not is_archive and folder.name != f"round-{manifest['round']}":
                raise DataCorrupt(f"{folder / MANIFEST} belongs to round {manifest['round']}; {COPY_AGAIN}")
        return {
            int(manifest["round"]): partial(LocalRound, manifest, folder)
            for folder, manifest in found
            if manifest["task"] == task
        }

    def _round_folders(self, task: str) -> list[Path]:
        # A folder with tables but no manifest counts: skipping it would silently drop a round.
        folders = [*(self._root / task).glob("round-*")] or self._root.glob("round-*")
        return [folder for folder in folders if any(folder.glob("*.json*")) or any(folder.glob("*.parquet"))]


def open_rounds(source: RoundSource, task: str, rounds: list[int] | None) -> list[RoundFiles]:
    """Open the rounds that are wanted, or all of them, ordered by number."""
    found = source.archives(task)
    if not found:
        raise DataNotFound(f"no archive of {task} found at {source}; a round must be frozen first")
    numbers = sorted(found) if rounds is None else rounds
    for number in numbers:
        if number not in found:
            available = ", ".join(map(str, sorted(found)))
            raise DataNotFound(f"round {number} of {task} not found at {source}, only {available}")
    return [found[number]() for number in numbers]


def task_facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an export needs to know about the task."""
    spec = manifest["spec"]
    roles = {field["name"]: field["role"] for field in spec["fields"]}
    return {
        "task": manifest["task"],
        "kind": manifest["kind"],
        "labels": [label["name"] for label in spec["labels"]],
        "inputs": list(spec["model_input"]),
        "contexts": [name for name, role in roles.items() if role == "context"],
        "reasons": [name for name, role in roles.items() if role == "reason"],
    }


def round_facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a data card says about the round; older archives do not state everything."""
    spec = manifest["spec"]
    facts = {name: manifest.get(name) for name in ROUND_FACTS}
    rows = manifest["files"]["examples.parquet"].get("rows")
    return {**facts, "rows": rows, "spec": {name: spec.get(name) for name in SPEC_FACTS}}


def read_manifest(file: Path, remedy: str, address: str = "") -> dict[str, Any]:
    """Read an archive's manifest and check everything that is used later: an archive can come from anywhere.

    Its own hash, which identifies the archive, is added as `sha256`.
    """
    name = address or str(file)
    try:
        content = file.read_bytes()
        manifest: dict[str, Any] = json.loads(content)
        known = manifest["format"] == FORMAT
    except OSError as error:
        raise DataUnreadable(f"cannot read {name}{reason(error)}; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise DataCorrupt(f"{name} is not JSON; {remedy}") from error
    except (TypeError, KeyError) as error:
        raise DataCorrupt(f"{name} is not the manifest of an archive; {remedy}") from error
    if not known:
        raise DataCorrupt(f"{name} has a format that this version of outfox does not know; install a newer one")
    try:
        valid = _has_valid_values(manifest)
    except KeyError as error:
        raise DataCorrupt(f"{name} {missing(error, 'key')}; {remedy}") from error
    except (TypeError, AttributeError, RecursionError) as error:
        raise DataCorrupt(f"{name} does not have the structure of a manifest; {remedy}") from error
    if not valid:
        raise DataCorrupt(f"{name} has invalid values; {remedy}")
    return manifest | {"sha256": hashlib.sha256(content).hexdigest()}


def _has_valid_values(manifest: Mapping[str, Any]) -> bool:
    facts = task_facts(manifest)
    entries = [manifest["files"][f"{table}.parquet"] for table in TABLES]
    texts = [manifest["task"], manifest["kind"], *(entry["sha256"] for entry in entries)]
    texts += [name for key in ("labels", "inputs", "contexts", "reasons") for name in facts[key]]
    numbers = [manifest["round"], *(entry["size"] for entry in entries)]
    # Frames keep these as text, so it must be possible to write them.
    json.dumps(round_facts(manifest))
    return all(isinstance(text, str) for text in texts) and all(type(number) is int for number in numbers)


def sha256_of(file: Any) -> str:
    """Return the hash of an open file from its current position."""
    return hashlib.file_digest(file, "sha256").hexdigest()
