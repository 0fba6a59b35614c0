"""`outfox ml-backend` and `outfox serve`: the ML backend, which gives verdicts, and the web app."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plugin.cli.parameters import HOST, REGISTRY, RUNTIME, backend_auth, find_named_pack, port_option
from plugin.errors import PluginError
from plugin.wiring import Application
from templates import Pack
from templates.errors import PackError, TemplateError

if TYPE_CHECKING:
    from ml_backend.registry.registry import Registry

log = logging.getLogger(__name__)
CanServe = Callable[[str], bool]

NO_MODEL = """
no task has a pinned model yet; each is served as soon as it has one: `outfox model train sentiment` trains one, \
`outfox round open sentiment` pins it"""
UNPROTECTED = """\
any program on this machine can ask the model and store attempts; set ml_backend_auth or --auth to require a password, \
and run `outfox labelstudio connect TASK` again"""
# With more threads in a process, each waits longer for the interpreter while it holds a lock of the database.
WEB_THREADS = 3
MOST_WEB_PROCESSES = 4
# Openings of a task wait for each other in the database. If each kept a thread and a connection while it waits, none
# would be left for requests that need not wait.
OPENINGS = r"/hits/[^/]+"
# Submitted models are larger than what fits into memory.
UPLOADS = r"/data/[^/]+/submissions"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class BackendUnprotected(PluginError):
    """The ML backend would be reachable from other machines without a password."""


@click.command("ml-backend")
@HOST
@port_option(9090)
@click.option(
    "--tasks", "names", metavar="TASK,...", help="Tasks to serve. Default: all that have a pinned model, now or later."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    help="Processes, each with its own models. One uses all cores; with more, the others survive if one dies.",
)
@click.option("--queue", type=click.IntRange(0, 1_000), default=64, help="Requests that may wait per process.")
@RUNTIME
@click.option(
    "--attempts",
    type=click.Choice(["database", "web"]),
    default="database",
    help="Where attempts are sent: to the database, or to the web app (`web_url`) if only that can reach it.",
)
@click.option(
    "--auth",
    "auth_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the user:password that Label Studio must send. Default: the setting `ml_backend_auth`.",
)
@click.option("--grace", type=click.IntRange(5, 600), default=30, help="Seconds to finish requests on shutdown.")
@click.option(
    "--open", "unguarded", is_flag=True, help="Require no password although other machines can reach this address."
)
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
    """Serve live verdicts to Label Studio until Ctrl-C. The address of a task is http://HOST:PORT/tasks/TASK."""
    from ml_backend.registry.model_pool import ModelLoader, ModelPool
    from ml_backend.serving.auth import BasicAuth
    from ml_backend.serving.backend import BackendConfig, serve
    from ml_backend.serving.processes import Address, cores

    settings = app.settings
    if (where or settings.registry_location) == str(settings.home_path / "models"):
        # The default folder may be created before the first training. Another missing place may be an unmounted disk.
        with suppress(OSError):  # The registry reports what is wrong with its folder.
            (settings.make_home() / "models").mkdir(exist_ok=True)
    auth = backend_auth(settings, auth_file)
    packs, can_serve = _served_packs(app, names, app.registry(where))
    if auth is None and not unguarded and host not in LOOPBACK:
        text = f"other machines can reach {host}"
        raise BackendUnprotected(f"{text}: set a password with --auth or ml_backend_auth, or pass --open")

    def open_models() -> ModelPool:
        return ModelPool(app.registry(where), ModelLoader(packs, runtime), list(packs), can_serve=can_serve)

    config = BackendConfig(
        packs,
        open_models,
        app.clock,
        deliver=app.attempt_delivery(by_post=attempts == "web"),
        outbox=settings.make_home() / "tries",
        auth=BasicAuth(*auth) if auth else None,
        secrets=settings.signing_secrets(),
        at_once=max(1, cores() // workers),
        room=queue,
    )
    listening = Address(host, port).listen()
    served = f"serving {', '.join(packs) or 'no task'} at http://{host}:{listening.getsockname()[1]}/tasks/TASK"
    click.echo(f"{served} (Ctrl-C ends it){'' if packs else NO_MODEL}")
    if auth is None and not unguarded:
        click.echo(UNPROTECTED, err=True)
    serve(config, listening, workers=workers, grace=grace)


def _served_packs(
    app: Application, names: str | None, registry: "Registry"
) -> tuple[Mapping[str, Pack], CanServe | None]:
    """Return the packs of the named tasks; or of those that have pins now, and how to add later ones.

    A pinned task whose pack is missing or broken is left out, so that a pack someone is editing does not keep the
    others from being served. If that leaves none, the broken pack's error is raised.
    """
    from ml_backend.serving.backend import PackCatalogue

    if names:
        found = [find_named_pack(app, name.strip()) for name in names.split(",")]
        return {pack.spec.name: pack for pack in found}, None
    catalogue = PackCatalogue(lambda task: find_named_pack(app, task))
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


@click.command()
@HOST
@port_option(8000)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    help="Processes. Default: one for each core on PostgreSQL, at most 4; 1 on SQLite, which has one writer at a time.",
)
@click.option(
    "--sync-every",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    metavar="SECONDS",
    help="How often Label Studio is read without a webhook; 0: only after webhooks.",
)
@click.option("--grace", type=click.IntRange(8, 600), default=30, help="Seconds to finish requests on shutdown.")
@click.pass_obj
def serve(app: Application, host: str, port: int, workers: int | None, sync_every: float, grace: int) -> None:
    """Serve the web app until Ctrl-C: workers' pages, frozen rounds, attempts, webhooks, health and metrics.

    HITs show its pages: workers' browsers must reach it at the setting web_url, and only the sites of the setting
    crowd_site_url can show them in a frame. See docs/worker-pages.md.
    """
    from ml_backend.serving.processes import Address, Workers, cores, serve_processes
    from ml_backend.verdict import VerdictSigner
    from plugin.crowd import frame_problem
    from plugin.web.app import ServeProcess, work_pages

    # Report a missing or outdated database, a weak secret or an invalid setting here, not in every response.
    with app.open_store() as store:
        has_one_writer = store.engine.dialect.name == "sqlite"
    workers = workers or (1 if has_one_writer else min(cores(), MOST_WEB_PROCESSES))
    VerdictSigner(app.settings.signing_secrets())
    work_pages(app)

    def begin(shared: Path) -> ServeProcess:
        return ServeProcess(app, shared, sync_every=sync_every)

    listening = Address(host, port).listen()
    click.echo(f"serving at http://{host}:{listening.getsockname()[1]} (Ctrl-C stops it)")
    if not app.settings.label_studio_token:
        click.echo("Label Studio will not be read: the setting label_studio_token is empty", err=True)
    if not app.settings.has_crowd_keys:
        lost = "access to HIT pages and qualifications" if app.crowd_profile.page.proof else "qualifications"
        click.echo(f"{lost} will not be granted: crowd_key_id or crowd_key_secret is empty", err=True)
    problem = frame_problem(app.settings)
    if problem:
        click.echo(f"warning: {problem}", err=True)
    web = Workers("outfox-web", workers, WEB_THREADS, grace, one_by_one=OPENINGS, streamed=UPLOADS)
    serve_processes(begin, listening, web)
