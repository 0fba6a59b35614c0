"""The files of submitted models: received in pieces, unpacked and checked before anything opens them.

<folder>/<task>/<key>/model/                   the files of a model
<folder>/<task>/<key>/predictions.csv|parquet  or a file of predictions
<folder>/<task>/.incoming-…/                   what is being received; removed if its process was killed
"""

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from common.errors import Hint
from common.zip_files import EntryReader, EntryRefused, ZipLimits, check_path, read_zip
from ml_backend.errors import BackendError
from ml_backend.manifest import CARD
from ml_backend.manifest import FILE as VERSION
from ml_backend.targets.foreign import ForeignModel, inspect_folder
from round_manager.errors import SubmissionInvalid, SubmissionTooLarge
from templates import TaskSpec

MODEL, PREDICTIONS = "model", "predictions"
KINDS = {"zip": MODEL, "csv": PREDICTIONS, "parquet": PREDICTIONS}
MODEL_HINT = Hint("describe_submissions")
MOST_ENTRIES = 1_000
MOST_FOLDERS = 10
# They are read as a whole; tokenizers are not.
SETTINGS_FILES = ("config.json", "tokenizer_config.json", "model.safetensors.index.json")
MOST_SETTINGS_BYTES = 4_000_000
MOST_HEADER_BYTES = 16_000_000
PIECE = 1 << 20
LEFTOVER_SECONDS = 86_400
INCOMING = ".incoming-"
PARQUET = b"PAR1"

Read = Callable[[int], bytes]


@dataclass(frozen=True)
class Received:
    """A received file in a temporary folder, with its hash and size."""

    file: Path
    sha256: str
    size: int


class SubmittedFiles:
    """The folder of submitted models, which the web app and the processes that evaluate share."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def place(self, task: str, key: str) -> Path:
        """Return the folder of a submission."""
        return self._root / task / key

    @contextmanager
    def receive(self, task: str, form: str, read: Read, most_bytes: int) -> Iterator[Received]:
        """Write what `read` returns to a file; it is removed at the end of the block, unless it was kept."""
        parent = self._root / task
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(prefix=INCOMING, dir=parent))
        file, digest, size = folder / f"upload.{form}", hashlib.sha256(), 0
        try:
            with file.open("xb") as opened:
                while piece := read(PIECE):
                    size += len(piece)
                    if size > most_bytes:
                        raise too_large(most_bytes)
                    digest.update(piece)
                    opened.write(piece)
            if not size:
                raise SubmissionInvalid("the body is empty; send the file as the body", hint=MODEL_HINT)
            yield Received(file, digest.hexdigest(), size)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep(self, received: Received, task: str, key: str) -> None:
        """Give a checked submission its place."""
        # Other users of this machine do not get here; the process in the sandbox, which is one, gets it mounted.
        received.file.parent.chmod(0o755)
        received.file.parent.replace(self.place(task, key))

    def remove(self, task: str, key: str) -> None:
        """Remove the files of a submission; safe to repeat."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.place(task, key))

    def remove_leftovers(self, task: str) -> None:
        """Remove what was being received by processes that were killed."""
        for folder in (self._root / task).glob(f"{INCOMING}*"):
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > LEFTOVER_SECONDS:
                    shutil.rmtree(folder)


def too_large(most_bytes: int) -> SubmissionTooLarge:
    """Return the error of a submission that is larger than allowed."""
    return SubmissionTooLarge(f"a submission may have {most_bytes:,} bytes; save the model in half precision")


