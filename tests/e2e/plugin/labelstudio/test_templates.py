"""Every template and every sample payload in the real Label Studio, and on its page in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from templates import Pack, find_pack
from templates.payloads import TEMPLATES, Template, sample_annotation, sample_flag, sample_prediction, sample_task
from tests.conftest import PACKS
from tests.e2e.browser import Complaints
from tests.e2e.plugin.labelstudio.conftest import Studio, submit
from tests.e2e.plugin.labelstudio.projects import Project

OpenTask = Callable[[Project, int], Complaints]
every_template = pytest.mark.parametrize("template", TEMPLATES)
every_pack = pytest.mark.parametrize("name", PACKS)


@every_pack
@every_template
def test_label_studio_accepts_the_template_its_task_annotation_and_prediction(
    studio: Studio, name: str, template: Template
) -> None:
    pack = find_pack(name)
    project = studio.projects.ensure_project(pack, template)
    (task_id,) = studio.projects.import_tasks(project, [sample_task(pack, template)])
    annotations = [sample_annotation(pack, template), *([sample_flag(pack)] if template == "validate" else [])]
    for annotation in annotations:
        studio.projects.add_annotation(task_id, annotation)
    studio.projects.add_prediction(task_id, sample_prediction(pack, template))

    task = studio.get(f"tasks/{task_id}/")
    assert task["data"] == sample_task(pack, template)["data"]
    stored = [[_without_id(result) for result in one["result"]] for one in task["annotations"]]
    assert sorted(map(str, stored)) == sorted(str(one["result"]) for one in annotations)
    (prediction,) = task["predictions"]
    assert prediction["model_version"] == f"{name}-sample"


# The tests of the live loop cover creation tasks before a text is written, and the tests below the other packs.
@pytest.mark.parametrize("name", ["qa", "hate_speech"])
def test_a_task_to_check_shows_in_chromium_without_an_error(
    studio: Studio, page: Page, labelling: OpenTask, screenshot: Callable[[str], Path], name: str
) -> None:
    pack = find_pack(name)
    project = studio.projects.ensure_project(pack, "validate")
    task = sample_task(pack, "validate")
    (task_id,) = studio.projects.import_tasks(project, [task])
    complaints = labelling(project, task_id)

    _expect_shown(page, pack, task)
    expect(page.get_by_role("button", name="Submit")).to_be_visible()
    screenshot(f"labelstudio-{name}-validate")
    assert complaints.heard == []


@every_pack
def test_the_editor_shows_a_stored_annotation(
    studio: Studio, page: Page, labelling: OpenTask, screenshot: Callable[[str], Path], name: str
) -> None:
    pack = find_pack(name)
    project = studio.projects.ensure_project(pack, "create")
    task = sample_task(pack, "create")
    (task_id,) = studio.projects.import_tasks(project, [task])
    annotation = sample_annotation(pack, "create")
    studio.projects.add_annotation(task_id, annotation)
    complaints = labelling(project, task_id)

    _expect_shown(page, pack, task)
    written = {one["from_name"]: one["value"] for one in annotation["result"]}
    author_wrote = pack.spec.with_role("input")[0].name
    expect(page.locator(f"[name^='{author_wrote}:']")).to_have_value(written[author_wrote]["text"][0])
    expect(page.locator(".verdict")).to_contain_text(written["feedback"]["text"][0])
    for field in pack.spec.with_role("span"):
        expect(page.locator(".htx-highlight")).to_have_text(written[field.name]["text"])
    screenshot(f"labelstudio-{name}-create-filled-in")
    assert complaints.heard == []


def test_a_validator_has_to_choose_either_a_label_or_a_flag(studio: Studio, page: Page, labelling: OpenTask) -> None:
    pack = find_pack("sentiment")
    project = studio.projects.ensure_project(pack, "validate")
    task = sample_task(pack, "validate")
    (task_id,) = studio.projects.import_tasks(project, [task])
    complaints = labelling(project, task_id)
    _expect_shown(page, pack, task)
    assert complaints.heard == []

    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    page.locator("textarea[name=comment]").fill("Hard to say.")
    page.locator("textarea[name=comment]").press("Shift+Enter")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_text("Choose a label, or flag the sentence if you cannot.")).to_be_visible()
    page.get_by_role("button", name="OK").click()

    page.get_by_text("Positive", exact=True).click()
    page.get_by_text(pack.spec.validation.flag_reasons[0]).click()
    expect(page.get_by_text("Positive", exact=True)).to_be_hidden()
    submit(page)
    (annotation,) = studio.get(f"tasks/{task_id}/")["annotations"]
    stored = {one["from_name"]: one["value"] for one in annotation["result"]}
    assert stored == {
        "flag": {"choices": [pack.spec.validation.flag_reasons[0]]},
        "comment": {"text": ["Hard to say."]},
    }


def test_a_label_is_stored_by_its_name(studio: Studio, page: Page, labelling: OpenTask) -> None:
    pack = find_pack("nli")
    project = studio.projects.ensure_project(pack, "validate")
    task = sample_task(pack, "validate")
    (task_id,) = studio.projects.import_tasks(project, [task])
    complaints = labelling(project, task_id)
    _expect_shown(page, pack, task)
    assert complaints.heard == []

    page.get_by_text("Definitely incorrect", exact=True).click()
    submit(page)
    ((stored,),) = [one["result"] for one in studio.get(f"tasks/{task_id}/")["annotations"]]
    assert stored["value"] == {"choices": ["contradiction"]}


def _expect_shown(page: Page, pack: Pack, task: dict[str, Any]) -> None:
    """Check that the page shows every text of the task and no template error."""
    for text in task["data"].values():
        if text and text not in pack.spec.label_names:
            expect(page.locator(".outfox").get_by_text(text).first).to_be_visible()
    expect(page.locator(".lsf-errors, .ant-alert-error, .ant-modal-confirm-error")).to_have_count(0)


def _without_id(result: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in result.items() if key != "id"}
