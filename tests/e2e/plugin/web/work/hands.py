"""Two ways to use a page: with a mouse, or only with the keyboard."""

from typing import Protocol

import pytest
from playwright.sync_api import Locator, Page, expect

MOST_TABS = 80
HAS_FOCUS = "(element) => element === document.activeElement && document.hasFocus()"
# Input by mouse, finger or pen begins with this event; keyboard input never has it.
NO_MOUSE = "addEventListener('pointerdown', () => { throw new Error('a mouse was used'); }, true)"


class Hands(Protocol):
    """A way to use the controls of a page."""

    page: Page

    def press(self, goal: Locator) -> None:
        """Use a button, a link or a choice."""
        ...

    def write(self, goal: Locator, text: str) -> None:
        """Replace the text in a box, which keeps the focus."""
        ...


class Mouse:
    """Uses the mouse."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, goal: Locator) -> None:
        goal.click()

    def write(self, goal: Locator, text: str) -> None:
        goal.click()
        goal.fill(text)


class Keyboard:
    """Reaches every control with the Tab key; any mouse event is an error in the page."""

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
