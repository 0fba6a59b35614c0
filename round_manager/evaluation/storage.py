"""Storage of evaluations next to a task's archives, in a folder or an S3 bucket; each file is written completely.

<place>/<task>/evaluations/
    models/<model id>.json               the model: its name, its kind and where it came from
    models/<model id>.md                 its model card, if it has one
    <data>/data.json                     the data set: its name, its hash and its rows; <data> is the hash's start
    <data>/<model id>/<axis>.json        the result of one axis
    <data>/<model id>/answers.parquet    the answer to each row, for paired comparisons
    <data>/<model id>/<axis>-<…>.parquet the answers to perturbed copies of the rows; the name has the recipe's hash
    orders/, uploads/                    what a cluster evaluates: see orders.py
"""

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from ml_backend.artefact import flush
from ml_backend.hashing import file_sha256
from round_manager.archive.storage import S3, bucket_errors
from round_manager.errors import ArchiveCorrupt, ArchiveError

EVALUATIONS = "evaluations"
MODELS = "models"
DATA = "data.json"
ANSWERS = "answers.parquet"
ORDERS, UPLOADS = "orders", "uploads"
MOST_BYTES = 1 << 26
_DATA = re.compile(r"[0-9a-f]{12}")
_MODEL = re.compile(r"[\w-]{1,200}", re.ASCII)


class Files(Protocol):
    """Files below a folder or a prefix."""

    def read(self, key: str) -> bytes | None:
        """Return a file's content; None if there is no such file."""

    def write(self, key: str, content: bytes) -> None:
        """Store a file, completely or not at all."""

    def upload(self, key: str, path: Path) -> None:
        """Store a copy of a file on this machine, completely or not at all."""

    @contextmanager
    def local(self, key: str) -> Iterator[Path | None]:
        """Yield the path of the file on this machine; None if there is no such file."""

    def remove(self, key: str) -> None:
        """Remove a file, if there is one."""

    def keys(self) -> list[str]:
        """Return the names of all files, sorted."""

    def stamps(self) -> dict[str, str]:
        """Return what changes with the content of each file, by its name."""


class EvaluationStore:
    """The stored evaluations of one task."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def result(self, data: str, model: str, axis: str) -> dict[str, Any] | None:
        """Return the stored result of an axis."""
        return self._json(f"{data[:12]}/{model}/{axis}.json")

    def store_result(self, data: str, model: str, axis: str, content: Mapping[str, Any]) -> None:
        """Store the result of an axis; an earlier one of another recipe is replaced."""
        self._write(f"{data[:12]}/{model}/{axis}.json", content)

    @contextmanager
    def answers(self, data: str, model: str, name: str = ANSWERS) -> Iterator[Path | None]:
        """Yield the path of the stored answers; None if there are none."""
        with self._files.local(f"{data[:12]}/{model}/{name}") as path:
            yield path

    def store_answers(self, data: str, model: str, path: Path, name: str = ANSWERS) -> None:
        """Store a file of answers."""
        self._files.upload(f"{data[:12]}/{model}/{name}", path)

    def model(self, model: str) -> dict[str, Any] | None:
        """Return the description of a model."""
        return self._json(f"{MODELS}/{model}.json")

    def store_model(self, model: str, content: Mapping[str, Any]) -> None:
        """Store the description of a model, unless it is stored already."""
        if self.model(model) != content:
            self._write(f"{MODELS}/{model}.json", content)

    def card(self, model: str) -> str:
        """Return the card of a model, empty if there is none."""
        content = self._files.read(f"{MODELS}/{model}.md") if _MODEL.fullmatch(model) else None
        return (content or b"").decode("utf-8", "replace")

    def store_card(self, model: str, text: str) -> None:
        """Store the card of a model, unless it is stored already."""
        if text and self.card(model) != text:
            self._files.write(f"{MODELS}/{model}.md", text.encode())

    def data_set(self, data: str) -> dict[str, Any] | None:
        """Return the description of a data set."""
        return self._json(f"{data[:12]}/{DATA}")

    def store_data_set(self, data: str, content: Mapping[str, Any]) -> None:
        """Store the description of a data set, unless there is one."""
        if self.data_set(data) is None:
            self._write(f"{data[:12]}/{DATA}", content)

    def order(self, token: str) -> bytes | None:
        """Return an order for other machines."""
        return self._files.read(f"{ORDERS}/{token}.json")

    def store_order(self, token: str, content: bytes) -> None:
        """Store an order for other machines."""
        self._files.write(f"{ORDERS}/{token}.json", content)

    def uploaded(self, upload: str) -> bytes | None:
        """Return the list of files of a complete upload."""
        return self._files.read(f"{UPLOADS}/{upload}.json")

    def store_uploaded(self, upload: str, content: bytes) -> None:
        """Store the list of files of an upload, which completes it."""
        self._files.write(f"{UPLOADS}/{upload}.json", content)

    def upload(self, upload: str, name: str, path: Path) -> None:
        """Store a file of an upload."""
        self._files.upload(f"{UPLOADS}/{upload}/{name}", path)

    @contextmanager
    def downloaded(self, upload: str, name: str) -> Iterator[Path | None]:
        """Yield the path of a file of an upload; None if there is no such file."""
        with self._files.local(f"{UPLOADS}/{upload}/{name}") as path:
            yield path

    def remove_model(self, model: str) -> None:
        """Remove the description of a model, and its results and answers on every data set."""
        for key in self.keys():
            if key in (f"{MODELS}/{model}.json", f"{MODELS}/{model}.md") or key.split("/")[1:2] == [model]:
                self._files.remove(key)

    def keys(self) -> list[str]:
        """Return the names of all files, sorted."""
        return self._files.keys()

    def stamps(self) -> dict[str, str]:
        """Return what changes with the content of each JSON file, by its name; sorted."""
        return {key: stamp for key, stamp in sorted(self._files.stamps().items()) if key.endswith(".json")}

    def json_file(self, key: str) -> dict[str, Any] | None:
        """Return the content of a JSON file by its name."""
        return self._json(key)

    def _json(self, key: str) -> dict[str, Any] | None:
        content = self._files.read(key)
        if content is None:
            return None
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ArchiveCorrupt(f"{key} in {EVALUATIONS} is not JSON; remove it and evaluate again") from error
        if not isinstance(found, dict):
            raise ArchiveCorrupt(f"{key} in {EVALUATIONS} is not a JSON object; remove it and evaluate again")
        return found

    def _write(self, key: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
        self._files.write(key, (text + "\n").encode())


def open_evaluations(place: str, task: str) -> EvaluationStore:
    """Return the evaluations of a task next to its archives, in a folder or at s3://bucket/prefix."""
    return EvaluationStore(open_files(f"{place.rstrip('/')}/{task}/{EVALUATIONS}"))


