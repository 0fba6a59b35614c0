"""Languages of pages: message catalogues, and numbers, money and dates as people write them.

The catalogues are the files `locales/LANGUAGE.po`, written by translators and read when they are first needed. English
is the language of the program's own texts and has no catalogue. Two pseudo-languages test that every text can be
translated: `en-XA` has accents and brackets, and `ar-XB` runs from right to left.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, cast

from babel import Locale, negotiate_locale
from babel.dates import format_skeleton
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_currency, format_decimal, format_percent
from babel.support import NullTranslations, Translations
from jinja2 import Environment, pass_context
from jinja2.runtime import Context

from common.messages import Cents, LocalText, Message, Share, in_language
from common.pseudo import PSEUDO, pseudo_catalog
from common.text import sentence

SOURCE = "en"
# The script with the texts of other scripts; a web app serves it beside its own files.
SCRIPT, SCRIPT_FOLDER = "translation.js", Path(__file__).resolve().parent / "pages"
CATALOGUES = Path(__file__).resolve().parent / "locales"
LANGUAGES = (SOURCE, *sorted(file.stem for file in CATALOGUES.glob("*.po")))
# Numbers that have all plural forms of all languages among them.
_SAMPLES = (*range(201), 1_000_000)
_CURRENCY = "USD"
_UNTRANSLATED = frozenset((str, int, float, bool, type(None)))


class Translator:
    """Renders messages, numbers, money and dates in one language; see `translator`."""

    def __init__(self, language: str, catalog: Catalog | None) -> None:
        self.language = language
        self._locale = Locale.parse(PSEUDO.get(language, language), sep="-")
        self.direction = self._locale.text_direction
        self._catalog = catalog
        self._texts = NullTranslations() if catalog is None else _compiled(catalog)

    def gettext(self, text: str) -> str:
        """Return the translation of a text as it is, with its placeholders."""
        return self._texts.gettext(text)

    def ngettext(self, one: str, many: str, number: int) -> str:
        """Return the translation in the form for a number, with its placeholders."""
        return self._texts.ngettext(one, many, number)

    def text(self, message: str) -> str:
        """Return a message or an author's text in this language; any other text stays as it is."""
        if isinstance(message, LocalText):
            return in_language(message, best_language([self.language], message.texts) or self.language)
        if not isinstance(message, Message):
            return message
        one, many = message.id, message.plural
        pattern = self.ngettext(one, many, message.number) if many else self.gettext(one)
        text = pattern % {name: self._shown(value) for name, value in message.params.items()}
        return sentence(text) if message.is_sentence else text

    def data(self, value: Any) -> Any:
        """Return JSON-compatible data with all messages in it in this language."""
        # Most values are of these types; messages are of subclasses of str.
        if type(value) in _UNTRANSLATED:
            return value
        if isinstance(value, Mapping):
            return {name: self.data(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(one) for one in value]
        return self.text(value) if isinstance(value, str) else value

    def number(self, number: int) -> str:
        """Return a whole number with separators: `1,200` or `1.200`."""
        return format_decimal(number, locale=self._locale)

    def percent(self, share: float) -> str:
        """Return a share as a whole percentage: `70%` or `70 %`."""
        return format_percent(share, format=None, locale=self._locale)

    def money(self, cents: int) -> str:
        """Return an amount: `$1,234.50` or `1.234,50 $`."""
        return format_currency(Decimal(cents) / 100, _CURRENCY, locale=self._locale)

    def date(self, on: date, form: str = "yMMMd") -> str:
        """Return a date; `form` is a CLDR skeleton, which names what to show: `MMMd` is `Mar 1` or `1. März`."""
        return format_skeleton(form, datetime.combine(on, time()), locale=self._locale)

    def script_messages(self, folder: str) -> dict[str, Any]:
        """Return what `translation.js` needs in a page: the language, and the messages of the scripts in a folder.

        A message is a text, or its plural forms by the categories that `Intl.PluralRules` knows.
        """
        messages: dict[str, str | dict[str, str]] = {}
        for message in self._catalog or ():
            # Fuzzy entries are guesses; a test rejects catalogues that have some.
            if message.id and any(_is_script(place, folder) for place, _ in message.locations):
                if isinstance(message.id, tuple):
                    messages[message.id[0]] = self._plural_forms(*message.id)
                else:
                    messages[str(message.id)] = self.gettext(str(message.id))
        return {"language": self.language, "messages": messages}

    def _plural_forms(self, one: str, many: str) -> dict[str, str]:
        return {self._locale.plural_form(number): self.ngettext(one, many, number) for number in _SAMPLES}

    def _shown(self, value: object) -> str:
        if isinstance(value, Cents):
            return self.money(value)
        if isinstance(value, Share):
            return self.percent(value)
        if isinstance(value, int):
            return self.number(value)
        if isinstance(value, list):
            return ", ".join(self._shown(one) for one in value)
        return self.text(value) if isinstance(value, str) else str(value)


@cache
def translator(language: str) -> Translator:
    """Return what renders one of the languages that `is_known` knows; its catalogue is read once per process."""
    if language == SOURCE:
        return Translator(language, None)
    if language in PSEUDO:
        return Translator(language, pseudo_catalog(language, _catalog(LANGUAGES[1])))
    return Translator(language, _catalog(language))


def is_known(language: str) -> bool:
    """Whether pages can be shown in a language."""
    return language in LANGUAGES or language in PSEUDO


def best_language(wanted: Iterable[str], among: Iterable[str] = (*PSEUDO, *LANGUAGES)) -> str | None:
    """Return the first of the wanted languages that is there: `de` for `de-AT`; None if none is."""
    return negotiate_locale([one for one in wanted if one], list(among), sep="-")


def browser_language(accepted: Iterable[str]) -> str:
    """Return the language for a browser that accepts these, the best one first."""
    return best_language(accepted) or SOURCE


def own_name(language: str) -> str:
    """Return a language's name in that language, for example `Deutsch`."""
    name: str = Locale.parse(language, sep="-").get_display_name() or language
    return name[:1].upper() + name[1:]


def add_translation(environment: Environment, current: Callable[[], Translator]) -> None:
    """Let templates mark their texts with `_`, `ngettext` and `trans`; `current` is the translator of the request.

    Messages of the domain that a template prints are rendered in the page's language too.
    """
    environment.add_extension("jinja2.ext.i18n")
    environment.policies["ext.i18n.trimmed"] = True
    environment.install_gettext_callables(  # type: ignore[attr-defined]
        lambda text: current().gettext(text),
        lambda one, many, number: current().ngettext(one, many, number),
        newstyle=True,
    )
    for name in ("gettext", "ngettext"):
        call = cast("Callable[..., str]", environment.globals[name])
        environment.globals[name] = _with_rendered_values(call, current)
    environment.globals["translation"] = current
    environment.finalize = lambda value: _rendered(value, current)
    for name in ("number", "percent", "money", "date"):
        environment.filters[name] = _filter(name, current)


def language_links(address: Callable[[str], str], current: Translator) -> list[dict[str, object]]:
    """Return the languages that a visitor can choose, each with the address of the page in it."""
    return [
        {"code": one, "name": own_name(one), "address": address(one), "is_current": one == current.language}
        for one in LANGUAGES
    ]


def _with_rendered_values(call: Callable[..., str], current: Callable[[], Translator]) -> Callable[..., str]:
    @pass_context
    def render(context: Context, *texts: Any, **values: Any) -> str:
        return call(context, *texts, **{name: _rendered(value, current) for name, value in values.items()})

    return render


def _rendered(value: Any, current: Callable[[], Translator]) -> Any:
    return current().text(value) if isinstance(value, LocalText | Message) else value


def _filter(name: str, current: Callable[[], Translator]) -> Callable[..., str]:
    def render(*values: Any) -> str:
        text: str = getattr(current(), name)(*values)
        return text

    return render


@cache
def _catalog(language: str) -> Catalog:
    with (CATALOGUES / f"{language}.po").open("rb") as file:
        return read_po(file, locale=language.replace("-", "_"), abort_invalid=True)


def _compiled(catalog: Catalog) -> Translations:
    buffer = BytesIO()
    write_mo(buffer, catalog)
    buffer.seek(0)
    return Translations(buffer)


def _is_script(place: str, folder: str) -> bool:
    return place.startswith(folder) and place.endswith(".js")
