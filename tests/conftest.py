"""Fixtures for all tests: a pack to change, and the command to run."""

import gc
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import pytest
from flask import Flask
from hypothesis import settings
from jinja2.bccache import Bucket
from sqlalchemy import create_engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

# Before torch is imported, here and in the processes that tests start: small networks gain nothing from more threads,
# and the threads of several test processes would mostly wait for each other. A training sets their number itself; there
# they sleep while they wait, instead of using up the processor.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from plugin.cli import run
from plugin.hints import set_program
from templates import BUILT_IN, load_pack

# The same cases in every run: `make fuzz` is what draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

PACKS = ("nli", "qa", "sentiment", "hate_speech")
MEMORY = Path("/dev/shm")
FREE_FOR_FILES = 6 << 30


@dataclass(frozen=True)
class Ran:
    """One run of the command: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> dict[str, Any]:
        """The error that a command with --json printed."""
        return dict(json.loads(self.err.splitlines()[-1]))

    @property
    def failure(self) -> tuple[int, str]:
        """The exit code, and the code of the error that a command with --json printed."""
        return self.code, str(self.error["code"])


Outfox = Callable[..., Ran]


_in_memory = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory if there is enough of it: tests commit often, and would wait for the disk.

    Parallel test processes inherit the folder.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return
    disk = os.statvfs(MEMORY)
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    free = min(disk.f_bavail * disk.f_frsize, int(memory["MemAvailable"].split()[0]) * 1024)
    if free < FREE_FOR_FILES or disk.f_flag & os.ST_NOEXEC:
        return
    folder = config.stash[_in_memory] = Path(tempfile.mkdtemp(prefix="outfox-", dir=MEMORY))
    # PostgreSQL runs as another user, below this folder.
    folder.chmod(0o711)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove them all, also what servers left that tests killed."""
    if _in_memory in config.stash:
        shutil.rmtree(config.stash[_in_memory], ignore_errors=True)


def pytest_collection() -> None:
    """Turn garbage collection off while tests are collected: those objects stay until the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage of the tests only, and less often: it was a tenth of their processor time."""
    gc.freeze()
    gc.set_threshold(5_000, 20, 100)
    gc.enable()


class _CompiledTemplates(jinja2.BytecodeCache):
    """Keeps the bytecode of templates in memory."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        kept = self._kept.get((bucket.key, bucket.checksum))
        if kept is not None:
            bucket.bytecode_from_string(kept)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key, bucket.checksum] = bucket.bytecode_to_string()


@pytest.fixture(scope="session", autouse=True)
def _templates_compiled_once() -> Iterator[None]:
    """Share compiled templates between the apps of a test process: most tests start an app of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Flask, "jinja_options", {"bytecode_cache": _CompiledTemplates()})
        yield


@pytest.fixture(scope="session", autouse=True)
def _statements_compiled_once() -> Iterator[None]:
    """Share compiled statements between the engines of a test process: most tests open a database of their own.

    SQLAlchemy keeps them by dialect, and each engine has its own; here those of one kind are equal.
    """

    def key(dialect: DefaultDialect) -> tuple[Any, ...]:
        return type(dialect), getattr(dialect, "_json_serializer", None)

    def equal(dialect: DefaultDialect, other: object) -> bool:
        return dialect is other or (isinstance(other, DefaultDialect) and key(dialect) == key(other))

    kept: LRUCache[Any, Any] = LRUCache(10_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultDialect, "__eq__", equal)
        patch.setattr(DefaultDialect, "__hash__", lambda dialect: hash(type(dialect)))
        options = {"compiled_cache": kept}
        patch.setattr("common.database_engine.create_engine", partial(create_engine, execution_options=options))
        yield


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def outfox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Outfox]:
    """Run the outfox command in a temporary home."""
    monkeypatch.setenv("OUTFOX_HOME", str(tmp_path / "home"))
    # Parallel test processes inherit the width of the terminal.
    monkeypatch.delenv("COLUMNS", raising=False)

    def outfox(*arguments: object) -> Ran:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        return Ran(code, *capfd.readouterr())

    yield outfox
    # The last command's options stay in hints, which other tests read.
    set_program([])


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[str], Path]:
    """Copy a built-in pack to a folder that a test may change."""

    def copy_of(name: str) -> Path:
        return Path(shutil.copytree(BUILT_IN / name, tmp_path / "packs" / name))

    return copy_of


def replace_in(file: Path, old: str, new: str) -> None:
    """Replace a text in a file that must contain it."""
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{file.name} has no {old!r}"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def write_lists(folder: Path) -> None:
    """Write the lists that a pack's templates take from task.yaml into the templates, as other packs do."""
    pack = load_pack(folder)
    for name, xml in (("create.xml", pack.create_xml), ("validate.xml", pack.validate_xml)):
        (folder / name).write_text(xml, encoding="utf-8")
