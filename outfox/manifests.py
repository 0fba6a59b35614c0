"""The manifest of an archive as it is written: equal archives have equal manifests."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from outfox.table_files import FileEntry

FORMAT = 1
# The keys that older manifests do not have: they are left out where they say nothing.
_LATER = ("withheld", "origin", "suite")


@dataclass(frozen=True)
class RoundManifest:
    """The manifest of a round or of a test suite; times are ISO 8601 in UTC, and empty if they are not known."""

    task: str
    round: int
    kind: str
    opened_at: str
    validating_at: str
    closed_at: str
    spec_sha256: str
    # The task as it was when the round opened: fields, labels, validation policy, pay and splits.
    spec: Mapping[str, Any]
    # By rank: version and the SHA-256 of its files.
    models: list[dict[str, Any]]
    examples: Mapping[str, int]
    splits: Mapping[str, Any]
    # The versions of Outfox and of the library that wrote the Parquet files: others may write other bytes.
    written_by: Mapping[str, str]
    files: Mapping[str, FileEntry]
    format: int = FORMAT
    # Verified examples that are not in the archive because they serve as gold.
    withheld: int = 0
    # Where imported data is from: its form, source, licence, files with their hashes, and columns. None if the round
    # was collected.
    origin: Mapping[str, Any] | None = None
    # The name of a test suite, whose round is 0.
    suite: str = ""

    def written(self) -> bytes:
        """Return the content of the file; equal archives have equal manifests."""
        data = {name: value for name, value in asdict(self).items() if name not in _LATER or value}
        return (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @property
    def sha256(self) -> str:
        """The hash that identifies the whole archive."""
        return hashlib.sha256(self.written()).hexdigest()


def json_sha256(value: Any) -> str:
    """Return the hash of a JSON value, independent of the order of its keys."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
