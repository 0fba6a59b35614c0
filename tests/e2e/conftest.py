"""Fixtures of all end-to-end tests, in one place because a process can have only one of each."""

from pathlib import Path

import pytest

from tests.e2e.browser import browser, everyday_browser, page, screenshot
from tests.e2e.first_start import first_start
from tests.e2e.taught import teach

__all__ = ["browser", "everyday_browser", "first_start", "page", "screenshot", "teach"]

HERE = Path(__file__).parent
# Tests of one folder share servers, browsers and models, which then start only once in a parallel run.
SHARING = ("plugin/demo", "plugin/labelstudio", "plugin/web/pages", "plugin/web/work", "mturk/marketplace")


# First: pytest-xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a folder that shares servers in one process of a parallel run."""
    for item in items:
        for folder in SHARING:
            if item.path.is_relative_to(HERE / folder):
                item.add_marker(pytest.mark.xdist_group(folder))
