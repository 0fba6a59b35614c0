"""What every test in a browser asks for, in one place: two of these in one process would get in each other's way."""

from tests.e2e.browser import browser, page, screenshot

__all__ = ["browser", "page", "screenshot"]
