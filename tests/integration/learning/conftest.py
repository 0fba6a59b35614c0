"""A school on each kind of database."""

from pathlib import Path

import pytest

from round_manager.database.store import Store
from templates import Pack
from tests.integration.learning.school import School, found_school, small_pack, teach


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """A small pack, as many held-out rows of each label."""
    return small_pack(tmp_path_factory.mktemp("packs"))


@pytest.fixture
def school(store: Store, pack: Pack, tmp_path: Path) -> School:
    """The task, with no round yet."""
    return found_school(store, pack, tmp_path / "models")


@pytest.fixture
def any_school(any_store: Store, pack: Pack, tmp_path: Path) -> School:
    """The same for what hangs on no database."""
    return found_school(any_store, pack, tmp_path / "models")


@pytest.fixture
def taught(any_school: School) -> School:
    """A task against which `positive` answers, with one round that fooled it with negative rows."""
    return teach(any_school)
