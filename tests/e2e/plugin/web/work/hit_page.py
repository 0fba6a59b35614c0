"""The page of a HIT in the marketplace's frame, as its worker uses it."""

import re
from pathlib import Path

from playwright.sync_api import Frame, FrameLocator, Locator, Page, expect

from mturk.marketplace.tables.people import Worker
from tests.e2e.browser import SCREENSHOTS
from tests.e2e.plugin.web.work.hands import Hands
from tests.e2e.plugin.web.work.stage import WorkStage

# Where a text begins and ends, once it is in the middle of the window and the page has settled.
PLACES = """async (passage, text) => {
    const range = document.createRange();
    const at = (from) => {
        const walker = document.createTreeWalker(passage, NodeFilter.SHOW_TEXT);
        while (walker.nextNode() && !walker.currentNode.data.includes(text));
        const node = walker.currentNode, place = node.data.indexOf(text) + from;
        range.setStart(node, place);
        range.setEnd(node, place + 1);
        return range.getBoundingClientRect();
    };
    const measured = () => {
        const first = at(0), last = at(text.length - 1);
        return [first.left + 1, (first.top + first.bottom) / 2, last.right - 1, (last.top + last.bottom) / 2];
    };
    const frame = () => new Promise((drawn) => requestAnimationFrame(drawn));
    let before = "";
    for (let frames = 0; frames < 200; frames += 1) {
        const off = at(0).top - innerHeight / 2;
        if (Math.abs(off) > innerHeight / 4) scrollBy({top: off, behavior: "instant"});
        await frame();
        await frame();
        if (before === String(measured())) return measured();
        before = String(measured());
    }
    throw new Error("the page does not come to rest");
}"""


class HitPage:
    """The page in the frame, and what a worker can do on it."""

    def __init__(self, hands: Hands) -> None:
        self.page: Page = hands.page
        self.hands = hands
        self.inside: FrameLocator = self.page.frame_locator("iframe")
        self._address = ""

    @property
    def body(self) -> Locator:
        return self.inside.locator("body")

    @property
    def editor(self) -> Locator:
        return self.inside.locator("#editor")

    @property
    def frame(self) -> Frame:
        """Return the frame itself, for queries about the document."""
        found = self.page.locator("iframe").element_handle().content_frame()
        assert found is not None
        return found

    def there(self, name: str) -> Locator:
        """Return the element with that id."""
        return self.inside.locator(f"#{name}")

    def wait_until_ready(self) -> None:
        """Wait until the page is ready for work, and close the instructions, which open once."""
        expect(self.body).to_have_attribute("data-state", "ready")
        if self.there("instructions").get_attribute("open") is not None:
            self.hands.press(self.there("instructions-close"))

    def box(self, field: str) -> Locator:
        """Return the text box of a field: its first one, or the one that Label Studio shows after a text was added."""
        return self.editor.locator(f"textarea[name='{field}'], textarea[name^='{field}:']").first

    def write(self, field: str, text: str) -> None:
        self.hands.write(self.box(field), text)

    def ask(self, field: str, text: str) -> None:
        """Write the text and ask the model about it with a key press."""
        self.write(field, text)
        self.page.keyboard.press("Shift+Enter")

    def see(self, outcome: str, sentence: str = "") -> None:
        """Expect that the panel shows this outcome and these words."""
        expect(self.there("verdict")).to_have_attribute("data-outcome", outcome)
        expect(self.there("verdict-message")).to_contain_text(sentence)

    def choose(self, name: str) -> None:
        """One of the template's choices, by the beginning of its text."""
        self.hands.press(self.editor.get_by_role("radio", name=re.compile(f"^{name}")))

    def mark(self, text: str) -> None:
        """Selects a text in the passage with the mouse."""
        # Validators see the question above it, which may have the same words.
        passage = self.editor.locator(".lsf-htx-richtext").filter(has_text=text).last
        left, top, right, bottom = passage.evaluate(PLACES, text)
        around = self.page.locator("iframe").bounding_box()
        assert around is not None
        self.page.mouse.move(around["x"] + left, around["y"] + top)
        self.page.mouse.down()
        self.page.mouse.move(around["x"] + right, around["y"] + bottom, steps=8)
        self.page.mouse.up()
        expect(self.editor.locator(".htx-highlight").first).to_have_text(text)

    def expect_saved(self) -> None:
        """Wait until the server has stored the typed text."""
        expect(self.there("saved")).to_have_attribute("data-draft", "saved")

    def submit(self, *, twice: bool = False) -> None:
        self._address = self.page.url
        if twice:
            self.there("submit").dblclick()
        else:
            self.hands.press(self.there("submit"))

    def expect_handed_in(self) -> None:
        """Wait until the marketplace has accepted the submission and shows its next page."""
        expect(self.page).not_to_have_url(self._address)
        expect(self.page.get_by_text("Submitted.")).to_be_visible()

    def keep(self, name: str) -> Path:
        """Save a screenshot of the window."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"work-{name}.png"
        self.page.screenshot(path=path)
        return path


def sign_in(stage: WorkStage, hands: Hands, worker: Worker) -> None:
    """Sign this worker in on the marketplace, as the only one in this browser."""
    hands.page.context.clear_cookies()
    hands.page.goto(stage.invite(worker))
    hands.press(hands.page.get_by_role("button", name="Start working"))
    expect(hands.page.get_by_role("heading", name="Find work")).to_be_visible()


def accept(hands: Hands, title: str) -> HitPage:
    """Accept a HIT of that title from the list."""
    hands.press(hands.page.get_by_role("button", name=f"Accept {title}", exact=True))
    expect(hands.page.get_by_role("timer").first).to_be_visible()
    return HitPage(hands)


def fits(frame: Frame | Page) -> bool:
    """Return whether nothing is wider than the window."""
    wider: int = frame.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return wider <= 0
