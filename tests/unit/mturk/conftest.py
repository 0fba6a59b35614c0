"""A marketplace with scripted answers."""

from collections.abc import Iterator

import pytest

from tests.unit.mturk.scripted import Scripted, scripted


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[Scripted]:
    """One for all tests."""
    with scripted() as script:
        yield script


@pytest.fixture
def market(scripted_server: Scripted) -> Scripted:
    """It knows nothing of the tests before."""
    scripted_server.forget()
    return scripted_server
