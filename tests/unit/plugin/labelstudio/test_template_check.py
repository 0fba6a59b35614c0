"""Templates under Label Studio's own rules, and as text."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from plugin.errors import LabelStudioNotInstalled
from plugin.labelstudio.adapter import open_sdk, translated_errors
from plugin.labelstudio.template_check import check_templates, render
from round_manager.labelstudio.port import LabelStudioUnavailable, TokenRejected
from round_manager.labelstudio.projects import instructions_html, project_settings
from templates import find_pack, load_pack
from templates.payloads import TEMPLATES
from tests.conftest import PACKS, replace_in, write_lists

CopyOf = Callable[[str], Path]


@pytest.mark.parametrize("name", PACKS)
def test_label_studio_accepts_templates_tasks_annotations_and_predictions(name: str) -> None:
    assert check_templates(find_pack(name)) == []


def test_our_own_findings_come_first_because_they_name_the_line(copy_of: CopyOf) -> None:
    folder = copy_of("nli")
    replace_in(folder / "create.xml", 'toName="premise"', 'toName="nobody"')
    (problem,) = check_templates(load_pack(folder))
    assert problem.line is not None


def test_what_only_label_studio_finds_is_reported_too(copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugin.labelstudio.template_check.check_markup", lambda _pack: [])
    folder = copy_of("nli")
    replace_in(folder / "validate.xml", 'name="flag"', 'name="label"')
    replace_in(folder / "create.xml", 'name="feedback"', 'name="verdict"')
    said = [str(problem) for problem in check_templates(load_pack(folder))]
    assert any(text.startswith("validate.xml: Label Studio refuses the template") for text in said), said


def test_a_choice_that_the_template_lacks_is_refused_by_label_studio(
    copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugin.labelstudio.template_check.check_markup", lambda _pack: [])
    folder = copy_of("nli")
    write_lists(folder)
    replace_in(folder / "validate.xml", 'alias="entailment"', 'alias="implied"')
    said = [str(problem) for problem in check_templates(load_pack(folder))]
    assert any("refuses a sample annotation" in text and "entailment" in text for text in said), said
    assert any("refuses a sample prediction" in text for text in said), said


def test_a_missing_sdk_is_reported_when_templates_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("label_studio_sdk._legacy", "label_studio_sdk.label_interface.interface"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LabelStudioNotInstalled):
        check_templates(find_pack("nli"))


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("name", PACKS)
def test_a_rendered_template_shows_the_task_and_leaves_no_markup(name: str, template: str) -> None:
    pack = find_pack(name)
    text = render(pack, "create" if template == "create" else "validate")
    assert not any(mark in text for mark in ("$", "<", "**", "&"))
    assert max(map(len, text.splitlines())) < 120
    if template == "validate":
        assert all(reason in text for reason in pack.spec.validation.flag_reasons)


def test_a_rendered_template_says_what_is_required_and_what_asks_the_model() -> None:
    text = render(find_pack("sentiment"), "create")
    assert "Write a sentence that reads as: Positive" in text
    assert "(text, required, asks the model)" in text
    assert "(label, required, unless flag is chosen)" in render(find_pack("sentiment"), "validate")


def test_instructions_become_html_and_nothing_in_them_runs() -> None:
    text = "# Hello\n\n<script>alert(1)</script>\n\n| a | b |\n|---|---|\n| **c** | d |\n"
    html = instructions_html(text)
    assert "<h1>Hello</h1>" in html
    assert "<strong>c</strong>" in html
    assert "<script>" not in html


def test_list_markers_are_written_as_text_for_label_studio() -> None:
    settings = project_settings(find_pack("sentiment"), "create")
    html = settings["expert_instruction"]
    assert "<div>1. Look at the label" in html
    assert "<div>2. Write your sentence, then press <strong>Shift+Enter</strong>" in html
    assert "<div>• Nonsense and spam.</div>" in html
    assert not re.search("<(ol|ul|li)", html)


def test_validators_read_their_own_instructions_and_authors_read_none_of_them(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    (folder / "instructions.validate.md").write_text("Nur für Prüfende.", encoding="utf-8")
    assert project_settings(load_pack(folder), "validate")["expert_instruction"] == "<p>Nur für Prüfende.</p>"
    assert "Prüfende" not in project_settings(load_pack(folder), "create")["expert_instruction"]
    (folder / "instructions.validate.md").unlink()
    pack = load_pack(folder)
    assert pack.instructions_for("validate") == pack.instructions_for("create")


def test_a_missing_token_is_refused_without_a_request() -> None:
    with pytest.raises(TokenRejected):
        open_sdk("http://127.0.0.1:1", "")


def test_a_missing_sdk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "label_studio_sdk", None)
    with pytest.raises(LabelStudioNotInstalled):
        open_sdk("http://127.0.0.1:1", "0" * 40)


def test_no_response_can_be_retried() -> None:
    url = "http://127.0.0.1:1"
    with pytest.raises(LabelStudioUnavailable) as caught, translated_errors(url):
        list(open_sdk(url, "0" * 40).projects.list())
    assert caught.value.retry
