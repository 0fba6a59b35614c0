"""`outfox serve`: the web app."""

import click

from plugin.settings import Settings

THREADS = 16


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 finds a free one."
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@click.option(
    "--sync-every",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How often Label Studio is read without a hint from it; 0: only after hints.",
)
@click.option(
    "--grace", type=click.IntRange(8, 600), default=30, show_default=True, help="Seconds to finish when told to stop."
)
@click.pass_obj
def serve(settings: Settings, host: str, port: int, workers: int, sync_every: float, grace: int) -> None:
    """Serve the web app until Ctrl-C: attempts from ML backends, Label Studio's hints, health and metrics."""
    from pathlib import Path

    from ml_backend.serving.processes import Address, Workers, serve_processes
    from ml_backend.signing import VerdictSigner
    from plugin.web.process import ServeProcess
    from round_manager.store import open_store

    # A database that is not there or not up to date, or a weak secret, is told here, and not to every caller.
    open_store(settings.database).close()
    VerdictSigner(settings.signing_secrets())

    def begin(shared: Path) -> ServeProcess:
        return ServeProcess(settings, shared, sync_every=sync_every)

    listening = Address(host, port).listen()
    click.echo(f"serving at http://{host}:{listening.getsockname()[1]} (Ctrl-C ends it)")
    if not settings.label_studio_token:
        click.echo("Label Studio is not read: the setting label_studio_token is empty", err=True)
    serve_processes(begin, listening, Workers("outfox-web", workers, THREADS, grace))
