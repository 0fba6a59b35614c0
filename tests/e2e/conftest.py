"""Fixtures of all end-to-end tests, in one place because a process can have only one of each."""

from pathlib import Path

import pytest

from tests.e2e.browser import browser, everyday_browser, page, screenshot
from tests.e2e.first_start import first_start
from tests.e2e.taught import teach

__all__ = ["browser", "everyday_browser", "first_start", "page", "screenshot", "teach"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run Label Studio's tests in one process of a parallel run, and the tests of people's pages in another.

    Their servers, browsers and models then start only once.
    """
    for item in items:
        if item.path.is_relative_to(HERE / "plugin" / "labelstudio"):
            item.add_marker(pytest.mark.xdist_group("labelstudio"))
        elif item.path.is_relative_to(HERE) and not item.path.is_relative_to(HERE / "deploy"):
            item.add_marker(pytest.mark.xdist_group("people"))
