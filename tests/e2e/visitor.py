"""A person who works for the demo in a real Chromium: takes the quiz and writes examples."""

import re
import time
from collections.abc import Callable
from html import unescape
from typing import TypeVar

from playwright.sync_api import Error, Page, expect

from common.messages import gettext
from common.translation import translator
from plugin.simulation.sentences import write
from plugin.simulation.worker import SimulatedProfile
from templates import TaskSpec
from tests.e2e.plugin.web.work.hands import Mouse
from tests.e2e.plugin.web.work.hit_page import HitPage

# Long: other tests use the same cores, and there is no work between two rounds. What is there ends the wait.
SECONDS_TO_INSIST = 600
MILLISECONDS_TO_SUBMIT = 120_000
# Rarely, because the other processes need the same cores.
SECONDS_BETWEEN_LOOKS = 1.0
# A list of HITs that is not rendered costs little.
SECONDS_BETWEEN_LISTS = 0.2
T = TypeVar("T")


class Visitor:
    """One person, signed in on the marketplace with an invitation, who competes with a simulated crowd for HITs."""

    def __init__(
        self, page: Page, invitation: str, spec: TaskSpec, person: SimulatedProfile, language: str = "en"
    ) -> None:
        self._hands = Mouse(page)
        self._page = page
        self._site = "/".join(invitation.split("/")[:3])
        self._spec = spec
        self._person = person
        self._shown = translator(language)
        self._text = ""
        page.set_default_timeout(MILLISECONDS_TO_SUBMIT)
        page.goto(invitation)
        page.get_by_role("button", name=self._says("Start working")).click()
        expect(page.get_by_role("heading", name=self._says("Find work"))).to_be_visible()

    def take_quiz(self) -> None:
        """Answer every question of the quiz correctly, and submit it."""
        self._insist(self._take_quiz)

    def write(self) -> str:
        """Write until the model is fooled or the HIT may be submitted anyway; submit it and return the text."""
        return self._insist(self._write)

    def wait_for_work(self) -> None:
        """Wait until a HIT to write is offered."""
        self._find(self._spec.title)

    def is_offered_work(self) -> bool:
        """Return whether a HIT to write is offered now."""
        return self._is_offered(self._spec.title)

    def _take_quiz(self) -> None:
        hit = self._taken(f"Paid quiz: {self._spec.title}")
        if self._is_stored(hit):
            return
        assert self._spec.quiz is not None
        for number, question in enumerate(self._spec.quiz.questions):
            hit.inside.locator(f"input[name='question-{number}'][value='{question.answer}']").check()
        hit.submit()
        expect(hit.there("quiz-result")).to_have_attribute("data-passed", "true")
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
            expect(hit.there("tries-bar")).to_have_js_property("value", left)
            if hit.there("verdict").get_attribute("data-outcome") == "fooled":
                break
        hit.submit()
        self._expect_handed_in()
        return self._text

    def _insist(self, act: Callable[[], T]) -> T:
        """Repeat an action until no one else accepts its HIT first, and return its result."""
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
        held = self._page.get_by_role("link", name=self._says("Work on %(title)s", title=title), exact=True)
        if held.count():
            held.first.click()
            hit = HitPage(self._hands)
        else:
            self._find(title)
            self._page.goto(self._site)
            button = self._page.get_by_role("button", name=self._accept(title), exact=True)
            assert button.count(), "someone else accepted it"
            with self._page.expect_navigation(wait_until="commit"):
                button.click()
            assert "/work/" in self._page.url, "someone else accepted it"
            expect(self._page.get_by_role("timer").first).to_be_visible()
            hit = HitPage(self._hands)
        # Otherwise the marketplace assigns the next one immediately.
        self._page.locator("input[name='keep_going']").uncheck()
        return hit

    def _is_stored(self, hit: HitPage) -> bool:
        """Return whether the work was stored before; if so, submit it to the marketplace again."""
        expect(hit.body).to_have_attribute("data-state", re.compile("ready|submitted"))
        state = hit.body.get_attribute("data-state")
        if state == "ready":
            hit.wait_until_ready()
        if state == "submitted":
            self._hands.press(hit.there("submit-again"))
            self._expect_handed_in()
        return state == "submitted"

    def _find(self, title: str) -> None:
        deadline = time.monotonic() + SECONDS_TO_INSIST
        while not self._is_offered(title):
            assert time.monotonic() < deadline, f"no HIT was available: {title}"
            time.sleep(SECONDS_BETWEEN_LISTS)

    def _is_offered(self, title: str) -> bool:
        headers = {"Accept-Language": self._shown.language}
        answer = self._page.request.get(self._site, headers=headers, timeout=1_000 * SECONDS_TO_INSIST)
        return f'"{self._accept(title)}"' in unescape(answer.text())

    def _tries_left(self, hit: HitPage) -> int:
        return int(hit.there("tries-bar").evaluate("(bar) => bar.value"))

    def _expect_handed_in(self) -> None:
        """The marketplace says so, above whatever it shows next."""
        said = self._says("Submitted. That was the last one of its kind for you.")
        status = self._page.get_by_role("status").filter(has_text=said.split(".")[0])
        # A quiz that was submitted is not offered again, so it cannot be repeated.
        expect(status).to_be_visible(timeout=MILLISECONDS_TO_SUBMIT)

    def _accept(self, title: str) -> str:
        return self._says("Accept %(title)s", title=title)

    def _says(self, text: str, **params: object) -> str:
        """Return a message in the language of the pages."""
        return self._shown.text(gettext(text, **params))
