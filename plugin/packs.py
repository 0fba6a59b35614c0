"""Packs by name: in the folders of packs, and last where tasks that are in the database were made from."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from plugin.settings import Settings
from templates import Pack, PackError, TemplateError, find_pack, load_pack, pack_folders

if TYPE_CHECKING:
    from round_manager.database.store import Store


def find_named_pack(name: str, settings: Settings) -> Pack:
    """The pack of that name or path; the one that a task of that name was made from is looked for last."""
    try:
        return find_pack(name, settings.templates_path)
    except PackError:
        raise
    except TemplateError:
        folder = None if os.sep in name else _task_folders(settings).get(name)
        if folder is None:
            raise
        return load_pack(folder)


def task_pack(store: "Store", settings: Settings, name: str) -> Pack:
    """Return the pack that a task was made from, or else the pack of its name."""
    from round_manager.tasks.tasks import find_task

    with store.read() as session:
        folder = Path(find_task(session, name).folder)
    return load_pack(folder) if (folder / "task.yaml").is_file() else find_pack(name, settings.templates_path)


def known_folders(settings: Settings) -> tuple[Path, ...]:
    """The folders of all packs: the owner's, those that tasks are made from, and the built-in ones."""
    built_in = pack_folders()
    theirs = (*pack_folders(settings.templates_path), *_task_folders(settings).values())
    return (*dict.fromkeys(folder for folder in theirs if folder not in built_in), *built_in)


def _task_folders(settings: Settings) -> Mapping[str, Path]:
    """Where the packs of tasks are, by the tasks' names; none without a database, for packs need none."""
    # It takes a while, and most packs are found without.
    from round_manager.database.store import open_store
    from round_manager.errors import StoreError
    from round_manager.tasks.tasks import list_tasks

    try:
        with open_store(settings.database) as store, store.read() as session:
            found = {one.name: Path(one.folder) for one in list_tasks(session)}
    except StoreError:
        return {}
    return {name: folder for name, folder in found.items() if (folder / "task.yaml").is_file()}
