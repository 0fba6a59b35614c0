"""A person with a real Chromium at the demo: takes the quiz, writes, and checks what others wrote."""

import re
import time

from playwright.sync_api import Page, expect

from plugin.simulation.notebook import Notebook
from plugin.simulation.people import Person
from plugin.simulation.writing import write
from templates import TaskSpec
from tests.e2e.running_demo import until
from tests.e2e.work.hands import Mouse
from tests.e2e.work.hit_page import HitPage, accept


class Visitor:
    """One person, signed in on the marketplace by the link that the demo printed."""

    def __init__(self, page: Page, invitation: str, spec: TaskSpec, notebook: Notebook, person: Person) -> None:
        self._hands = Mouse(page)
        self._page = page
        self._spec = spec
        self._notebook = notebook
        self._person = person
        page.goto(invitation)
        page.get_by_role("button", name="Start working").click()
        expect(page.get_by_role("heading", name="Find work")).to_be_visible()

    def take_quiz(self) -> None:
        """Answers everything right, and hands it in."""
        hit = self._accepted(f"Paid quiz: {self._spec.title}")
        hit.wait_until_ready()
        assert self._spec.quiz is not None
        for number, question in enumerate(self._spec.quiz.questions):
            hit.inside.locator(f"input[name='question-{number}'][value='{question.answer}']").check()
        hit.submit()
        expect(hit.there("quiz-result")).to_contain_text("Passed")
        hit.submit()
        self._expect_handed_in()

    def write(self) -> str:
        """Writes until the model is fooled or it may be handed in all the same, and hands it in; the text."""
        hit = self._accepted(self._spec.title)
        hit.wait_until_ready()
        shown = hit.editor.inner_text()
        (target,) = [one.name for one in self._spec.labels if f"reads as: {one.title}" in shown]
        text = ""
        for attempt in range(self._spec.work.tries_before_skip):
            draft = write(shown, target, self._person.rng(target, attempt), skill=1.0)
            text = draft.text
            self._notebook.note_text(text, draft.reading)
            hit.ask("text", text)
            expect(hit.there("tries")).to_contain_text(f"{self._spec.work.tries - attempt - 1} of")
            if hit.there("verdict").get_attribute("data-outcome") == "fooled":
                break
        hit.submit()
        self._expect_handed_in()
        return text

    def check(self, seconds: float) -> int:
        """Judges everything on one page as it was meant, and hands it in; how many sentences.

        None where nothing is offered in so many seconds, or only their own: then they give it back, as they are told.
        """
        title, deadline = f"Check: {self._spec.title}", time.monotonic() + seconds
        while not self._offered(title):
            if time.monotonic() > deadline:
                return 0
        hit = self._accepted(title)
        expect(hit.body).to_have_attribute("data-state", re.compile("ready|error"))
        if hit.body.get_attribute("data-state") == "error":
            self._give_back(hit)
            return 0
        texts = max(1, hit.inside.locator("#items button").count())
        for number in range(1, texts + 1):
            if texts > 1:
                expect(hit.there("place")).to_have_text(f"Text {number} of {texts}")
            shown = hit.editor.locator(".lsf-htx-richtext").first.inner_text().strip()
            hit.choose(self._spec.label_title(self._notebook.reading(shown)))
            hit.submit()
        self._expect_handed_in()
        return texts

    def _give_back(self, hit: HitPage) -> None:
        expect(hit.there("error-text")).to_contain_text("nothing to check for you")
        self._page.get_by_role("link", name="Return", exact=True).click()
        self._page.get_by_role("button", name="Return it").click()
        expect(self._page.get_by_text("Returned.")).to_be_visible()

    def _accepted(self, title: str) -> HitPage:
        until(lambda: self._offered(title))
        hit = accept(self._hands, title)
        # Or the marketplace would hand out the next one at once.
        self._page.locator("input[name='keep_going']").uncheck()
        return hit

    def _expect_handed_in(self) -> None:
        """The marketplace says so, above whatever it shows next."""
        expect(self._page.get_by_role("status").filter(has_text="Handed in.")).to_be_visible()

    def _offered(self, title: str) -> bool:
        self._page.goto("/".join(self._page.url.split("/")[:3]))
        return self._page.get_by_role("button", name=f"Accept {title}", exact=True).count() > 0
