"""A marketplace of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.marketplace_site.stage import Stage, open_stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with open_stage(f"sqlite:///{tmp_path / 'marketplace.db'}") as stage:
        yield stage
