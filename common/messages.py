"""Texts for workers that pages can show in other languages: messages of ours, and texts that a task's author wrote.

The domain makes messages and knows no language. A `Message` is a string, so logs, tests and the command line show the
English text; `common.translation` renders it in the language of a page. A `LocalText` has all of its languages.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from common.text import dollars, sentence


class Cents(int):
    """An amount of money as a parameter of a message."""

    __slots__ = ()


class Share(float):
    """A share from 0 to 1 as a parameter of a message, shown as a whole percentage."""

    __slots__ = ()


class Message(str):
    """A text in English with its id, its plural and its parameters; `plural` is empty for a text without a number."""

    __slots__ = ("id", "is_sentence", "number", "params", "plural")

    id: str
    plural: str
    number: int
    params: Mapping[str, object]
    is_sentence: bool

    @classmethod
    def of(
        cls, one: str, many: str, number: int, params: Mapping[str, object], *, is_sentence: bool = False
    ) -> "Message":
        """Return a message in the form for a number."""
        chosen = many if many and number != 1 else one
        text = chosen % {name: _in_english(value) for name, value in params.items()}
        made = cls(sentence(text) if is_sentence else text)
        made.id, made.plural, made.number, made.params, made.is_sentence = one, many, number, params, is_sentence
        return made

    def with_params(self, change: Callable[[object], object]) -> "Message":
        """Return the same message with changed parameters."""
        changed = {name: change(value) for name, value in self.params.items()}
        return Message.of(self.id, self.plural, self.number, changed, is_sentence=self.is_sentence)


class LocalText(str):
    """A text that its author wrote in several languages; the string is the text in the first of them."""

    __slots__ = ("texts",)

    texts: Mapping[str, str]

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "LocalText":
        """Return the text with these versions, by language."""
        made = cls(next(iter(texts.values())))
        made.texts = dict(texts)
        return made


def in_language(text: str, language: str) -> str:
    """Return an author's text in a language, or else in its first one."""
    return text.texts.get(language, str(text)) if isinstance(text, LocalText) else text


def filled(text: str, slots: Mapping[str, str]) -> str:
    """Return an author's text with its `{slots}` filled, in each language that it or a slot has."""
    languages = [*dict.fromkeys(name for one in (text, *slots.values()) for name in _languages(one))]
    if not languages:
        return text.format_map(slots)
    return LocalText.of(
        {
            one: in_language(text, one).format_map({name: in_language(value, one) for name, value in slots.items()})
            for one in languages
        }
    )


def versions(text: str) -> list[str]:
    """Return an author's text in each of its languages."""
    return [*text.texts.values()] if isinstance(text, LocalText) else [text]


def _languages(text: str) -> Iterable[str]:
    return text.texts if isinstance(text, LocalText) else ()


def gettext(text: str, /, **params: object) -> Message:
    """Return a message, for example `gettext("%(title)s is empty", title=field.title)`; a percent sign is `%%`.

    A parameter can be a text, a whole number, `Cents`, a `Share`, another message, or a list of these. Texts are not
    translated.
    """
    return Message.of(text, "", 1, params)


def ngettext(one: str, many: str, number: int, /, **params: object) -> Message:
    """Return a message with a number, `%(n)s`: `ngettext("%(n)s attempt left", "%(n)s attempts left", left)`."""
    return Message.of(one, many, number, {"n": number, **params})


def in_a_row(texts: Sequence[str]) -> Message:
    """Return several texts or messages with spaces between them as one message."""
    params = {f"part{place}": text for place, text in enumerate(texts)}
    return Message.of(" ".join(f"%({name})s" for name in params), "", 1, params)


def as_sentence(text: str) -> str:
    """Return a text with a capital letter at its start and a full stop at its end; a message stays a message."""
    if isinstance(text, Message):
        return Message.of(text.id, text.plural, text.number, text.params, is_sentence=True)
    return sentence(text)


def _in_english(value: object) -> str:
    if isinstance(value, Cents):
        return dollars(value)
    if isinstance(value, Share):
        return f"{value:.0%}"
    if isinstance(value, list):
        return ", ".join(_in_english(one) for one in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
