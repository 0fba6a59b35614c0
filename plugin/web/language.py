"""The language of a request: what the address names, what the worker chose, or what the task and the browser speak."""

from collections.abc import Sequence
from urllib.parse import urlencode

from flask import Flask, g, request

from common.translation import (
    Translator,
    add_translation,
    best_language,
    browser_language,
    is_known,
    language_links,
    translator,
)

# The parameter of a page's address by which a visitor chooses a language.
PARAMETER = "lang"


def add_languages(app: Flask) -> None:
    """Let the app's templates show their texts in the language of the request."""
    add_translation(app.jinja_env, current_translator)
    app.jinja_env.globals["languages"] = lambda: language_choices(language_address())


def language_address() -> str:
    """Return the address of this page in another language, up to the language's code."""
    others = urlencode([(name, value) for name, value in request.args.items() if name != PARAMETER])
    return f"{request.path}?{others}&{PARAMETER}=" if others else f"{request.path}?{PARAMETER}="


def language_choices(address: str) -> list[dict[str, object]]:
    """Return the languages that a visitor can choose; their codes complete the address."""
    return language_links(lambda language: address + language, current_translator())


def current_translator() -> Translator:
    """Return the translator of the request: in the language that its view set, chosen by address, or of its browser.

    A page's script asks for the page's own language, as a browser does.
    """
    if "language" not in g:
        g.language = chosen_language() or browser_language(request.accept_languages.values())
    return translator(g.language)


def set_language(language: str) -> None:
    """Set the language of the response."""
    g.language = language


def chosen_language() -> str | None:
    """Return the language that the address names, if it is known."""
    chosen = request.args.get(PARAMETER, "")
    return chosen if is_known(chosen) else None


def task_language(languages: Sequence[str]) -> str:
    """Return the language for the pages of a task: the best of its own for the browser, else its first known one."""
    accepted = list(request.accept_languages.values())
    known = [found for one in languages if (found := best_language([one]))]
    return best_language(accepted, known) or (known[0] if known else browser_language(accepted))


def pack_languages(languages: Sequence[str]) -> list[str]:
    """Return a pack's languages, the one first in which this page shows its texts."""
    shown = best_language([current_translator().language], languages) or languages[0]
    return [shown, *(one for one in languages if one != shown)]
