"""Packs by name: in the folders of packs, then in the folders that tasks were created from."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from templates import Pack, PackNotFound, find_pack, load_pack, pack_folders

if TYPE_CHECKING:
    from plugin.settings import Settings
    from plugin.wiring import Application
    from round_manager.database.store import Store


def find_named_pack(app: "Application", name: str) -> Pack:
    """Return the pack of that name or path, or else the one that a task of that name was created from."""
    try:
        return find_pack(name, app.settings.templates_path)
    except PackNotFound:
        folder = None if os.sep in name else _task_folders(app).get(name)
        if folder is None:
            raise
        return load_pack(folder)


def task_pack(store: "Store", settings: "Settings", name: str) -> Pack:
    """Return the pack that a task was created from, or else the pack of its name."""
    from round_manager.tasks.tasks import find_task

    with store.read() as session:
        folder = Path(find_task(session, name).folder)
    return load_pack(folder) if (folder / "task.yaml").is_file() else find_pack(name, settings.templates_path)


def known_folders(app: "Application") -> tuple[Path, ...]:
    """Return the folders of all packs: the owner's, those of tasks, and the built-in ones."""
    built_in = pack_folders()
    own = (*pack_folders(app.settings.templates_path), *_task_folders(app).values())
    return (*dict.fromkeys(folder for folder in own if folder not in built_in), *built_in)


def _task_folders(app: "Application") -> Mapping[str, Path]:
    """Return the packs' folders by the names of their tasks, or nothing if there is no database."""
    # Importing the database takes a while, and most packs are found without it.
    from round_manager.errors import StoreError
    from round_manager.tasks.tasks import list_tasks

    try:
        with app.open_store() as store, store.read() as session:
            found = {task.name: Path(task.folder) for task in list_tasks(session)}
    except StoreError:
        return {}
    return {name: folder for name, folder in found.items() if (folder / "task.yaml").is_file()}
