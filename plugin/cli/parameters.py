"""What several commands take: options, packs by name with shell completion, and the ML backend's password."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from common.text import parse_dollars
from plugin.errors import InputFileError
from plugin.settings import Settings, split_auth
from plugin.wiring import Application
from templates import Pack, PackNotFound, find_pack, load_pack, pack_folders

if TYPE_CHECKING:
    from round_manager.services.context import ServiceContext

# The largest number that both databases store in an integer column.
LARGEST_NUMBER = 2**31 - 1
WHOLE_NUMBER = click.IntRange(1, LARGEST_NUMBER)
LONGEST_FILE = 1_000

DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")
HOST = click.option("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 for all.")
MODE = click.option(
    "--mode", type=click.Choice(["full", "head"]), help="full: fine-tune; head: seconds. Default: the task's."
)
REGISTRY = click.option(
    "--registry", "where", metavar="URL", help="A folder or s3://bucket/prefix. Default: the setting `registry`."
)
RUNTIME = click.option(
    "--runtime",
    type=click.Choice(["auto", "onnx", "torch"]),
    default="auto",
    help="What runs the model; auto: ONNX Runtime if the version has an export.",
)
TIMEOUT = click.option(
    "--timeout", type=click.FloatRange(0.1, 3600), default=60.0, help="Seconds to wait for every process to confirm."
)
WHY = click.option("--why", default="", show_default=False, metavar="TEXT", help="The reason, for the audit log.")
YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")

Command = TypeVar("Command", bound=Callable[..., Any])


def port_option(default: int) -> Callable[[Command], Command]:
    """Return the option for the port of a server."""
    return click.option("--port", type=click.IntRange(0, 65535), default=default, help="Port; 0 picks a free one.")


def round_option(default: str) -> Callable[[Command], Command]:
    """Return the option that names a round; `default` says which one is used without it."""
    text = f"The round's number. Default: {default}."
    return click.option("--round", "number", type=WHOLE_NUMBER, metavar="N", help=text)


class DollarsType(click.ParamType[int]):
    """An amount in dollars and cents, as cents."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the cents of a positive amount."""
        try:
            cents = value if isinstance(value, int) else parse_dollars(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if cents < 1:
            self.fail(f"{value} is too little; the minimum is 0.01", param, ctx)
        return cents


DOLLARS = DollarsType()


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


def backend_auth(settings: Settings, path: Path | None) -> tuple[str, str] | None:
    """Return the user and password from the file, or else from the settings; None if no password is required."""
    if path is None:
        return settings.backend_auth
    try:
        with path.open(encoding="utf-8") as file:
            return split_auth(file.read(LONGEST_FILE).strip(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(f"cannot read {path}; write user:password into it") from error


def find_named_pack(app: Application, name: str) -> Pack:
    """Return the pack of that name or path, or else the one that a task of that name was created from."""
    try:
        return find_pack(name, app.settings.templates_path)
    except PackNotFound:
        folder = None if os.sep in name else _task_folders(app).get(name)
        if folder is None:
            raise
        return load_pack(folder)


def task_pack(services: "ServiceContext", settings: Settings, name: str) -> Pack:
    """Return the pack that a task was created from, or else the pack of its name."""
    from round_manager.services.tasks import task_folder

    folder = task_folder(services, name)
    return load_pack(folder) if (folder / "task.yaml").is_file() else find_pack(name, settings.templates_path)


def known_folders(app: Application) -> tuple[Path, ...]:
    """Return the folders of all packs: the owner's, those of tasks, and the built-in ones."""
    built_in = pack_folders()
    own = (*pack_folders(app.settings.templates_path), *_task_folders(app).values())
    return (*dict.fromkeys(folder for folder in own if folder not in built_in), *built_in)


def _task_folders(app: Application) -> Mapping[str, Path]:
    """Return the packs' folders by the names of their tasks, or nothing if there is no database."""
    # Importing the database takes a while, and most packs are found without it.
    from round_manager.errors import StoreError
    from round_manager.services.tasks import task_folders

    try:
        with app.services() as services:
            found = task_folders(services)
    except StoreError:
        return {}
    return {name: folder for name, folder in found.items() if (folder / "task.yaml").is_file()}
