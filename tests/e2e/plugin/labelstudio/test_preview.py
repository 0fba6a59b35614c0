"""The preview of every pack in a real browser: the real editor in a page of ours."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Page, expect
from werkzeug.serving import make_server

from plugin.labelstudio.editor import preview_app
from templates import find_pack
from templates.payloads import TEMPLATES, Template, sample_task
from tests.conftest import PACKS
from tests.e2e.browser import Complaints


@contextmanager
def preview(name: str) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, preview_app(find_pack(name)), threaded=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("name", PACKS)
def test_the_preview_shows_the_template_without_errors_on_desktop_and_phone(
    page: Page, screenshot: Callable[[str], Path], name: str, template: Template
) -> None:
    complaints = Complaints()
    complaints.listen_to(page)
    pack = find_pack(name)
    with preview(name) as address:
        page.goto(f"{address}/{template}")
        for text in sample_task(pack, template)["data"].values():
            if text and text not in pack.spec.label_names:
                expect(page.locator(".outfox").get_by_text(text).first).to_be_visible()
        screenshot(f"preview-{name}-{template}")
        page.set_viewport_size({"width": 360, "height": 800})
        expect(page.get_by_role("button", name="Submit")).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        screenshot(f"preview-{name}-{template}-phone")
    assert complaints.heard == []


def test_the_preview_shows_instructions_and_quiz(page: Page, screenshot: Callable[[str], Path]) -> None:
    complaints = Complaints()
    complaints.listen_to(page)
    quiz = find_pack("sentiment").spec.quiz
    assert quiz is not None
    with preview("sentiment") as address:
        page.goto(f"{address}/create")
        page.get_by_role("link", name="Instructions and quiz").click()
        expect(page.get_by_role("heading", name="What you do").first).to_be_visible()
        for question in quiz.questions:
            expect(page.get_by_text(question.question)).to_be_visible()
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        screenshot("preview-sentiment-instructions-phone")
    assert complaints.heard == []


def test_the_preview_shows_a_sample_verdict_and_what_submitting_would_store(page: Page) -> None:
    with preview("sentiment") as address:
        page.goto(f"{address}/create")
        page.locator("textarea[name=text]").fill("I would not say no to a second bowl.")
        page.locator("textarea[name=text]").press("Shift+Enter")
        expect(page.locator(".verdict")).to_contain_text("You fooled the model!")
        page.get_by_role("button", name="Submit").click()
        expect(page.locator("#submitted pre")).to_contain_text("I would not say no to a second bowl.")


def test_the_tabs_work_with_the_keyboard(page: Page) -> None:
    with preview("nli") as address:
        page.goto(f"{address}/create")
        page.locator(".outfox").wait_for()
        page.get_by_role("link", name="validate.xml").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="validate.xml")).to_have_attribute("aria-current", "page")
        expect(page.locator(".outfox").get_by_text("Take this text as true")).to_be_visible()
