"""Label Studio's editor as its wheel ships it: where its files are and which parts of them a page of ours needs.

The wheel carries one bundle of the whole application. The numbers of its parts change with every build, so they are
looked up by what the parts do: the module that exports `LabelStudio`, the chunks that the application itself loads
before that module, and the module with the Tailwind sheet, which is in no CSS file.
"""

import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from plugin.labelstudio.errors import INSTALL, LabelStudioError

TESTED_VERSION = "1.23.2"
_MODULE = r"(\d+):\(\w+,\w+,\w+\)=>\{"


@dataclass(frozen=True)
class EditorBundle:
    """What a page has to load, and what it has to ask the bundle for."""

    folder: Path
    version: str
    module: int
    chunks: tuple[int, ...]
    styles: int
    flags: Mapping[str, bool]


def editor_files() -> Path:
    """The folder of the editor's files, or a LabelStudioError that says how to get them."""
    # The wheel installs them as a namespace package of this very general name.
    folder = _package("web") / "dist" / "apps" / "labelstudio"
    if not (folder / "main.js").is_file():
        raise LabelStudioError(f"the files of Label Studio's editor are not installed; run: {INSTALL}")
    return folder


def font_files() -> Path:
    """The folder of the fonts that the editor's style sheets name."""
    return _package("label_studio") / "core" / "static" / "fonts"


@cache
def editor_bundle() -> EditorBundle:
    """The installed editor, looked through once per process."""
    folder = editor_files()
    version = importlib.metadata.version("label-studio")
    main = (folder / "main.js").read_text(encoding="utf-8")
    module = _module_that_exports_the_editor(folder)
    loads = re.search(rf"Promise\.all\(\[([^]]+)\]\)\.then\(\w+\.bind\(\w+,{module}\)\)", main)
    styles = _module_with_tailwind(main)
    if module is None or loads is None or styles is None:
        text = f"Label Studio {version} has another editor than {TESTED_VERSION}, which Outfox knows"
        raise LabelStudioError(f"{text}; run: pip install label-studio=={TESTED_VERSION}")
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
    """The switches that Label Studio ships with, so that the editor behaves here as it does there."""
    document = json.loads((_package("label_studio") / "feature_flags.json").read_text(encoding="utf-8"))
    return {name: _is_on(flag) for name, flag in document["flags"].items()}


def _is_on(flag: Mapping[str, Any]) -> bool:
    place = flag["fallthrough"]["variation"] if flag["on"] else flag["offVariation"]
    return bool(flag["variations"][place])


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise LabelStudioError(f"Label Studio is not installed; run: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations)))
