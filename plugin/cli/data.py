"""`outfox data`: access to a task's frozen rounds over HTTP."""

from typing import TYPE_CHECKING, Any

import click

from common.errors import Hint
from plugin.cli.evaluate import rows_to_predict
from plugin.cli.output import data_command, show, table, wants_json, when
from plugin.cli.parameters import WHY
from plugin.hints import command_for
from plugin.wiring import Application

if TYPE_CHECKING:
    from datetime import datetime

    from round_manager.services.data_access import ListedToken

MOST_DAYS = 3_650


@click.group(commands=[rows_to_predict])
def data() -> None:
    """Let researchers read a task's frozen rounds, at `/data/TASK` of `outfox serve`."""


@data.command()
@click.argument("task")
@click.option("--days", type=click.IntRange(1, MOST_DAYS), default=90, help="Days until the token expires.")
@WHY
@data_command
def token(app: Application, task: str, days: int, why: str) -> None:
    """Create a token that can read a task's frozen rounds. It is shown only once.

    For example: outfox data token sentiment --days 30 --why "for Ada's thesis"
    """
    from round_manager.services.data_access import create_token

    with app.services() as services:
        made = create_token(services, app.actor, task, days=days, reason=why)
    one, url = made.row, app.settings.web_url.rstrip("/")
    lines = (
        made.secret,
        f"valid for {task} until {when(one.expires_at)}; it is not shown again",
        f"revoke it with: outfox data revoke {one.key}",
        f'in Python: outfox.load("{task}", url="{url}", token="…")',
    )
    show({"token": made.secret, **_token_data(made, one.created_at), "url": f"{url}/data/{task}"}, "\n".join(lines))


@data.command("list")
@click.argument("task", required=False)
@data_command
def list_(app: Application, task: str | None) -> None:
    """List public tasks and tokens, of one task or of all."""
    from round_manager.services.data_access import list_tokens

    with app.services() as services:
        found = list_tokens(services, task)
    listed = [_token_data(one, app.clock.now()) for one in found.tokens]
    rows = [
        [one["key"], one["task"], one["state"], when(one["created_at"]), when(one["expires_at"]), one["note"]]
        for one in listed
    ]
    if found.public and not wants_json():
        click.echo(f"public: {', '.join(found.public)}")
    nothing = f"there are no tokens yet; create one with `{command_for(Hint('create_data_token'))}`"
    data = {"public": list(found.public), "tokens": listed}
    show(data, table(("token", "task", "state", "created", "expires", "note"), rows) if rows else nothing)


@data.command()
@click.argument("key", metavar="TOKEN")
@WHY
@data_command
def revoke(app: Application, key: str, why: str) -> None:
    """Revoke a token at once; TOKEN is its name in `outfox data list`."""
    from round_manager.services.data_access import revoke_token

    with app.services() as services:
        revoked = revoke_token(services, app.actor, key, reason=why)
    show(_token_data(revoked, app.clock.now()), f"{key} can no longer read {revoked.task}")


@data.command()
@click.argument("task")
@WHY
@data_command
def publish(app: Application, task: str, why: str) -> None:
    """Make a task's frozen rounds readable without a token."""
    from round_manager.services.data_access import set_public

    with app.services() as services:
        set_public(services, app.actor, task, public=True, reason=why)
    url = f"{app.settings.web_url.rstrip('/')}/data/{task}"
    show({"task": task, "public": True, "url": url}, f"the frozen rounds of {task} are public: {url}")


@data.command()
@click.argument("task")
@WHY
@data_command
def unpublish(app: Application, task: str, why: str) -> None:
    """Require a token again; copies that people have made are not affected."""
    from round_manager.services.data_access import set_public

    with app.services() as services:
        set_public(services, app.actor, task, public=False, reason=why)
    show({"task": task, "public": False}, f"the frozen rounds of {task} need a token")


def _token_data(one: "ListedToken", now: "datetime") -> dict[str, Any]:
    times = {name: getattr(one.row, name) for name in ("created_at", "expires_at", "revoked_at")}
    return {"key": one.row.key, "task": one.task, "state": one.state(now), "note": one.row.note, **times}
