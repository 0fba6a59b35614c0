"""The first hour with the demo: a newcomer's own example is validated, paid and learned from, beside colleagues."""

import os
import subprocess
from pathlib import Path
from random import Random

from playwright.sync_api import Browser, Page, ViewportSize, expect

import outfox as researcher
from plugin.demo.progress import ExampleState
from plugin.settings import DEMO_FILE, DEMO_HOME
from plugin.simulation.sentences import write
from plugin.simulation.worker import make_profiles
from round_manager.models import ExampleStatus, RoundStatus
from tests.e2e.plugin.demo.conftest import MILLISECONDS_FOR_LABEL_STUDIO, SharedDemo
from tests.e2e.plugin.labelstudio.conftest import submit
from tests.e2e.running_demo import PROGRAM, until
from tests.e2e.visitor import Visitor

DESK = ViewportSize(width=1280, height=1100)
MOST_EXAMPLES = 5
# Feedback quotes at least so many letters of a text's end.
SHOWN_OF_LONG_TEXTS = 15


def test_an_owner_and_a_worker_see_their_examples_validated_paid_and_learned_from(
    shared_demo: SharedDemo, browser: Browser
) -> None:
    """Both write in the same round, as people who try the demo do, so that its model is waited for once."""
    owner, worker = browser.new_page(viewport=DESK), browser.new_page(viewport=DESK)
    shared_demo.log_in(owner)
    written = write_in_label_studio(shared_demo, owner)
    paid = _earn_a_bonus(shared_demo, worker)
    own = shared_demo.decided(written)
    last = max(own.round, paid.round)
    shared_demo.wait(lambda state: state.number > last and state.status is RoundStatus.OPEN)
    until(lambda: f"Round {last + 1} is open against" in shared_demo.running.said)

    said = shared_demo.running.said
    for part in ("Your example in Label Studio", "Your example on the marketplace", "validated by"):
        assert part in said
    for text in (written, paid.text):
        assert text not in said, "what people type stays out of logs"
    assert shared_demo.outfox("round", "metrics", "sentiment")[0]["round"] == 1
    frame = researcher.load("sentiment", path=shared_demo.ready["archives"], verify=True)
    colleagues = frame["author"].str.startswith("simulated-")
    assert colleagues.any()
    for text in (written, paid.text):
        assert list(frame[~colleagues & (frame["text"] == text)]["status"]) == ["verified"]
    workers = shared_demo.outfox("crowd", "workers", "sentiment")
    assert sum(one["simulated"] for one in workers) == shared_demo.ready["colleagues"]
    owner.context.close()
    worker.context.close()


def _earn_a_bonus(shared_demo: SharedDemo, page: Page) -> ExampleState:
    """Take the quiz, write until an example fools the model, and wait until it is validated and its bonus paid."""
    (person,) = make_profiles(1, "a newcomer")
    visitor = Visitor(page, shared_demo.ready["invitation"], shared_demo.pack.spec, person)
    visitor.take_quiz()
    for _ in range(MOST_EXAMPLES):
        own = shared_demo.decided(visitor.write())
        if own.fooled and own.is_new and own.status is ExampleStatus.VERIFIED:
            break
    assert (own.fooled, own.is_new, own.status) == (True, True, ExampleStatus.VERIFIED), "no example earned a bonus"
    assert own.simulated_votes == own.votes >= 2
    until(lambda: "Your bonus of $0.60 was paid" in shared_demo.running.said)
    page.goto(f"{shared_demo.ready['marketplace']}/earnings")
    expect(page.get_by_text("$0.60").first).to_be_visible()
    return own


def test_commands_of_the_readme_find_the_demo(shared_demo: SharedDemo, tmp_path: Path) -> None:
    (tmp_path / DEMO_HOME).mkdir(parents=True)
    (tmp_path / DEMO_HOME / DEMO_FILE).symlink_to(shared_demo.config)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTFOX_")}
    environment["HOME"] = str(tmp_path)
    ran = subprocess.run([PROGRAM, "status"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "sentiment" in ran.stdout
    assert DEMO_FILE in ran.stderr


def write_in_label_studio(shared_demo: SharedDemo, page: Page) -> str:
    """Write on the first task until the model is fooled, submit, and return the text."""
    page.goto(f"{shared_demo.ready['url']}?tab=0")
    page.locator(".outfox, [class*=row-wrapper]").first.wait_for()
    if not page.locator(".outfox").count():
        page.locator("[class*=row-wrapper]").first.click()
    page.locator(".outfox").wait_for()
    page.wait_for_load_state("networkidle")
    shown = page.locator(".outfox").inner_text()
    (target,) = [one.name for one in shared_demo.pack.spec.labels if f"reads as: {one.title}" in shown]
    rng, box = Random(1), page.locator("textarea[name=text]")
    for _ in range(shared_demo.pack.spec.work.tries):
        text = write(shown, target, rng, skill=1.0).text
        box.fill(text)
        # Attempts are not counted here: the round, and so their number, may change meanwhile.
        with page.expect_response("**/interactive-annotating*"):
            box.press("Shift+Enter")
        box = page.locator("textarea[name^='text:']")
        quoted = f"{text[-SHOWN_OF_LONG_TEXTS:]}”"
        expect(page.locator(".verdict")).to_contain_text(quoted, timeout=MILLISECONDS_FOR_LABEL_STUDIO)
        if "You fooled the model" in page.locator(".verdict").inner_text():
            break
    submit(page)
    return text
