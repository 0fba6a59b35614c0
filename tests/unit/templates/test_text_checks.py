"""Advice on texts: without words, or in another language; in doubt there is none."""

import pytest

from templates import find_pack
from templates.spec import TaskSpec
from templates.text_checks import has_words, is_language, text_advice

SPEC = find_pack("sentiment").spec


def changed(**checks: bool) -> TaskSpec:
    return SPEC.model_copy(update={"text_checks": SPEC.text_checks.model_copy(update=checks)})


@pytest.mark.parametrize("text", ["", "?!", "123 + 4", "a b", "🙂🙂"])
def test_a_text_without_words(text: str) -> None:
    assert not has_words(text)


@pytest.mark.parametrize("text", ["No.", "好", "Это", "I h8 it", "مرحبا"])
def test_a_text_with_words(text: str) -> None:
    assert has_words(text)


@pytest.mark.parametrize(
    "text",
    ["Das ist nicht so gut, aber auch nicht schlecht.", "Je ne sais pas si c'est bon pour toi", "Это хорошо", "很好"],
)
def test_a_text_in_another_language(text: str) -> None:
    assert not is_language(text, ("en",))
    assert is_language(text, ("en", "de", "fr", "ru", "zh"))


@pytest.mark.parametrize(
    "text",
    ["Was in London, a die hard fan", "Pizza", "Déjà vu in the Café de la Paix.", "Nein!", "He said «это» to me twice"],
)
def test_in_doubt_it_is_the_tasks_language(text: str) -> None:
    assert is_language(text, ("en",))


def test_an_unknown_language_is_not_judged() -> None:
    assert is_language("Das ist nicht so gut.", ("xx",))
    assert is_language("Das ist nicht so gut.", ("sw",))


def test_no_row_that_comes_with_a_pack_is_pointed_out() -> None:
    for name in ("sentiment", "nli", "qa", "hate_speech"):
        pack = find_pack(name)
        assert [row.id for row in pack.seed if text_advice(pack.spec, row.fields)] == []


def test_each_check_can_be_turned_off() -> None:
    assert text_advice(SPEC, {"text": "123"}) == SPEC.messages.no_words
    assert text_advice(changed(words=False), {"text": "123"}) is None
    german = {"text": "Das ist nicht so gut."}
    assert text_advice(SPEC, german) == SPEC.messages.other_language
    assert text_advice(changed(language=False), german) is None
