"""The real labelling editor in a page of ours, on this machine: how a pack's templates will look to people."""

import gzip
import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, Response, abort, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from plugin.labelstudio.bundle import editor_bundle, editor_files, font_files
from plugin.labelstudio.interface import check_templates
from templates import Pack, PackError, Problem, load_pack
from templates.samples import TEMPLATES, Template, sample_prediction, sample_task, template_xml

__all__ = ["PAGES", "add_files", "editor_files", "own_address", "preview_app"]

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
    editor_bundle()  # An editor that is not there is told now, and not by an empty page.
    app.add_url_rule("/", "home", lambda: redirect(url_for("page", template="create")))
    app.add_url_rule("/<any(create, validate):template>", "page", _page_of(pack.folder))
    add_files(app)
    app.after_request(_with_content_policy)
    return app


def add_files(app: Flask | Blueprint) -> None:
    """The routes of the files that a page with the editor loads: the editor's own, its fonts, and ours."""
    # The version in the address makes it safe to keep the files for ever.
    for_ever = "public, max-age=31536000, immutable"

    def editor_file(version: str, name: str) -> Response:
        bundle = editor_bundle()
        if version != bundle.version:
            abort(404)
        return _file(bundle.folder, name, for_ever)

    def own_file(name: str, version: str | None = None) -> Response:
        # A page of before an update may still be loading: it gets what there is, but does not keep it.
        return _file(PAGES, name, for_ever if version == pages_version() else "no-cache")

    app.add_url_rule("/pages/<name>", "own_file", own_file)
    app.add_url_rule("/pages/<version>/<name>", "own_file", own_file)
    app.add_url_rule("/editor/<version>/<name>", "editor_file", editor_file)
    app.add_url_rule("/static/fonts/<name>", "font", lambda name: _file(font_files(), name, for_ever))


def own_address(name: str) -> str:
    """Where a file of ours is to be had, at an address that changes with what is in our files."""
    return f"/pages/{pages_version()}/{name}"


def pages_version() -> str:
    """A fingerprint of all files that our pages are made of."""
    files = sorted(file for file in PAGES.iterdir() if file.suffix in TYPES)
    return _fingerprint(tuple((file, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=4)
def _fingerprint(files: tuple[tuple[Path, int], ...]) -> str:
    digest = hashlib.sha256()
    for file, _ in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


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
    path, headers = folder / name, {"Cache-Control": caching, "X-Content-Type-Options": "nosniff"}
    body = None
    if suffix != ".ttf":
        headers["Vary"] = "Accept-Encoding"
        if request.accept_encodings["gzip"]:
            headers["Content-Encoding"] = "gzip"
            body = _compressed(path, path.stat().st_mtime_ns)
    response = Response(body or path.read_bytes(), mimetype=TYPES[suffix], headers=headers)
    response.add_etag()
    response.make_conditional(request)
    return response


@lru_cache(maxsize=64)
def _compressed(path: Path, _changed: int) -> bytes:
    return gzip.compress(path.read_bytes(), compresslevel=6, mtime=0)


def _with_content_policy(response: AnyResponse) -> AnyResponse:
    response.headers["Content-Security-Policy"] = CONTENT_POLICY
    return response