def unpack_model(
    received: Received, spec: TaskSpec, labels: Mapping[str, str], most_bytes: int, *, keep_card: bool
) -> Received:
    """Replace the zip of a model with its files, check them without opening the model, and return their size too.

    The card of a model is published with its figures, and often names its authors.
    """
    folder = received.file.parent / MODEL
    limits = ZipLimits(MOST_ENTRIES, most_bytes, most_bytes)
    folder.mkdir()
    try:
        with received.file.open("rb") as opened:
            _unpack(read_zip(opened, "the zip", limits), folder)
    except EntryRefused as error:
        if error.code == "zip_too_large":
            raise too_large(most_bytes) from error
        text = f"{_name(error.name)} {error.text}"
        raise SubmissionInvalid(f"{text}; send a zip of the model's folder", hint=MODEL_HINT) from error
    _flatten(folder)
    try:
        if not keep_card:
            (folder / CARD).unlink(missing_ok=True)
        check_model(folder, spec, labels)
    except IsADirectoryError as error:
        raise SubmissionInvalid("a folder has the name of one of the model's files", hint=MODEL_HINT) from error
    received.file.unlink()
    return replace(received, size=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))


def check_model(folder: Path, spec: TaskSpec, given: Mapping[str, str]) -> tuple[ForeignModel, tuple[str, ...]]:
    """Return the checked model of a folder, and the task's label for each of its outputs.

    Raises:
        ModelError: A file is not safe or incomplete, or the labels do not fit.
        SubmissionInvalid: It is no model that can be submitted.
    """
    if (folder / VERSION).is_file():
        text = f"{VERSION} belongs to versions that Outfox has trained; their owner evaluates them"
        raise SubmissionInvalid(text, hint=MODEL_HINT)
    for name in SETTINGS_FILES:
        if (folder / name).is_file() and (folder / name).stat().st_size > MOST_SETTINGS_BYTES:
            raise SubmissionInvalid(f"{name} is larger than {MOST_SETTINGS_BYTES:,} bytes", hint=MODEL_HINT)
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            if int.from_bytes(file.read(8), "little") > MOST_HEADER_BYTES:
                raise SubmissionInvalid(f"{path.name} has a header that is too large", hint=MODEL_HINT)
    with _without_path(folder):
        model = inspect_folder(folder)
        is_qa = spec.kind != "classification"
        return model, () if is_qa else model.mapping(spec.label_names, given or None).confirmed()


def name_predictions(received: Received, form: str) -> Received:
    """Check the start of a file of predictions, and give it its name; its rows are checked in the sandbox."""
    with received.file.open("rb") as file:
        start = file.read(len(PARQUET))
    if (start == PARQUET) != (form == "parquet") or b"\0" in start:
        raise SubmissionInvalid(f"the body is not a {form} file; check the content type", hint=MODEL_HINT)
    place = received.file.with_name(f"{PREDICTIONS}.{form}")
    received.file.rename(place)
    place.chmod(0o644)
    return replace(received, file=place)


def _unpack(entries: Iterator[tuple[object, EntryReader]], folder: Path) -> None:
    known: list[str] = []
    for _, reader in entries:
        check_path(reader.name, known)
        known.append(reader.name)
        if len(PurePosixPath(reader.name).parts) > MOST_FOLDERS:
            raise EntryRefused(reader.name, "path_not_allowed", f"is in more than {MOST_FOLDERS - 1} folders")
        path = folder / PurePosixPath(reader.name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                for piece in reader.pieces():
                    file.write(piece)
        except (FileExistsError, NotADirectoryError) as error:
            raise EntryRefused(reader.name, "file_duplicate", "is a file and a folder") from error
        except OSError as error:
            # No space, or a name that is too long.
            raise EntryRefused(reader.name, "path_not_allowed", f"cannot be written: {error.strerror}") from error
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _flatten(folder: Path) -> None:
    """Move the files up if the zip has one folder with everything in it."""
    inside = list(folder.iterdir())
    if len(inside) == 1 and inside[0].is_dir():
        lifted = folder.with_name(f"{MODEL}-inside")
        inside[0].rename(lifted)
        folder.rmdir()
        lifted.rename(folder)


@contextmanager
def _without_path(folder: Path) -> Iterator[None]:
    """Leave this machine's paths out of the errors that a researcher reads."""
    try:
        yield
    except BackendError as error:
        text = str(error).replace(f"{folder}/", "").replace(str(folder), "the model")
        raise type(error)(text, hint=error.hint) from error


def _name(name: str) -> str:
    return json.dumps(name[:100], ensure_ascii=True)[1:-1]
