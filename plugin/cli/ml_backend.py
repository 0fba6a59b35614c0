"""`outfox ml-backend`: the ML backend that Label Studio asks."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plugin.cli.auth import backend_auth
from plugin.cli.rotation import REGISTRY
from plugin.errors import PluginError
from plugin.packs import find_named_pack
from plugin.settings import Settings
from plugin.wiring import Application
from templates import Pack
from templates.errors import PackError, TemplateError

if TYPE_CHECKING:
    from ml_backend.registry.registry import Registry

log = logging.getLogger(__name__)
Knows = Callable[[str], bool]

NO_MODEL = """
no task has a model that answers yet, and each is served as soon as it has one: `outfox model train sentiment` trains \
one, `outfox round open sentiment` lets it answer"""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command("ml-backend")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9090, show_default=True, help="Port; 0 finds a free one."
)
@click.option(
    "--tasks",
    "names",
    metavar="TASK,...",
    help="Tasks to serve. Default: all that have a model pinned, now or later.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes, each with models of its own; one uses all cores, more survive the death of one.",
)
@click.option(
    "--queue", type=click.IntRange(0, 1_000), default=64, show_default=True, help="Requests that may wait per process."
)
@click.option(
    "--runtime",
    type=click.Choice(["auto", "onnx", "torch"]),
    default="auto",
    show_default=True,
    help="What runs the models; auto: ONNX Runtime where a version has it.",
)
@click.option(
    "--attempts",
    type=click.Choice(["database", "web"]),
    default="database",
    show_default=True,
    help="Where every try is kept: the database itself, or the web app (`web_url`) where only that can reach it.",
)
@click.option(
    "--auth",
    "auth_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with user:password that Label Studio must send. Default: the setting `ml_backend_auth`.",
)
@click.option(
    "--grace", type=click.IntRange(5, 600), default=30, show_default=True, help="Seconds to finish when told to stop."
)
@click.option("--open", "unguarded", is_flag=True, help="Ask for no password though others can reach this address.")
@REGISTRY
@click.pass_obj
def ml_backend(
    app: Application,
    host: str,
    port: int,
    names: str | None,
    workers: int,
    queue: int,
    runtime: str,
    attempts: str,
    auth_file: Path | None,
    grace: int,
    unguarded: bool,
    where: str | None,
) -> None:
    """Serve live verdicts to Label Studio until Ctrl-C; a task's address is http://HOST:PORT/tasks/TASK."""
    settings = app.settings
    from ml_backend.registry.model_loader import ModelLoader
    from ml_backend.registry.model_pool import ModelPool
    from ml_backend.registry.registry import open_registry
    from ml_backend.serving.backend import BackendConfig, cores, serve
    from ml_backend.serving.middleware import BasicAuth
    from ml_backend.serving.processes import Address
    from plugin.attempts import deliver_by_post, deliver_to_store

    registry, cache = where or settings.registry_location, settings.cache_path / "models"
    if registry == str(settings.home_path / "models"):
        # Ours to make before the first training. Any other place that is missing may be a disk that is only away.
        with suppress(OSError):  # The registry tells what is wrong with its folder.
            (settings.make_home() / "models").mkdir(exist_ok=True)
    auth = backend_auth(settings, auth_file)
    packs, can_serve = _served(settings, names, open_registry(registry, cache))
    if auth is None and not unguarded and host not in LOOPBACK:
        raise PluginError(f"others can reach {host}: give a password with --auth or ml_backend_auth, or say --open")

    def open_pool() -> ModelPool:
        return ModelPool(open_registry(registry, cache), ModelLoader(packs, runtime), list(packs), can_serve=can_serve)

    config = BackendConfig(
        packs,
        open_pool,
        deliver=deliver_by_post(settings) if attempts == "web" else deliver_to_store(settings),
        outbox=settings.make_home() / "tries",
        auth=BasicAuth(*auth) if auth else None,
        secrets=settings.signing_secrets(),
        at_once=max(1, cores() // workers),
        room=queue,
    )
    listening = Address(host, port).listen()
    served = f"serving {', '.join(packs) or 'no task'} at http://{host}:{listening.getsockname()[1]}/tasks/TASK"
    click.echo(f"{served} (Ctrl-C ends it){'' if packs else NO_MODEL}")
    serve(config, listening, workers=workers, grace=grace)


def _served(settings: Settings, names: str | None, registry: "Registry") -> tuple[Mapping[str, Pack], Knows | None]:
    """The packs of the tasks that were named; or of those whose models answer now, and how to tell of later ones.

    Of the latter, one whose pack is not here or broken is left out: a pack that somebody works on must not keep the
    others from being served. Where that leaves none, the broken one is told at once.
    """
    from ml_backend.serving.backend import PackCatalogue

    if names:
        found = [find_named_pack(name.strip(), settings) for name in names.split(",")]
        return {pack.spec.name: pack for pack in found}, None
    catalogue = PackCatalogue(lambda task: find_named_pack(task, settings))
    broken = None
    for task in registry.tasks():
        if registry.stamp(task):
            try:
                catalogue.add(task)
            except TemplateError as error:
                broken = error if isinstance(error, PackError) else broken
                log.warning("a task is not served", extra={"data": {"task": task, "error": str(error)}})
    if broken and not catalogue:
        raise broken
    return catalogue, catalogue.can_serve
