"""Measured visits to workers' pages (bytes and times), each by a new worker of the marketplace in a real browser."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.e2e.plugin.web.work.hands import Mouse
from tests.e2e.plugin.web.work.hit_page import HitPage, accept, sign_in
from tests.e2e.plugin.web.work.stage import WorkStage

# Runs in every document before its own scripts: notes, by the machine's clock, when the template could be typed into,
# and, for each try, the milliseconds from the keys to the model's answer in the panel.
WATCH = """{
    const ANSWERS = ["fooled", "not-fooled", "answered"];
    let asked = 0;
    window.answered = [];
    addEventListener("keydown", ({key, shiftKey}) => {
        if (key === "Enter" && shiftKey) asked = performance.now();
    }, true);
    const look = () => {
        if (!window.usable && document.body?.dataset.state === "ready"
            && document.querySelector("#editor textarea")) window.usable = Date.now();
        const outcome = document.getElementById("verdict")?.dataset.outcome;
        if (asked && ANSWERS.includes(outcome)) {
            window.answered.push(performance.now() - asked);
            asked = 0;
        }
    };
    // Attributes and elements that change are drawn in the next frame.
    new MutationObserver(look).observe(document, {subtree: true, childList: true, attributes: true});
}"""
# This runs within the page, because its content security policy forbids polling by a test.
NEXT_ANSWER = """(before) => new Promise((found, missing) => {
    const late = performance.now() + 60_000;
    const look = () => {
        if (window.answered.length > before) found(window.answered.at(-1));
        else if (performance.now() > late) missing(new Error("no verdict came"));
        else setTimeout(look, 5);
    };
    look();
})"""
FIELD = "text"


@dataclass(frozen=True)
class Measured:
    """What was found; times are medians, `verdicts` is of how many, `back_s` how long after the model came back."""

    first_visit_bytes: int
    next_hit_bytes: int
    usable_s: float
    verdict_ms: float
    verdicts: int
    back_s: float


@dataclass(frozen=True)
class Bench:
    """The stage, a browser, and the task whose HITs are accepted."""

    stage: WorkStage
    browser: Browser
    task: str
    title: str

    @contextmanager
    def worker(self, name: str) -> Iterator[Page]:
        """Sign in a new worker, with an empty browser cache."""
        with self.browser.new_context(viewport={"width": 1280, "height": 900}) as context:
            context.add_init_script(WATCH)
            page = context.new_page()
            sign_in(self.stage, Mouse(page), self.stage.worker(name))
            yield page

    def open(self, page: Page) -> tuple[HitPage, float]:
        """Accept a new HIT; return it with the seconds until the template could be typed into."""
        self.stage.post(self.task)
        page.goto(self.stage.market.url)
        began = time.time()
        hit = accept(Mouse(page), self.title)
        hit.wait_until_ready()
        hit.write(FIELD, "A first letter")
        expect(hit.box(FIELD)).to_have_value("A first letter")
        return hit, float(hit.frame.evaluate("window.usable")) / 1_000 - began

    @staticmethod
    def ask(hit: HitPage, text: str) -> float:
        """Return the milliseconds from typing the text to its verdict."""
        before = len(hit.frame.evaluate("window.answered"))
        hit.ask(FIELD, text)
        return float(hit.frame.evaluate(NEXT_ANSWER, before))

    @staticmethod
    def hand_in(hit: HitPage) -> None:
        """Submit the HIT."""
        hit.submit()
        hit.expect_handed_in()


class Scale:
    """Counts the bytes received from one address; cached files count as nothing."""

    def __init__(self, page: Page, address: str) -> None:
        self._bytes = 0
        self._address = address
        self._ours: set[str] = set()
        session: CDPSession = page.context.new_cdp_session(page)
        session.on("Network.requestWillBeSent", self._sent)
        session.on("Network.loadingFinished", self._came)
        session.send("Network.enable")

    def take(self) -> int:
        """Return the bytes since the last call."""
        taken, self._bytes = self._bytes, 0
        return taken

    def _sent(self, event: dict[str, Any]) -> None:
        if event["request"]["url"].startswith(self._address):
            self._ours.add(event["requestId"])

    def _came(self, event: dict[str, Any]) -> None:
        if event["requestId"] in self._ours:
            self._bytes += int(event["encodedDataLength"])


def wait_out(bench: Bench, hit: HitPage, text: str, seconds: float) -> float:
    """Stop the model for a while during an attempt; return the seconds from its return to the verdict."""
    bench.stage.backend.kill()
    gone = time.monotonic()
    hit.ask(FIELD, text)
    hit.see("away")
    time.sleep(max(0.0, seconds - (time.monotonic() - gone)))
    bench.stage.backend.start()
    back = time.monotonic()
    hit.frame.evaluate(NEXT_ANSWER, 0)
    return time.monotonic() - back
