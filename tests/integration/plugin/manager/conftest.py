"""A company on both databases."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import Store
from tests.integration.plugin.manager.company import Company, found_company

Found = Callable[..., Company]


@pytest.fixture
def company(store: Store, tmp_path: Path) -> Company:
    """A small round 1, open, with eight qualified workers."""
    made = found_company(store, tmp_path)
    made.hire()
    return made


@pytest.fixture
def small(any_store: Store, tmp_path: Path) -> Found:
    """A company for what hangs on no database: `small(rounds={"target_fooling": 1})`."""

    def small(*, people: bool = True, **terms: dict[str, Any]) -> Company:
        made = found_company(any_store, tmp_path, **terms)
        if people:
            made.hire()
        return made

    return small
