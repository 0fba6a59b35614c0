"""The language of the worker site: what the visitor chose, or else what their browser prefers."""

from datetime import timedelta
from urllib.parse import urlencode

from flask import Flask, Response, g, request

from common.translation import Translator, add_translation, best_language, browser_language, language_links, translator

# A visitor chooses a language by this parameter of any page's address, and the cookie keeps it.
PARAMETER = "lang"
COOKIE = "outfox_language"
KEPT_FOR = timedelta(days=365)


def add_languages(app: Flask) -> None:
    """Show the site in the language of each request, and keep a visitor's choice."""
    add_translation(app.jinja_env, site_translator)
    app.jinja_env.globals["languages"] = lambda: language_links(_address, site_translator())

    @app.after_request
    def keep_choice(response: Response) -> Response:
        chosen = best_language([request.args.get(PARAMETER, "")])
        if chosen and chosen != request.cookies.get(COOKIE):
            response.set_cookie(
                COOKIE, chosen, max_age=KEPT_FOR, secure=request.is_secure, httponly=True, samesite="Lax", path="/"
            )
        return response


def _address(language: str) -> str:
    """Return the address of this page in a language; a form's result has no address of its own."""
    path = request.path if request.method == "GET" else "/"
    return f"{path}?{urlencode({**request.args, PARAMETER: language})}"


def site_translator() -> Translator:
    """Return the translator of the request."""
    if "language" not in g:
        chosen = (request.args.get(PARAMETER, ""), request.cookies.get(COOKIE, ""))
        g.language = best_language(chosen) or browser_language(request.accept_languages.values())
    return translator(g.language)
