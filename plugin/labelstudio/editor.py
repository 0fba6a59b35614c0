"""The real labelling editor in a page of ours, on this machine: how a pack's templates will look to people."""

import gzip
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from flask import Flask, Response, abort, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from plugin.labelstudio.bundle import editor_bundle, editor_files, font_files
from plugin.labelstudio.interface import check_templates
from templates import Pack, PackError, Problem, load_pack
from templates.samples import TEMPLATES, Template, sample_prediction, sample_task, template_xml

__all__ = ["editor_files", "preview_app"]

PAGES = Path(__file__).resolve().parents[1] / "pages"
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".ttf": "font/ttf",
}
# The editor sets styles on elements and makes workers from blobs; scripts come from here only.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def preview_app(pack: Pack) -> Flask:
    """A small web application with a page for each template; the pack is read again on every visit."""
    app = Flask("outfox-preview", template_folder=str(PAGES), static_folder=None)
    app.config["TRUSTED_HOSTS"] = ["127.0.0.1", "localhost"]
    bundle = editor_bundle()
    app.add_url_rule("/", "home", lambda: redirect(url_for("page", template="create")))
    app.add_url_rule("/<any(create, validate):template>", "page", _page_of(pack.folder))
    app.add_url_rule("/pages/<name>", "own_file", lambda name: _file(PAGES, name, "no-cache"))
    # The version in the address makes it safe to keep the files for ever.
    for_ever = "public, max-age=31536000, immutable"
    app.add_url_rule(
        f"/editor/{bundle.version}/<name>", "editor_file", lambda name: _file(bundle.folder, name, for_ever)
    )
    app.add_url_rule("/static/fonts/<name>", "font", lambda name: _file(font_files(), name, for_ever))
    app.after_request(_with_content_policy)
    return app


def _page_of(folder: Path) -> Callable[[Template], str]:
    def page(template: Template) -> str:
        bundle = editor_bundle()
        pack, problems = _read(folder)
        setup: dict[str, Any] = {}
        if pack is not None and not problems:
            setup = {
                "config": template_xml(pack, template),
                "task": {"id": 1, **sample_task(pack, template)},
                "prediction": sample_prediction(pack, template) if template == "create" else None,
                "module": bundle.module,
                "chunks": bundle.chunks,
                "styles": bundle.styles,
                "flags": bundle.flags,
            }
        return render_template(
            "preview.html",
            pack=pack,
            folder=folder,
            template=template,
            templates=TEMPLATES,
            problems=problems,
            setup=setup,
            version=bundle.version,
        )

    return page


def _read(folder: Path) -> tuple[Pack | None, list[Problem]]:
    try:
        pack = load_pack(folder)
        return pack, check_templates(pack)
    except PackError as error:
        return None, list(error.problems)


def _file(folder: Path, name: str, caching: str) -> Response:
    """One file of a flat folder; no name leads out of it."""
    suffix = Path(name).suffix
    if not re.fullmatch(r"[\w-][\w.-]*", name) or suffix not in TYPES or not (folder / name).is_file():
        abort(404)
    headers = {"Cache-Control": caching, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    path = folder / name
    if request.accept_encodings["gzip"] and suffix != ".ttf":
        headers["Content-Encoding"] = "gzip"
        return Response(_compressed(path, path.stat().st_mtime_ns), mimetype=TYPES[suffix], headers=headers)
    return Response(path.read_bytes(), mimetype=TYPES[suffix], headers=headers)


@lru_cache(maxsize=64)
def _compressed(path: Path, _changed: int) -> bytes:
    return gzip.compress(path.read_bytes(), compresslevel=6, mtime=0)


def _with_content_policy(response: AnyResponse) -> AnyResponse:
    response.headers["Content-Security-Policy"] = CONTENT_POLICY
    return response
