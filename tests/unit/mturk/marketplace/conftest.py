"""A market in a file for each test, with time standing still."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.market import StillWorld, open_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StillWorld]:
    with open_world(f"sqlite:///{tmp_path / 'marketplace.db'}", deposit_cents=100_000) as world:
        yield world
