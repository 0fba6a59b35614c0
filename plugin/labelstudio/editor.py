"""Label Studio's editor in our pages: where the wheel ships it, the parts that a page loads, and the preview of packs.

The wheel contains one bundle of the whole application. The module numbers change with every build, so modules are found
by what they do: the module that exports `LabelStudio`, the chunks that the application loads before it, and the module
with the Tailwind sheet, which is in no CSS file.
"""

import gzip
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, Response, abort, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from common.errors import Hint
from common.translation import SCRIPT as SHARED_SCRIPT
from common.translation import SCRIPT_FOLDER as SHARED_PAGES
from plugin.errors import LabelStudioNotInstalled, PluginError
from plugin.labelstudio.template_check import check_templates
from round_manager.labelstudio.projects import instructions_html
from templates import Pack, PackError, Problem, load_pack
from templates.payloads import Template, sample_prediction, sample_task, template_xml

TESTED_VERSION = "1.23.2"
# The pages of a preview, with their names in its menu.
_PAGES = {"create": "create.xml", "validate": "validate.xml", "instructions": "Instructions and quiz"}
_MODULE = r"(\d+):\(\w+,\w+,\w+\)=>\{"
PAGES = Path(__file__).resolve().parents[1] / "pages"
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".ttf": "font/ttf",
}
_ENDINGS = tuple(TYPES)
# The editor sets styles on elements and creates workers from blobs; scripts come from here only.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class EditorUnsupported(PluginError):
    """The installed Label Studio has an editor that Outfox does not know."""


@dataclass(frozen=True)
class EditorBundle:
    """What a page loads, and the modules it requires from the bundle."""

    folder: Path
    version: str
    module: int
    chunks: tuple[int, ...]
    styles: int
    flags: Mapping[str, bool]


def editor_files() -> Path:
    """Return the folder of the editor's files; LabelStudioNotInstalled if it is missing."""
    # The wheel installs them as a namespace package with this general name.
    folder = _package("web") / "dist" / "apps" / "labelstudio"
    if not (folder / "main.js").is_file():
        raise LabelStudioNotInstalled("the files of Label Studio's editor are not installed")
    return folder


def font_files() -> Path:
    """Return the folder of the fonts that the editor's style sheets use."""
    return _package("label_studio") / "core" / "static" / "fonts"


@cache
def editor_bundle() -> EditorBundle:
    """Return the installed editor; its files are searched once per process."""
    folder = editor_files()
    version = importlib.metadata.version("label-studio")
    main = (folder / "main.js").read_text(encoding="utf-8")
    module = _module_that_exports_the_editor(folder)
    loads = re.search(rf"Promise\.all\(\[([^]]+)\]\)\.then\(\w+\.bind\(\w+,{module}\)\)", main)
    styles = _module_with_tailwind(main)
    if module is None or loads is None or styles is None:
        text = f"the editor of Label Studio {version} is not supported; Outfox supports version {TESTED_VERSION}"
        raise EditorUnsupported(text, hint=Hint("install_label_studio_version", version=TESTED_VERSION))
    chunks = tuple(int(one) for one in re.findall(r"\d+", loads[1]))
    return EditorBundle(folder, version, module, chunks, styles, _flags())


def _module_that_exports_the_editor(folder: Path) -> int | None:
    export = re.compile(_MODULE + r"(?:\"use strict\";)?(?:\w+\.r\(\w+\),)?\w+\.d\(\w+,\{LabelStudio:")
    for file in sorted(folder.glob("*.js")):
        found = export.search(file.read_text(encoding="utf-8"))
        if found:
            return int(found[1])
    return None


def _module_with_tailwind(main: str) -> int | None:
    sheet = main.find("! tailwindcss v")
    before = re.findall(_MODULE, main[max(0, sheet - 1_000) : sheet]) if sheet >= 0 else []
    return int(before[-1]) if before else None


def _flags() -> Mapping[str, bool]:
    """Return Label Studio's feature flags, so that the editor behaves as it does there."""
    document = json.loads((_package("label_studio") / "feature_flags.json").read_text(encoding="utf-8"))
    return {name: _is_on(flag) for name, flag in document["flags"].items()}


