"""An office for workers, on both databases: the sentiment task, or another on other terms, behind the web app."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import Store
from tests.integration.plugin.web.work.office import Office
from tests.integration.round_manager.work.floor import lay_floor

OpenOffice = Callable[..., Office]


@pytest.fixture
def open_office(store: Store, tmp_path: Path) -> Iterator[OpenOffice]:
    """An office with other terms: `open_office("qa", work={"tries": 2})`."""
    offices: list[Office] = []

    def open_office(name: str = "sentiment", *, contexts: int = 8, **terms: dict[str, Any]) -> Office:
        offices.append(Office(lay_floor(store, name, contexts=contexts, **terms), tmp_path / "home"))
        return offices[-1]

    yield open_office
    for one in offices:
        one.close()


@pytest.fixture
def office(open_office: OpenOffice) -> Office:
    return open_office()
