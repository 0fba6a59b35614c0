"""What every end-to-end test may ask for, in one place: two of these in one process would get in each other's way."""

from pathlib import Path

import pytest

from tests.e2e.browser import browser, everyday_browser, page, screenshot
from tests.e2e.first_start import first_start
from tests.e2e.taught import teach

__all__ = ["browser", "everyday_browser", "first_start", "page", "screenshot", "teach"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Wait for Label Studio in one process of a parallel run and for people's pages in another.

    Their servers, browsers and models are started once; and whatever waits for nobody has the processors meanwhile.
    """
    for item in items:
        if item.path.is_relative_to(HERE / "labelstudio"):
            item.add_marker(pytest.mark.xdist_group("labelstudio"))
        elif item.path.is_relative_to(HERE) and not item.path.is_relative_to(HERE / "deploy"):
            item.add_marker(pytest.mark.xdist_group("people"))
