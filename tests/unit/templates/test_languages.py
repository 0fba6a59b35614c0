"""Packs with texts in several languages."""

from collections.abc import Callable
from pathlib import Path

import pytest

from common.messages import filled, in_language
from common.translation import translator
from templates import PackError, TaskSpec, copy_pack, load_pack
from templates.markup import check_markup
from templates.payloads import creation_task, template_xml
from tests.conftest import replace_in

CopyOf = Callable[[str], Path]


def german(folder: Path) -> Path:
    """Give a copy of the sentiment pack some German texts."""
    settings = folder / "task.yaml"
    replace_in(settings, "languages: [en]", "languages: [en, de]")
    replace_in(settings, "title: Negative", "title: {en: Negative, de: Negativ}")
    answered = 'answered: "The model says {prediction} ({confidence})."'
    both = 'answered: {en: "The model says {prediction}.", de: "Das Modell sagt {prediction}."}'
    replace_in(settings, answered, both)
    (folder / "instructions.de.md").write_text("Was zu tun ist.", encoding="utf-8")
    return folder


def test_a_text_is_shown_in_the_language_of_the_page_or_else_in_the_first(copy_of: CopyOf) -> None:
    spec = load_pack(german(copy_of("sentiment"))).spec
    title = spec.label_title("negative")
    assert title == "Negative"
    assert [translator(language).text(title) for language in ("de", "en", "es", "en-XA")] == [
        "Negativ",
        "Negative",
        "Negative",
        "Negative",
    ]
    assert TaskSpec.model_validate(spec.model_dump(mode="json")) == spec
    assert in_language(TaskSpec.model_validate(spec.model_dump(mode="json")).label_title("negative"), "de") == "Negativ"


def test_a_task_and_a_filled_message_have_all_languages(copy_of: CopyOf) -> None:
    pack = load_pack(german(copy_of("sentiment")))
    task = creation_task(pack.spec, pack.contexts[0], "negative")
    assert translator("de").data(task)["data"]["target_title"] == "Negativ"
    message = filled(pack.spec.messages.answered, {"prediction": pack.spec.label_title("negative"), "confidence": "9"})
    assert translator("de").text(message) == "Das Modell sagt Negativ."
    assert translator("es").text(message) == str(message)


def test_instructions_and_templates_have_a_file_for_each_language(copy_of: CopyOf, tmp_path: Path) -> None:
    folder = german(copy_of("sentiment"))
    template = (folder / "validate.xml").read_text(encoding="utf-8")
    (folder / "validate.de.xml").write_text(template.replace("<View", "<!-- Deutsch --><View", 1), encoding="utf-8")
    pack = copy_pack(load_pack(folder), tmp_path / "mine")
    assert pack.instructions_for("create", "de") == "Was zu tun ist."
    assert pack.instructions_for("create", "es") == pack.instructions_for("create")
    assert "Deutsch" in template_xml(pack, "validate", "de")
    assert '"Negativ"' in template_xml(pack, "validate", "de")
    assert '"Negative"' in template_xml(pack, "validate")
    (pack.folder / "validate.de.xml").write_text(template.replace('name="comment"', 'name="note"'), encoding="utf-8")
    found = {(one.file, one.code) for one in check_markup(load_pack(pack.folder))}
    assert ("validate.de.xml", "control_unknown") in found
    assert ("validate.xml", "control_unknown") not in found


@pytest.mark.parametrize(
    "title", ["{de: Negativ}", "{en: Negative, fr: Négatif}", '{en: Negative, de: ""}', "{1: one}"]
)
def test_a_text_without_the_main_language_or_in_an_unlisted_one_is_reported(copy_of: CopyOf, title: str) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "languages: [en]", "languages: [en, de]")
    replace_in(folder / "task.yaml", "title: Negative", f"title: {title}")
    with pytest.raises(PackError) as caught:
        load_pack(folder)
    (problem,) = caught.value.problems
    assert "labels.1.title" in str(problem)
