"""`outfox serve`: the web app."""

import click

from plugin.cli.parameters import HOST, port_option
from plugin.wiring import Application

THREADS = 16


@click.command()
@HOST
@port_option(8000)
@click.option("--workers", type=click.IntRange(1, 64), default=1, help="Processes.")
@click.option(
    "--sync-every",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    metavar="SECONDS",
    help="How often Label Studio is read without a webhook; 0: only after webhooks.",
)
@click.option("--grace", type=click.IntRange(8, 600), default=30, help="Seconds to finish requests on shutdown.")
@click.pass_obj
def serve(app: Application, host: str, port: int, workers: int, sync_every: float, grace: int) -> None:
    """Serve the web app until Ctrl-C: workers' pages, frozen rounds, attempts, webhooks, health and metrics.

    HITs show its pages: workers' browsers must reach it at the setting web_url, and only the sites of the setting
    crowd_site_url can show them in a frame. See docs/worker-pages.md.
    """
    settings = app.settings
    from pathlib import Path

    from ml_backend.serving.processes import Address, Workers, serve_processes
    from ml_backend.verdict import VerdictSigner
    from plugin.page_check import frame_problem
    from plugin.web.process import ServeProcess, work_pages

    # Report a missing or outdated database, a weak secret or an invalid setting here, not in every response.
    with app.open_store():
        pass
    VerdictSigner(settings.signing_secrets())
    work_pages(app)

    def begin(shared: Path) -> ServeProcess:
        return ServeProcess(app, shared, sync_every=sync_every)

    listening = Address(host, port).listen()
    click.echo(f"serving at http://{host}:{listening.getsockname()[1]} (Ctrl-C stops it)")
    if not settings.label_studio_token:
        click.echo("Label Studio will not be read: the setting label_studio_token is empty", err=True)
    if not settings.has_crowd_keys:
        click.echo("qualifications will not be granted: crowd_key_id or crowd_key_secret is empty", err=True)
    problem = frame_problem(settings)
    if problem:
        click.echo(f"warning: {problem}", err=True)
    serve_processes(begin, listening, Workers("outfox-web", workers, THREADS, grace))
