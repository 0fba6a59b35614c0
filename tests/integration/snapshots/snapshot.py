"""Stored snapshots: compare a value with the one that was stored, or store it anew.

Run the tests with OUTFOX_UPDATE_SNAPSHOTS=1 to rewrite the stored files, and review the difference before committing.
"""

import json
import os
from pathlib import Path
from typing import Any

STORED = Path(__file__).parent / "stored"
# Outfox refuses environment settings that it does not know, so the switch is removed as soon as it was read.
UPDATE = bool(os.environ.pop("OUTFOX_UPDATE_SNAPSHOTS", ""))


def stored(name: str) -> Any:
    """Return what a snapshot file holds."""
    return json.loads((STORED / name).read_text(encoding="utf-8"))


def store(name: str, value: Any) -> None:
    """Write a snapshot file."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
    (STORED / name).write_text(text + "\n", encoding="utf-8")


def compare(name: str, value: Any) -> None:
    """Check that a value equals its snapshot; with the update switch, store it instead."""
    if UPDATE:
        store(name, value)
    assert_same(json.loads(json.dumps(value)), stored(name), name)


def compare_names(name: str, value: Any) -> None:
    """Check that everything in the snapshot is still there; additions are allowed."""
    if UPDATE:
        store(name, value)
    lost = [*_lost(json.loads(json.dumps(value)), stored(name), "")]
    assert not lost, f"{name}: these are gone or changed: {lost}"


def assert_same(value: Any, expected: Any, name: str) -> None:
    """Check that two JSON values are equal, and name the places where they differ."""
    differs = [*_differences(value, expected, "")]
    assert not differs, f"{name} differs from its snapshot:\n" + "\n".join(differs[:40])


def _differences(value: Any, expected: Any, path: str) -> Any:
    if isinstance(value, dict) and isinstance(expected, dict):
        for key in sorted(value.keys() | expected.keys()):
            if key not in value:
                yield f"{path}/{key}: is gone, was {_short(expected[key])}"
            elif key not in expected:
                yield f"{path}/{key}: is new, {_short(value[key])}"
            else:
                yield from _differences(value[key], expected[key], f"{path}/{key}")
    elif isinstance(value, list) and isinstance(expected, list) and len(value) == len(expected):
        for place, (one, other) in enumerate(zip(value, expected, strict=True)):
            yield from _differences(one, other, f"{path}/{place}")
    elif value != expected:
        yield f"{path}: is {_short(value)}, was {_short(expected)}"


def _lost(value: Any, expected: Any, path: str) -> Any:
    if isinstance(expected, dict) and isinstance(value, dict):
        for key, one in expected.items():
            if key not in value:
                yield f"{path}/{key}"
            else:
                yield from _lost(value[key], one, f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(value, list):
        yield from (f"{path}/{one}" for one in expected if one not in value)
    elif value != expected:
        yield f"{path}: is {_short(value)}, was {_short(expected)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
