"""The HTML of a HIT's page.

Pages of one kind of HIT differ only in what the visitor may do and in the addresses of their links. So the rest of a
page is rendered once, and kept; most of the time of opening a page was spent on it.
"""

import gzip
import json
import secrets

from flask import Response, render_template, request
from markupsafe import escape

from plugin.labelstudio.editor import own_addresses, pages_version
from plugin.web.language import current_translator, language_address, language_choices
from templates.payloads import Json

# There are few kinds of HITs, languages and errors.
MOST_KEPT = 200
# What differs between visits of a page: in the setup, and in that of its task. The template does not read it.
OF_VISIT, OF_TASK_VISIT = ("session", "token", "sample"), ("instructions_read",)


class PageRenderer:
    """Renders pages from their setup; safe to use from many threads."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], str] = {}
        # Nobody can guess them, so no text of a pack contains them.
        self._setup_mark, self._address_mark = secrets.token_hex(16), secrets.token_hex(16)

    def response(self, setup: Json) -> Response:
        """Return the page with this setup, in the language of the request."""
        translated = current_translator().data(setup)
        page = self._page(translated).replace(self._address_mark, escape(language_address()))
        page = page.replace(self._setup_mark, _in_script(translated))
        body = page.encode()
        response = Response(body, content_type="text/html; charset=utf-8")
        response.headers["Vary"] = "Accept-Encoding"
        if request.accept_encodings["gzip"]:
            response.set_data(gzip.compress(body, compresslevel=6, mtime=0))
            response.headers["Content-Encoding"] = "gzip"
        return response

    def _page(self, setup: Json) -> str:
        """Return the page with marks in the places of its setup and its address."""
        shared = {name: value for name, value in setup.items() if name not in OF_VISIT}
        shared["task"] = {name: value for name, value in setup["task"].items() if name not in OF_TASK_VISIT}
        key = current_translator().language, pages_version(), json.dumps(shared)
        page = self._kept.get(key)
        if page is None:
            page = render_template(
                "work.html",
                setup=shared,
                setup_json=self._setup_mark,
                languages=lambda: language_choices(self._address_mark),
                file=own_addresses(),
            )
            if len(self._kept) >= MOST_KEPT:
                self._kept = {}
            self._kept[key] = page
        return page


def _in_script(data: Json) -> str:
    """Return JSON that is safe within a script element."""
    text = json.dumps(data)
    for sign, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("'", "\\u0027")):
        text = text.replace(sign, escaped)
    return text
