"""Where a base model is: embedded, in a local directory or on the hub; only ever a folder that was checked."""

import re
from dataclasses import dataclass
from pathlib import Path

from ml_backend.embedded import WEIGHTS_SHA256, embedded_encoder
from ml_backend.errors import ModelError
from ml_backend.hashing import file_sha256, json_sha256
from ml_backend.model_files import check_model_folder, check_parts

EMBEDDED = "embedded"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# A hub repository may hold many formats; only these are fetched, and only from its top folder.
_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]


@dataclass(frozen=True)
class Checkpoint:
    """A model's folder that is safe to open, what people call it, and the hash of its weights."""

    name: str
    directory: Path
    sha256: str


def named_directory(base: str) -> Path | None:
    """The directory that `model.base` means, there or not; None where it means the embedded model or one of the hub."""
    path = Path(base).expanduser()
    if base == EMBEDDED or not (path.is_dir() or path.is_absolute() or not _HUB_ID.fullmatch(base)):
        return None
    return path


def open_checkpoint(base: str) -> Checkpoint:
    """The checkpoint that `model.base` of a task names."""
    if base == EMBEDDED:
        directory = embedded_encoder()
        check_parts(directory)
        return Checkpoint(EMBEDDED, directory, WEIGHTS_SHA256)
    path = named_directory(base)
    if path is not None:
        # The name alone: a model card goes around, and says nothing about the machine that it was made on.
        return Checkpoint(path.resolve().name, path, _weights_sha256(check_model_folder(path)))
    path = _fetched(base)
    return Checkpoint(base, path, _weights_sha256(check_parts(path)))


def _weights_sha256(files: tuple[Path, ...]) -> str:
    hashes = [file_sha256(path) for path in files]
    return hashes[0] if len(hashes) == 1 else json_sha256(hashes)


def _fetched(hub_id: str) -> Path:
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    advice = "give a local directory, or `embedded`"
    try:
        return Path(snapshot_download(hub_id, allow_patterns=_HUB_FILES, ignore_patterns=["*/*"]))
    except GatedRepoError as error:
        raise ModelError(f"the hub gives {hub_id} only to people that it knows; {advice}") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelError(f"there is no directory and no hub model `{hub_id}`; {advice}") from error
    except (HTTPError, OSError) as error:
        raise ModelError(f"cannot reach the hub for `{hub_id}`, and it is not cached here; {advice}") from error
