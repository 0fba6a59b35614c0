"""A store of each kind, and archives of completed rounds."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from round_manager.archive.storage import open_archives
from round_manager.database.store import Store
from tests.campaign import Campaign, start_closed
from tests.integration.databases import Databases

Freeze = Callable[..., Path]


@pytest.fixture
def campaign(store: Store) -> Campaign:
    """A closed round of the sentiment task."""
    return start_closed(store)


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, any_databases: Databases) -> Path:
    """Frozen rounds of three tasks, for tests that only read: two of sentiment, one of nli and of qa."""
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
