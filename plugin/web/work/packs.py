"""The packs of live tasks, for the templates and instructions that their pages show."""

import threading
from pathlib import Path
from typing import get_args

from round_manager.labelstudio.projects import instructions_html
from templates import Pack, find_pack, load_pack
from templates.payloads import Json
from templates.samples import Template, sample_task, template_xml


class PackShelf:
    """Reads a pack when it is first shown and whenever its files changed; may be used by many threads at once."""

    def __init__(self, own_folder: Path) -> None:
        self._own = own_folder
        self._known: dict[str, tuple[int, ShownPack]] = {}
        self._lock = threading.Lock()

    def find(self, name: str, folder: str) -> "ShownPack":
        """The pack of a task, where it was when the task was made or else by its name; a TemplateError without one."""
        made_from = Path(folder)
        with self._lock:
            changed = max((file.stat().st_mtime_ns for file in made_from.glob("*.*")), default=0)
            known = self._known.get(name)
            if known is None or known[0] != changed:
                pack = load_pack(made_from) if made_from.is_dir() else find_pack(name, self._own)
                known = self._known[name] = (changed, ShownPack(pack))
            return known[1]


class ShownPack:
    """What pages show of a pack."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._instructions = {
            template: instructions_html(pack.instructions, template) for template in get_args(Template)
        }

    def instructions_html(self, template: Template) -> str:
        """The instructions, for those who write or for those who check."""
        return self._instructions[template]

    def config(self, template: Template) -> str:
        """The template, as a Label Studio annotator gets it."""
        return template_xml(self._pack, template)

    def sample(self, template: Template) -> Json:
        """The data of a sample task."""
        data: Json = sample_task(self._pack, template)["data"]
        return data
