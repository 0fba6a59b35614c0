"""Messages for workers: English text that remembers what it was made from, so that pages can show other languages.

The domain makes messages and knows no language. A `Message` is a string, so logs, tests and the command line show the
English text; `common.translation` renders it in the language of a page.
"""

from collections.abc import Mapping

from common.text import dollars


class Cents(int):
    """An amount of money as a parameter of a message."""

    __slots__ = ()


class Message(str):
    """A text in English with its id, its plural and its parameters."""

    __slots__ = ("id", "number", "params", "plural")

    id: str
    plural: str
    number: int
    params: Mapping[str, object]

    @classmethod
    def of(cls, one: str, many: str, number: int, params: Mapping[str, object]) -> "Message":
        """Return the message of a singular and a plural; `many` is empty for a message without a plural."""
        chosen = many if many and number != 1 else one
        made = cls(chosen % {name: _in_english(value) for name, value in params.items()})
        made.id, made.plural, made.number, made.params = one, many, number, params
        return made


def gettext(text: str, /, **params: object) -> Message:
    """Return a message, for example `gettext("%(title)s is empty", title=field.title)`; a percent sign is `%%`.

    A parameter can be a text, a whole number, `Cents`, or another message. Texts are not translated.
    """
    return Message.of(text, "", 1, params)


def ngettext(one: str, many: str, number: int, /, **params: object) -> Message:
    """Return a message with a number, `%(n)s`: `ngettext("%(n)s attempt left", "%(n)s attempts left", left)`."""
    return Message.of(one, many, number, {"n": number, **params})


def _in_english(value: object) -> str:
    if isinstance(value, Cents):
        return dollars(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