def open_files(place: str) -> Files:
    """Return the files of a folder, or below s3://bucket/prefix."""
    return BucketFiles(place) if place.startswith(S3) else FolderFiles(Path(place).expanduser().resolve())


class FolderFiles:
    """Files below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, key: str) -> bytes | None:
        try:
            return (self._root / key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ArchiveError(f"cannot read {self._root / key}: {error.strerror}") from error

    def write(self, key: str, content: bytes) -> None:
        with self._draft(key) as draft:
            draft.write_bytes(content)

    def upload(self, key: str, path: Path) -> None:
        with self._draft(key) as draft:
            shutil.copyfile(path, draft)

    @contextmanager
    def local(self, key: str) -> Iterator[Path | None]:
        path = self._root / key
        yield path if path.is_file() else None

    def remove(self, key: str) -> None:
        try:
            (self._root / key).unlink(missing_ok=True)
        except OSError as error:
            raise ArchiveError(f"cannot remove {self._root / key}: {error.strerror}; check permissions") from error

    def keys(self) -> list[str]:
        found = (path for path in self._root.rglob("*") if path.is_file() and not path.name.startswith("."))
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    def stamps(self) -> dict[str, str]:
        found = {}
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):  # It was just replaced.
                    state = path.stat()
                    if not name.startswith("."):
                        stamp = f"{state.st_mtime_ns}-{state.st_size}-{state.st_ino}"
                        found[path.relative_to(self._root).as_posix()] = stamp
        return found

    @contextmanager
    def _draft(self, key: str) -> Iterator[Path]:
        target = self._root / key
        draft = target.with_name(f".{uuid.uuid4().hex}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            yield draft
            flush(draft)
            draft.replace(target)
            flush(target.parent)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ArchiveError(f"cannot write {target}: {reason}; check disk space and permissions") from error
        finally:
            draft.unlink(missing_ok=True)


class BucketFiles:
    """Files below a prefix of an S3 bucket."""

    def __init__(self, url: str) -> None:
        # boto3 takes a second to import.
        from ml_backend.registry.bucket import Bucket

        with bucket_errors():
            self._bucket = Bucket.open(url)

    def read(self, key: str) -> bytes | None:
        with bucket_errors():
            found = self._bucket.read(key, MOST_BYTES)
        return found[0] if found else None

    def write(self, key: str, content: bytes) -> None:
        with bucket_errors():
            self._bucket.write(key, content)

    def upload(self, key: str, path: Path) -> None:
        with bucket_errors():
            self._bucket.upload(key, path, file_sha256(path))

    @contextmanager
    def local(self, key: str) -> Iterator[Path | None]:
        with TemporaryDirectory(prefix="outfox-evaluation-") as folder:
            path = Path(folder) / "file"
            with bucket_errors():
                there = {one.key: one for one in self._bucket.below(key)}
                if key in there:
                    self._bucket.download(key, path, LARGEST_ANSWERS)
            yield path if path.is_file() else None

    def remove(self, key: str) -> None:
        with bucket_errors():
            self._bucket.remove(key)

    def keys(self) -> list[str]:
        with bucket_errors():
            return sorted(one.key for one in self._bucket.below(""))

    def stamps(self) -> dict[str, str]:
        with bucket_errors():
            return {one.key: one.etag for one in self._bucket.below("")}


# A download stops after this many bytes.
LARGEST_ANSWERS = 1 << 34


def data_folders(keys: list[str]) -> list[str]:
    """Return the data sets that the files belong to."""
    return list(dict.fromkeys(key.split("/")[0] for key in keys if _DATA.fullmatch(key.split("/")[0])))
