"""Writing in the real Label Studio: the model is asked at once, with nothing to switch on, and its answer shows."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from templates import find_pack
from templates.payloads import sample_annotation, sample_task
from tests.e2e.browser import Complaints
from tests.e2e.plugin.labelstudio.backend import counting_backend
from tests.e2e.plugin.labelstudio.conftest import Studio, submit
from tests.e2e.plugin.labelstudio.projects import Project

OpenTask = Callable[[Project, int], Complaints]


def texts(asked: list[dict[str, object]], name: str) -> list[object]:
    return [one["value"] for one in asked if one["from_name"] == name]


def test_every_changed_text_gets_its_own_verdict(studio: Studio, page: Page, labelling: OpenTask) -> None:
    pack = find_pack("sentiment")
    with counting_backend("prompt") as backend, studio.project_with(pack, backend) as project:
        (task_id,) = studio.projects.import_tasks(project, [sample_task(pack, "create")])
        complaints = labelling(project, task_id)
        expect(page.locator(".verdict form")).to_be_hidden()

        page.locator("textarea[name=text]").fill("I would not say no to a second bowl.")
        page.locator("textarea[name=text]").press("Shift+Enter")
        expect(page.locator(".verdict")).to_contain_text("Verdict 1")

        page.locator("textarea[name=why_right]").fill("Everybody likes soup.")
        again = page.locator("textarea[name^='text:']")
        again.fill("I would say no to a second bowl.")
        again.press("Shift+Enter")
        expect(page.locator(".verdict")).to_contain_text("Verdict 2")
        expect(page.locator(".verdict")).not_to_contain_text("Verdict 1")
        expect(again).to_be_focused()

        submit(page)
        (annotation,) = studio.get(f"tasks/{task_id}/")["annotations"]
        assert texts(annotation["result"], "text") == [{"text": ["I would say no to a second bowl."]}]
        assert texts(annotation["result"], "why_right") == [{"text": ["Everybody likes soup."]}]
        assert [texts(asked, "text") for asked in backend.asked[:2]] == [
            [{"text": ["I would not say no to a second bowl."]}],
            [{"text": ["I would say no to a second bowl."]}],
        ]
        assert complaints.heard == []


def test_an_answer_is_selected_without_choosing_a_label_first(studio: Studio, page: Page, labelling: OpenTask) -> None:
    pack = find_pack("qa")
    answer = next(one["value"] for one in sample_annotation(pack, "create")["result"] if one["from_name"] == "answer")
    with counting_backend("passage") as backend, studio.project_with(pack, backend) as project:
        (task_id,) = studio.projects.import_tasks(project, [sample_task(pack, "create")])
        complaints = labelling(project, task_id)
        drag_over(page, answer["text"])
        expect(page.locator(".htx-highlight")).to_have_text(answer["text"])
        expect(page.locator(".verdict")).to_contain_text("Verdict 1")
        assert texts(backend.asked[0], "answer") == [answer]
        assert complaints.heard == []


def drag_over(page: Page, text: str) -> None:
    """Selects a text in the passage with the mouse."""
    expect(page.locator(".quote")).to_contain_text(text)
    left, top, right, bottom = page.evaluate(
        """(text) => {
            const passage = document.querySelector(".quote .lsf-htx-richtext");
            const walker = document.createTreeWalker(passage, NodeFilter.SHOW_TEXT);
            while (walker.nextNode() && !walker.currentNode.data.includes(text));
            const node = walker.currentNode, start = node.data.indexOf(text), range = document.createRange();
            const at = (from) => { range.setStart(node, from); range.setEnd(node, from + 1);
                                   return range.getBoundingClientRect(); };
            const first = at(start), last = at(start + text.length - 1);
            return [first.left + 1, (first.top + first.bottom) / 2, last.right - 1, (last.top + last.bottom) / 2];
        }""",
        text,
    )
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(right, bottom, steps=8)
    page.mouse.up()
