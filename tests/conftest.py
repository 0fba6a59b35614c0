"""What every test may ask for: a pack to change, and the command to run on it."""

import gc
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

# Before torch is imported, here and in the processes that tests start: networks so small gain nothing by more threads,
# and those of several test processes spend most of their time on waiting for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from plugin.cli import run
from templates import BUILT_IN

PACKS = ("nli", "qa", "sentiment", "hate_speech")


@dataclass(frozen=True)
class Ran:
    """One run of the command: its exit code and what it printed."""

    code: int
    out: str
    err: str


Outfox = Callable[..., Ran]


def pytest_collection() -> None:
    """Look for no rubbish meanwhile: what is imported and collected, a million objects, stays to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Look for rubbish among what the tests make, and not among what was there before them."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def outfox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Outfox:
    """Runs the outfox command in a home of its own."""
    monkeypatch.setenv("OUTFOX_HOME", str(tmp_path / "home"))
    # Processes of a parallel run are told the width of the terminal that it was started in.
    monkeypatch.delenv("COLUMNS", raising=False)

    def outfox(*arguments: object) -> Ran:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        return Ran(code, *capfd.readouterr())

    return outfox


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a built-in pack to a folder that a test may spoil."""

    def copy_of(name: str) -> Path:
        return Path(shutil.copytree(BUILT_IN / name, tmp_path / "packs" / name))

    return copy_of


def replace_in(file: Path, old: str, new: str) -> None:
    """Changes a file that must hold the old text."""
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{file.name} has no {old!r}"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
