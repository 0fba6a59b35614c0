"""Arguments that several commands share, with shell completion."""

from typing import Any

import click
from click.shell_completion import CompletionItem

from plugin.packs import find_named_pack, known_folders
from plugin.wiring import Application
from templates import Pack, find_pack, pack_folders

# The largest number that both databases store in an integer column.
LARGEST_NUMBER = 2**31 - 1
WHOLE_NUMBER = click.IntRange(1, LARGEST_NUMBER)


class PackType(click.ParamType[Pack]):
    """A task pack by name or folder."""

    name = "pack"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Pack:
        """Load the pack; its task.yaml must be valid."""
        if isinstance(value, Pack):
            return value
        app = ctx.find_object(Application) if ctx else None
        return find_named_pack(app, str(value)) if app else find_pack(str(value))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete names of packs, then folders."""
        app = ctx.find_object(Application)
        folders = known_folders(app) if app else pack_folders()
        names = [CompletionItem(folder.name) for folder in folders if folder.name.startswith(incomplete)]
        return [*names, CompletionItem(incomplete, type="dir")]


PACK = PackType()
