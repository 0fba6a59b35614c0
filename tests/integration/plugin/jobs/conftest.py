"""One Ray cluster for all tests of jobs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ray_cluster import RayCluster

HERE = Path(__file__).parent


# First: pytest-xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that use the cluster in one process of a parallel run, so that it is started once."""
    for item in items:
        if item.path.is_relative_to(HERE) and {"cluster", "jobs"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """A cluster of one node with two processors."""
    made = RayCluster(cpus=2)
    try:
        made.start()
        yield made
    finally:
        made.stop()
