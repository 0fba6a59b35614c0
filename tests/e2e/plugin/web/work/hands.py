"""Two ways to use a page: with a mouse, or with the keyboard alone."""

from typing import Protocol

import pytest
from playwright.sync_api import Locator, Page, expect

MOST_TABS = 80
HAS_FOCUS = "(element) => element === document.activeElement && document.hasFocus()"
# Whatever is pressed with a mouse, a finger or a pen begins with this; what keys do never has it.
NO_MOUSE = "addEventListener('pointerdown', () => { throw new Error('a mouse was used'); }, true)"


class Hands(Protocol):
    """What people do to controls."""

    page: Page

    def press(self, goal: Locator) -> None:
        """A button or a link is used, or a choice made."""
        ...

    def write(self, goal: Locator, text: str) -> None:
        """The text stands in the box in place of what was there; the box keeps the focus."""
        ...


class Mouse:
    """Clicks."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, goal: Locator) -> None:
        goal.click()

    def write(self, goal: Locator, text: str) -> None:
        goal.click()
        goal.fill(text)


class Keyboard:
    """Reaches everything with the Tab key; a mouse that is used nevertheless is an error in the page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.add_init_script(NO_MOUSE)

    def press(self, goal: Locator) -> None:
        self._reach(goal)
        is_choice = goal.evaluate("(element) => ['radio', 'checkbox'].includes(element.type)")
        self.page.keyboard.press("Space" if is_choice else "Enter")

    def write(self, goal: Locator, text: str) -> None:
        self._reach(goal)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def _reach(self, goal: Locator) -> None:
        expect(goal).to_be_attached()
        for _ in range(MOST_TABS):
            if goal.evaluate(HAS_FOCUS):
                return
            self.page.keyboard.press("Tab")
        pytest.fail(f"the keyboard does not reach {goal}")
