"""A new pack from an old one: a whole folder or none."""

import re
import shutil
import tempfile
from pathlib import Path

from templates.errors import TemplateError
from templates.pack import FILES, Pack, load_pack

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def copy_pack(source: Pack, folder: Path) -> Pack:
    """The folder made as a working copy of the source, under the folder's own name."""
    name = folder.name
    if not _NAME.fullmatch(name):
        raise TemplateError(f"`{name}` cannot be a task's name; use lower-case letters, digits and _, a letter first")
    if folder.exists():
        raise TemplateError(f"{folder} is already there; choose another name or remove it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".outfox-") as draft:
            made = Path(draft) / name
            made.mkdir()
            for file in FILES:
                shutil.copyfile(source.folder / file, made / file)
            settings = made / "task.yaml"
            text = settings.read_text(encoding="utf-8-sig")
            settings.write_text(re.sub(r"(?m)^name:.*$", f"name: {name}", text, count=1), encoding="utf-8")
            load_pack(made)
            made.rename(folder)
    except OSError as error:
        raise TemplateError(f"cannot write {folder}: {error.strerror}; choose another folder") from error
    return load_pack(folder)
