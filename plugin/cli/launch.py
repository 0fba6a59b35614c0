"""`outfox task launch`: everything from a pack to a round that people work on, in one command that can be repeated."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from common.text import count
from plugin.cli.crowd_context import announce
from plugin.cli.labelstudio import connection_options, upload_steps
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import MODE, PACK, TIMEOUT, WHY, YES
from plugin.cli.progress import ProgressBar
from plugin.cli.round_opening import IN_HOUSE, confirm_opening
from plugin.errors import PluginError
from plugin.settings import DATABASE
from plugin.wiring import Application
from templates import Pack, PackError

if TYPE_CHECKING:
    from round_manager.services.context import ServiceContext

Step = tuple[str, str]


class ServersMissing(PluginError):
    """Servers that a round needs do not answer; once they do, the command can be repeated."""

    retry = True


@click.command()
@click.argument("pack", type=PACK)
@IN_HOUSE
@MODE
@WHY
@TIMEOUT
@YES
@data_command
def launch(
    app: Application, pack: Pack, in_house: bool | None, mode: str | None, why: str, timeout: float, yes: bool
) -> None:
    """Create a pack's task, train its model, open its round, and connect and fill Label Studio.

    Steps that are done already are skipped, so run it again after a failure, or after a change of the pack. The servers
    are checked first. Without a token for Label Studio, a round for the crowd is opened and nothing is connected.

    Exit code 3: a server does not answer; start it, and run the command again.

    Example: outfox task launch my_task --in-house
    """
    from round_manager.services.packs import warn_about
    from round_manager.services.rounds import quote_opening

    if problems := app.check_pack(pack):
        raise PackError(problems)
    for warning in warn_about(pack):
        announce(f"warning: {warning}")
    name = pack.spec.name
    with app.services(upgrade=is_first_task(app)) as services, ProgressBar() as progress:
        steps = [_create(app, services, pack)]
        quote = quote_opening(services, name, marketplace=app.settings.crowd_name, in_house=in_house)
        with_label_studio = bool(app.settings.label_studio_token) or bool(quote and quote.in_house)
        _check_servers(app, with_label_studio=with_label_studio)
        # Asked before the training, so that the owner need not wait for the question.
        confirm_opening(quote, app.settings, yes=yes)
        steps.append(_train(app, pack, mode, progress))
        steps.append(_open(app, services, name, quote.in_house if quote else in_house, why, timeout, progress))
        steps += _label_studio(app, services, name, progress) if with_label_studio else []
    data: dict[str, Any] = {"task": name, "steps": [{"step": step, "outcome": outcome} for step, outcome in steps]}
    show(data, table(("step", "outcome"), steps))


def is_first_task(app: Application) -> bool:
    """Return whether the first task creates the database; an existing one is upgraded only on request."""
    return not app.settings.database_url and not (app.settings.make_home() / DATABASE).exists()


def _create(app: Application, services: "ServiceContext", pack: Pack) -> Step:
    from round_manager.services.tasks import create_task

    done = create_task(services, app.actor, pack)
    return "task", f"{count(done.contexts, 'context')}, round {done.round.number} is {done.round.status.value}"


def _check_servers(app: Application, *, with_label_studio: bool) -> None:
    """Raise ServersMissing, with everything that has to be started, unless all servers answer."""
    from plugin.cli.doctor_checks import label_studio_findings, server_findings

    findings = [*(label_studio_findings(app) if with_label_studio else ()), *server_findings(app)]
    wrong = [f"{one.what}: {one.detail}; {one.advice}" for one in findings if one.state != "ok"]
    if wrong:
        raise ServersMissing("\n".join([*wrong, "then run the command again"]))
    if with_label_studio:
        # An invalid token is reported now, and not after the training.
        app.label_studio().whoami()


def _train(app: Application, pack: Pack, mode: str | None, progress: ProgressBar) -> Step:
    from ml_backend.artefact import list_versions

    registry, name = app.registry(), pack.spec.name
    known = registry.versions(name)
    if known:
        return "model", f"{known[0]} exists"
    models = app.settings.models_path
    trained = list_versions(models, name)
    if not trained:
        # Imported late: it takes seconds.
        from ml_backend.training import train as train_model

        cache = app.settings.cache_path / "embeddings"
        trained = [train_model(pack, models, mode=mode, cache=cache, progress=progress).manifest]
    version = trained[0].version
    if version not in registry.versions(name):
        from round_manager.services.rotation import publish_version

        publish_version(app.actor, models, registry, name, version)
    return "model", f"{version} was trained"


def _open(
    app: Application,
    services: "ServiceContext",
    task: str,
    in_house: bool | None,
    why: str,
    timeout: float,
    progress: ProgressBar,
) -> Step:
    from ml_backend.registry.rotation import wait_for_servers
    from round_manager.services.rounds import open_round

    models = app.model_deployment(timeout=timeout, progress=progress)
    opened = open_round(services, app.actor, task, models=models, reason=why, in_house=in_house)
    # The ML backend answered before the training. If this is its first task, it starts to serve it now.
    if not wait_for_servers(models.registry, task, timeout, is_running=True):
        text = f"round {opened.number} of {task} is open, but the ML backend does not serve its model yet"
        raise ServersMissing(f"{text}; see its log, and run the command again")
    kind = "in-house" if opened.in_house else "for the crowd"
    return "round", f"{opened.number} {'was' if opened.already else 'is'} open {kind}: {', '.join(opened.versions)}"


def _label_studio(app: Application, services: "ServiceContext", task: str, progress: ProgressBar) -> Iterator[Step]:
    from round_manager.services.label_studio import connect_task, push_task

    label_studio = app.label_studio()
    connected = connect_task(services, app.actor, label_studio, task, connection_options(app))
    places = ", ".join(f"{kind}: {label_studio.url}/projects/{number}" for kind, number in connected.projects.items())
    yield "Label Studio", places
    sent = push_task(services, app.actor, label_studio, task, progress=upload_steps(progress, f"Sending {task}"))
    yield "contexts", f"{sent.contexts} sent, {sent.found} were there already"
