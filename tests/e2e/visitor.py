"""A person who uses the demo in a real Chromium: takes the quiz, writes and validates."""

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from html import unescape
from typing import TypeVar

from playwright.sync_api import Error, Page, expect

from plugin.simulation.sentences import write
from plugin.simulation.worker import SimulatedProfile
from templates import TaskSpec
from tests.e2e.plugin.web.work.hands import Mouse
from tests.e2e.plugin.web.work.hit_page import HitPage, accept

SECONDS_TO_INSIST = 600
# Rarely, because the other processes need the same cores.
SECONDS_BETWEEN_LOOKS = 1.0
# A list of HITs that is not rendered costs little.
SECONDS_BETWEEN_LISTS = 0.2
Reading = Callable[[str], str]
Reach = Callable[[], AbstractContextManager[None]]
T = TypeVar("T")


class Visitor:
    """One person, signed in on the marketplace with an invitation, who repeats what an outage interrupts.

    `reading` returns the label that people read in a sentence; inside `reach`, no simulated worker accepts a HIT.
    """

    def __init__(
        self, page: Page, invitation: str, spec: TaskSpec, person: SimulatedProfile, reading: Reading, reach: Reach
    ) -> None:
        self._hands = Mouse(page)
        self._page = page
        self._site = "/".join(invitation.split("/")[:3])
        self._spec = spec
        self._person = person
        self._reading = reading
        self._reach = reach
        self._text = ""
        page.goto(invitation)
        page.get_by_role("button", name="Start working").click()
        expect(page.get_by_role("heading", name="Find work")).to_be_visible()

    def take_quiz(self) -> None:
        """Answer every question of the quiz correctly, and submit it."""
        self._insist(self._take_quiz)

    def write(self) -> str:
        """Write until the model is fooled or the HIT may be submitted anyway; submit it and return the text."""
        return self._insist(self._write)

    def check(self) -> int:
        """Judge every sentence on one page as it was meant, and submit the page; return the number of sentences.

        If a page has only their own sentences, return the HIT, as the page asks, and accept another.
        """
        return self._insist(self._check)

    def leave(self) -> None:
        """Close the window."""
        self._page.close()

    def _take_quiz(self) -> None:
        hit = self._taken(f"Paid quiz: {self._spec.title}")
        if self._is_stored(hit):
            return
        assert self._spec.quiz is not None
        for number, question in enumerate(self._spec.quiz.questions):
            hit.inside.locator(f"input[name='question-{number}'][value='{question.answer}']").check()
        hit.submit()
        expect(hit.there("quiz-result")).to_contain_text("Passed")
        hit.submit()
        self._expect_handed_in()

    def _write(self) -> str:
        hit = self._taken(self._spec.title)
        if self._is_stored(hit):
            return self._text
        shown, tries = hit.editor.inner_text(), self._tries_left(hit)
        goal = f"{hit.there('goal').text_content()} {shown}"
        (target,) = [one.name for one in self._spec.labels if f"reads as: {one.title}" in goal]
        for left in range(tries - 1, tries - 1 - self._spec.work.tries_before_skip, -1):
            self._text = write(shown, target, self._person.rng(target, left), skill=1.0).text
            hit.ask("text", self._text)
            expect(hit.there("tries")).to_contain_text(f"{left} of")
            if hit.there("verdict").get_attribute("data-outcome") == "fooled":
                break
        hit.submit()
        self._expect_handed_in()
        return self._text

    def _check(self) -> int:
        hit = self._taken(f"Check: {self._spec.title}")
        if self._is_stored(hit):
            return 1
        texts = max(1, hit.inside.locator("#items button").count())
        for number in range(1, texts + 1):
            if texts > 1:
                expect(hit.there("place")).to_have_text(f"Text {number} of {texts}")
            shown = hit.editor.locator(".lsf-htx-richtext").first.inner_text().strip()
            hit.choose(self._spec.label_title(self._reading(shown)))
            hit.submit()
        self._expect_handed_in()
        return texts

    def _insist(self, act: Callable[[], T]) -> T:
        """Repeat an action until it succeeds without an outage, and return its result."""
        deadline = time.monotonic() + SECONDS_TO_INSIST
        while True:
            try:
                return act()
            except (AssertionError, Error):
                if time.monotonic() > deadline:
                    raise
                time.sleep(SECONDS_BETWEEN_LOOKS)

    def _taken(self, title: str) -> HitPage:
        """Open a HIT of that title: one that they hold already, or else the first available one."""
        self._page.goto(f"{self._site}/queue")
        held = self._page.get_by_role("link", name=f"Work on {title}", exact=True)
        if held.count():
            held.first.click()
            hit = HitPage(self._hands)
        else:
            self._find(title)
            # A browser shows the list more slowly than simulated workers accept its HITs.
            with self._reach():
                self._page.goto(self._site)
                assert self._page.get_by_role("button", name=f"Accept {title}", exact=True).count(), "it was taken"
                hit = accept(self._hands, title)
        # Otherwise the marketplace assigns the next one immediately.
        self._page.locator("input[name='keep_going']").uncheck()
        return hit

    def _is_stored(self, hit: HitPage) -> bool:
        """Return whether the work was stored before the outage; if so, submit it to the marketplace again.

        A HIT with nothing for this person is returned.
        """
        expect(hit.body).to_have_attribute("data-state", re.compile("ready|submitted|error"))
        state = hit.body.get_attribute("data-state")
        if state == "error":
            self._give_back(hit)
            raise AssertionError("there was nothing to check for this person")
        if state == "ready":
            hit.wait_until_ready()
        if state == "submitted":
            self._hands.press(hit.there("submit-again"))
            self._expect_handed_in()
        return state == "submitted"

    def _find(self, title: str) -> None:
        deadline = time.monotonic() + SECONDS_TO_INSIST
        while f'"Accept {title}"' not in unescape(self._page.request.get(self._site).text()):
            assert time.monotonic() < deadline, f"no HIT was available: {title}"
            time.sleep(SECONDS_BETWEEN_LISTS)

    def _tries_left(self, hit: HitPage) -> int:
        expect(hit.there("tries")).to_contain_text(re.compile(r"\d+ of"))
        return int(hit.there("tries").inner_text().split(" of")[0].split()[-1])

    def _give_back(self, hit: HitPage) -> None:
        expect(hit.there("error-text")).to_contain_text("nothing to check for you")
        self._page.get_by_role("link", name="Return", exact=True).click()
        self._page.get_by_role("button", name="Return it").click()
        expect(self._page.get_by_text("Returned.")).to_be_visible()

    def _expect_handed_in(self) -> None:
        """The marketplace says so, above whatever it shows next."""
        expect(self._page.get_by_role("status").filter(has_text="Submitted.")).to_be_visible()
