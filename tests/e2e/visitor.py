"""A person with a real Chromium at the demo: takes the quiz, writes, and checks what others wrote."""

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
# As patient as a person: the other processes need the same cores.
SECONDS_BETWEEN_LOOKS = 1.0
# A list of HITs without a picture of it costs next to nothing.
SECONDS_BETWEEN_LISTS = 0.2
Reading = Callable[[str], str]
Reach = Callable[[], AbstractContextManager[None]]
T = TypeVar("T")


class Visitor:
    """One person, signed in on the marketplace by an invitation; what goes away in the middle they do again.

    `reading` is what people read in a sentence; while they `reach` for a HIT nobody else of the crowd takes it.
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
        """Answers everything right, and hands it in."""
        self._insist(self._take_quiz)

    def write(self) -> str:
        """Writes until the model is fooled or it may be handed in all the same, and hands it in; the text."""
        return self._insist(self._write)

    def check(self) -> int:
        """Judges everything on one page as it was meant, and hands it in; how many sentences.

        Where a page has only their own on it, they give it back, as they are told, and take another.
        """
        return self._insist(self._check)

    def leave(self) -> None:
        """Closes the window."""
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
        (target,) = [one.name for one in self._spec.labels if f"reads as: {one.title}" in shown]
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
        """What came of it, once it was done without the site going away in the middle."""
        deadline = time.monotonic() + SECONDS_TO_INSIST
        while True:
            try:
                return act()
            except (AssertionError, Error):
                if time.monotonic() > deadline:
                    raise
                time.sleep(SECONDS_BETWEEN_LOOKS)

    def _taken(self, title: str) -> HitPage:
        """A HIT of that title: one that is in their hands already, or else the first that is offered."""
        self._page.goto(f"{self._site}/queue")
        held = self._page.get_by_role("link", name=f"Work on {title}", exact=True)
        if held.count():
            held.first.click()
            hit = HitPage(self._hands)
        else:
            self._find(title)
            # A browser takes longer to show the list than programs to empty it.
            with self._reach():
                self._page.goto(self._site)
                assert self._page.get_by_role("button", name=f"Accept {title}", exact=True).count(), "it was taken"
                hit = accept(self._hands, title)
        # Or the marketplace would hand out the next one at once.
        self._page.locator("input[name='keep_going']").uncheck()
        return hit

    def _is_stored(self, hit: HitPage) -> bool:
        """Whether everything was done before the site went away; the marketplace is then told again.

        What is not for this person is given back.
        """
        expect(hit.body).to_have_attribute("data-state", re.compile("ready|submitted|error"))
        state = hit.body.get_attribute("data-state")
        if state == "error":
            self._give_back(hit)
            raise AssertionError("there was nothing to check for this person")
        if state == "submitted":
            self._hands.press(hit.there("submit-again"))
            self._expect_handed_in()
        return state == "submitted"

    def _find(self, title: str) -> None:
        deadline = time.monotonic() + SECONDS_TO_INSIST
        while f'"Accept {title}"' not in unescape(self._page.request.get(self._site).text()):
            assert time.monotonic() < deadline, f"nobody offered: {title}"
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
