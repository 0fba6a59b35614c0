"""The record of evaluations in an archive's folder: figures of models on the round's held-out rows, and a model card.

An archive never changes, but evaluations of its rows go on for years: the version that learns from a round is measured
after the round was frozen. So they are in a file of their own, `evaluations.json`, next to the archive's tables and
outside its manifest. It carries its own SHA-256 and that of the archive it belongs to, and is always written whole.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from outfox.errors import DataCorrupt

NAME = "evaluations.json"
FORMAT = 1
MOST_BYTES = 1 << 26
FIELDS = ("model", "model_id", "data", "slice", "axis", "metric", "n", "value", "low", "high")
_TEXTS, _NUMBERS = FIELDS[:6], FIELDS[6:8]

Row = dict[str, Any]


def written_record(
    archive: Mapping[str, Any], sha256: str, rows: Iterable[Mapping[str, Any]], card: Mapping[str, str]
) -> bytes:
    """Return the file of an archive with this manifest and hash; `card` is the version and text of a model card."""
    content = {
        "format": FORMAT,
        "task": archive["task"],
        "round": archive["round"],
        "archive_sha256": sha256,
        "model_card": dict(card),
        "results": sorted(({name: row.get(name) for name in FIELDS} for row in rows), key=_order),
    }
    text = json.dumps({**content, "sha256": _sha256(content)}, indent=1, sort_keys=True, ensure_ascii=False)
    return f"{text}\n".encode()


def read_record(content: bytes, where: str, archive_sha256: str, remedy: str) -> dict[str, Any]:
    """Return a record; raise DataCorrupt if it was changed, or belongs to another archive."""
    try:
        record = json.loads(content)
        known = record["format"] == FORMAT
        stated = record.pop("sha256")
        valid = all(map(_is_row, record["results"])) and all(
            isinstance(one, str) for one in record["model_card"].values()
        )
        unchanged = _sha256(record) == stated
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataCorrupt(f"{where} is not a record of evaluations; {remedy}") from error
    if not known:
        raise DataCorrupt(f"{where} has a format that this version of outfox does not know; install a newer one")
    if not (valid and unchanged):
        raise DataCorrupt(f"{where} was changed (its SHA-256 differs); {remedy}")
    if record["archive_sha256"] != archive_sha256:
        raise DataCorrupt(f"{where} belongs to another archive; {remedy}")
    found: dict[str, Any] = record
    return found


def _is_row(row: Mapping[str, Any]) -> bool:
    texts = all(isinstance(row[name], str) for name in _TEXTS)
    numbers = all(type(row[name]) in (int, float) for name in _NUMBERS)
    return texts and numbers and all(type(row[name]) in (int, float, type(None)) for name in ("low", "high"))


def _order(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("axis", "model_id", "slice", "metric"))


def _sha256(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def headlines(record: Mapping[str, Any]) -> list[Row]:
    """Return the accuracy or F1 of each model on all rows."""
    wanted = {"axis": "performance", "slice": ""}
    return [
        {name: row[name] for name in ("model", "metric", "n", "value", "low", "high")}
        for row in record["results"]
        if row["metric"] in ("accuracy", "f1") and wanted.items() <= row.items()
    ]
