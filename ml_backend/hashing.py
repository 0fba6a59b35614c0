"""SHA-256 of files and of data, the way that manifests write it."""

import hashlib
import json
from pathlib import Path
from typing import Any


def file_sha256(path: Path) -> str:
    """The hash of a file's bytes, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(value: Any) -> str:
    """The one way to write a value down: sorted keys, no spaces, plain ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def json_sha256(value: Any) -> str:
    """The hash of a value, however its keys were ordered."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()
