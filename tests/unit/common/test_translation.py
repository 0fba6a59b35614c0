"""Messages in several languages, and catalogues that lack nothing."""

import re
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.frontend import CommandLineInterface
from babel.messages.pofile import read_po
from jinja2 import Environment

from common.errors import CodedError
from common.messages import Cents, Share, as_sentence, gettext, in_a_row, ngettext
from common.translation import CATALOGUES, LANGUAGES, Translator, add_translation, best_language, translator

ROOT = Path(__file__).resolve().parents[3]
PLACEHOLDERS = re.compile(r"%\((\w+)\)s|<[^>]+>")
CALLS = re.compile(r"(?<![\w.])n?gettext\(")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Return all texts that are marked in the code, as `make translations` collects them."""
    file = tmp_path_factory.mktemp("texts") / "outfox.pot"
    options = ["-F", str(ROOT / "babel.cfg"), "--no-wrap", "--add-location=file", "-o", str(file), str(ROOT)]
    run: Any = CommandLineInterface().run
    run(["pybabel", "-q", "extract", *options])
    with file.open("rb") as opened:
        return read_po(opened)


def written(language: str) -> Catalog:
    with (CATALOGUES / f"{language}.po").open("rb") as opened:
        return read_po(opened, locale=language)


def parts(text: Any) -> list[set[str]]:
    """Return the placeholders and tags of each form."""
    forms = [text] if isinstance(text, str) else list(text)
    return [set(PLACEHOLDERS.findall(form)) | set(re.findall("<[^>]+>", form)) for form in forms]


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_text_is_translated(language: str, template: Catalog) -> None:
    catalog = written(language)
    translations = {message.id: message for message in catalog if message.id}
    missing = [message.id for message in template if message.id and message.id not in translations]
    assert not missing, "run `make translations`, and translate what it adds"
    bad = [one.id for one in translations.values() if one.fuzzy or not _is_complete(one)]
    assert not bad
    assert not catalog.obsolete
    assert not [one.id for one in translations.values() if template.get(_first(one)) is None], "run `make translations`"


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_a_translation_keeps_placeholders_and_tags(language: str) -> None:
    for message in written(language):
        if message.id:
            wanted = set.union(*parts(message.id))
            for form in parts(message.string):
                # A form for one may do without the number.
                assert wanted - {"n"} <= form <= wanted, message.id


def test_scripts_call_gettext_with_plain_strings(template: Catalog) -> None:
    for folder in ("plugin/pages", "mturk/marketplace/site/pages"):
        for file in (ROOT / folder).glob("*.js"):
            calls = len(CALLS.findall(file.read_text(encoding="utf-8")))
            plain = re.findall(r"(?<![\w.])n?gettext\(\s*\"", file.read_text(encoding="utf-8"))
            assert calls == len(plain), file


def test_a_message_is_english_for_logs_and_another_language_on_a_page() -> None:
    field = gettext("“%(title)s”", title="Text")
    message = gettext(
        "%(field)s has %(size)s characters; at most %(most)s are accepted", field=field, size=1200, most=400
    )
    assert message == "“Text” has 1,200 characters; at most 400 are accepted"
    assert str(CodedError(message)) == message
    shown = translator("de").text(as_sentence(message))
    assert "„Text“" in shown
    assert "1.200" in shown
    assert shown.endswith(".")
    assert translator("de").data({"a": [message, 1, None]})["a"][0] == translator("de").text(message)


def test_numbers_money_and_shares_are_written_as_in_the_language() -> None:
    text = in_a_row([gettext("%(a)s", a=Cents(123_450)), gettext("%(a)s", a=Share(0.7))])
    assert text == "$1,234.50 70%"
    assert translator("de").text(text) == "1.234,50\xa0$ 70\xa0%"
    assert translator("de").number(1_200_000) == "1.200.000"


def test_plural_forms_follow_the_language() -> None:
    for number in (0, 1, 2, 1_000_000):
        message = ngettext("%(n)s day", "%(n)s days", number)
        assert translator("es").text(message).endswith("día" if number == 1 else "días")
    forms = translator("es").script_messages("plugin/pages/")["messages"]
    plural = next(one for one in forms.values() if isinstance(one, dict))
    assert {"one", "many", "other"} <= set(plural)


def test_a_template_shows_its_texts_and_those_of_the_domain_in_the_language_of_the_request() -> None:
    environment = Environment(autoescape=True)
    add_translation(environment, lambda: translator("en-XA"))
    page = environment.from_string("{{ _('Account') }} {{ message }} {{ 120 | money }} {{ translation().direction }}")
    name = "<b>Ann</b>"
    text = page.render(message=gettext("“%(title)s”", title=name))
    assert "⟦Àççöûñt~~⟧" in text
    assert "&lt;b&gt;Ann" in text
    assert text.endswith("$1.20 ltr")
    assert translator("ar-XB").direction == "rtl"


def test_the_best_language_is_the_first_that_is_there() -> None:
    assert best_language(["fr", "de-AT", "en"]) == "de"
    assert best_language(["fr"]) is None
    assert best_language(["es", "de"], ["de", "en"]) == "de"


def _first(message: Message) -> str:
    return message.id if isinstance(message.id, str) else message.id[0]


def _is_complete(message: Message) -> bool:
    forms = [message.string] if isinstance(message.string, str) else list(message.string or [""])
    return all(forms)


def test_a_translator_without_a_catalogue_is_english() -> None:
    assert Translator("en", None).text(gettext("Account")) == "Account"
