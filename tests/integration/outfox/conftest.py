"""Frozen rounds for the client's tests: in a folder, and on a running server."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import outfox.server
from round_manager.archive.storage import open_archives
from tests.campaign import start_closed
from tests.integration.databases import Databases
from tests.integration.plugin.web.served import Served, serving_rounds

HERE = Path(__file__).parent


# First: pytest-xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one process of a parallel run, so that the archives are made once."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("outfox"))


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, any_databases: Databases) -> Path:
    """Frozen rounds of three tasks, for tests that only read: two of sentiment, one each of nli and qa."""
    root = tmp_path_factory.mktemp("archives")
    for name in ("sentiment", "nli", "qa"):
        with any_databases.opened() as own:
            round = start_closed(own, name)
            round.freeze(open_archives(str(root)))
            if name == "sentiment":
                round.next_closed_round().freeze(open_archives(str(root)))
    return root


@pytest.fixture
def archive(archives: Path, tmp_path: Path) -> Path:
    """A copy of a frozen round, for tests that damage it."""
    return Path(shutil.copytree(archives / "sentiment" / "round-1", tmp_path / "copy"))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, any_databases: Databases) -> Iterator[Served]:
    """A running `outfox serve` with two frozen rounds of sentiment."""
    with serving_rounds(tmp_path_factory.mktemp("served"), any_databases.migrated(), {}) as found:
        yield found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; retries do not wait."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(outfox.server, "BACKOFF", (0.0, 0.0))
    return tmp_path / "outfox"
