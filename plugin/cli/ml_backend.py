"""`outfox ml-backend`: the ML backend that Label Studio asks."""

import logging
from collections.abc import Sequence
from pathlib import Path

import click

from plugin.cli.auth import backend_auth
from plugin.cli.rotation import REGISTRY
from plugin.errors import PluginError
from plugin.settings import Settings
from templates import Pack, find_pack
from templates.errors import PackError, TemplateError

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command("ml-backend")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9090, show_default=True, help="Port; 0 finds a free one."
)
@click.option(
    "--tasks", "names", metavar="TASK,...", help="Tasks to serve. Default: all that have a model in the registry."
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
    settings: Settings,
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
    from ml_backend.registry.registry import open_registry
    from ml_backend.registry.shelf import Shelf
    from ml_backend.serving.auth import BasicAuth
    from ml_backend.serving.backend import Plan, cores
    from ml_backend.serving.loading import Loader
    from ml_backend.serving.processes import Address
    from ml_backend.serving.server import serve
    from plugin.attempts import deliver_by_post, deliver_to_store

    registry, cache = where or settings.registry_place, settings.cache_path / "models"
    auth = backend_auth(settings, auth_file)
    known = open_registry(registry, cache).tasks()
    packs = _packs(settings, names.split(",")) if names else _packs_of(settings, known)
    if auth is None and not unguarded and host not in LOOPBACK:
        raise PluginError(f"others can reach {host}: give a password with --auth or ml_backend_auth, or say --open")

    def open_shelf() -> Shelf:
        return Shelf(open_registry(registry, cache), Loader(packs, runtime), list(packs))

    plan = Plan(
        packs,
        open_shelf,
        deliver=deliver_by_post(settings) if attempts == "web" else deliver_to_store(settings),
        outbox=settings.make_home() / "tries",
        auth=BasicAuth(*auth) if auth else None,
        secrets=settings.signing_secrets(),
        at_once=max(1, cores() // workers),
        room=queue,
    )
    listening = Address(host, port).listen()
    click.echo(f"serving {', '.join(packs)} at http://{host}:{listening.getsockname()[1]}/tasks/TASK (Ctrl-C ends it)")
    serve(plan, listening, workers=workers, grace=grace)


def _packs(settings: Settings, names: Sequence[str]) -> dict[str, Pack]:
    found = [find_pack(name.strip(), settings.templates_path) for name in names]
    return {pack.spec.name: pack for pack in found}


def _packs_of(settings: Settings, tasks: Sequence[str]) -> dict[str, Pack]:
    """The packs of the tasks that have models, as far as their packs are here."""
    found: dict[str, Pack] = {}
    for task in tasks:
        try:
            found |= _packs(settings, [task])
        except PackError:
            raise
        except TemplateError as error:
            log.warning("a task is not served", extra={"data": {"task": task, "error": str(error)}})
    if not found:
        cure = "train one, then let it answer: `outfox model train sentiment`, `outfox model rotate sentiment VERSION`"
        raise PluginError(f"no task has a model yet; {cure}")
    return found