def _is_on(flag: Mapping[str, Any]) -> bool:
    place = flag["fallthrough"]["variation"] if flag["on"] else flag["offVariation"]
    return bool(flag["variations"][place])


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise LabelStudioNotInstalled("Label Studio is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def preview_app(pack: Pack) -> Flask:
    """Return a small web app with a page for each template; the pack is read again on every visit."""
    app = Flask("outfox-preview", template_folder=str(PAGES), static_folder=None)
    app.config["TRUSTED_HOSTS"] = ["127.0.0.1", "localhost"]
    editor_bundle()  # A missing editor is reported now, not by an empty page.
    app.add_url_rule("/", "home", lambda: redirect(url_for("page", template="create")))
    app.add_url_rule("/<any(create, validate):template>", "page", _page_of(pack.folder))
    app.add_url_rule("/instructions", "instructions", lambda: _instructions_page(pack.folder))
    add_files(app)
    app.after_request(_with_content_policy)
    return app


def add_files(app: Flask | Blueprint) -> None:
    """Add the routes of the files that a page with the editor loads: the editor's, its fonts, and ours."""
    # The version in the address makes it safe to cache the files forever.
    forever = "public, max-age=31536000, immutable"

    def editor_file(version: str, name: str) -> Response:
        bundle = editor_bundle()
        if version != bundle.version:
            abort(404)
        return _file(bundle.folder, name, forever)

    def own_file(name: str, version: str | None = None) -> Response:
        # A page from before an update may still be loading: it gets the current file, uncached.
        folder = SHARED_PAGES if name == SHARED_SCRIPT else PAGES
        return _file(folder, name, forever if version == pages_version() else "no-cache")

    app.add_url_rule("/pages/<name>", "own_file", own_file)
    app.add_url_rule("/pages/<version>/<name>", "own_file", own_file)
    app.add_url_rule("/editor/<version>/<name>", "editor_file", editor_file)
    app.add_url_rule("/static/fonts/<name>", "font", lambda name: _file(font_files(), name, forever))


def own_addresses() -> Callable[[str], str]:
    """Return what gives the address of one of our files; addresses change with the content of our files."""
    version = pages_version()
    return lambda name: f"/pages/{version}/{name}"


def pages_version() -> str:
    """Return a hash of all files of our pages."""
    # Each page asks for it, and os.scandir takes a third of the time of pathlib.
    with os.scandir(PAGES) as entries:
        files = [(one.path, one.stat().st_mtime_ns) for one in entries if one.name.endswith(_ENDINGS)]
    shared = SHARED_PAGES / SHARED_SCRIPT
    return _fingerprint((*sorted(files), (str(shared), shared.stat().st_mtime_ns)))


@lru_cache(maxsize=4)
def _fingerprint(files: tuple[tuple[str, int], ...]) -> str:
    digest = hashlib.sha256()
    for file, _ in files:
        digest.update(Path(file).read_bytes())
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
            pages=_PAGES,
            problems=problems,
            setup=setup,
            version=bundle.version,
        )

    return page


def _instructions_page(folder: Path) -> str:
    """Return the page with what authors and validators read first, and the quiz with its answers."""
    pack, problems = _read(folder)
    return render_template(
        "preview.html",
        pack=pack,
        folder=folder,
        template="instructions",
        pages=_PAGES,
        problems=problems,
        setup={},
        texts=_instructions(pack) if pack else (),
        version=editor_bundle().version,
    )


def _instructions(pack: Pack) -> list[tuple[str, str, str]]:
    """Return the language, the heading and the text of all instructions."""
    readers = {"create": "What authors read", "validate": "What validators read"}
    return [
        (language, heading, instructions_html(pack.instructions_for(template, language)))
        for language in pack.languages
        for template, heading in readers.items()
    ]


def _read(folder: Path) -> tuple[Pack | None, list[Problem]]:
    try:
        pack = load_pack(folder)
        return pack, check_templates(pack)
    except PackError as error:
        return None, list(error.problems)


def _file(folder: Path, name: str, caching: str) -> Response:
    """Return one file of a flat folder; no name leads out of it."""
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
