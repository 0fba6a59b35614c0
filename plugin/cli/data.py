"""`outfox data`: who may read a task's frozen rounds over HTTP."""

from typing import TYPE_CHECKING, Any

import click

from plugin.cli.crowd_texts import when
from plugin.cli.output import json_option, show, table, wants_json
from plugin.cli.rotation import WHY
from plugin.operator import operator_name
from plugin.settings import Settings
from plugin.wiring import Application

if TYPE_CHECKING:
    from datetime import datetime

    from round_manager.tasks.data_access import ListedToken

MOST_DAYS = 3_650


@click.group()
def data() -> None:
    """Let researchers read a task's frozen rounds, at `/data/TASK` of `outfox serve`."""


@data.command()
@click.argument("task")
@click.option(
    "--days", type=click.IntRange(1, MOST_DAYS), default=90, show_default=True, help="How long it opens the task."
)
@WHY
@json_option
@click.pass_obj
def token(app: Application, task: str, days: int, why: str) -> None:
    """Make a token that opens a task's frozen rounds, and show it this once.

    For example: outfox data token sentiment --days 30 --why "for Ada's thesis"
    """
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.tasks.data_access import make_token
    from round_manager.tasks.tasks import find_task

    now = SystemClock().now()
    with open_store(settings.database) as store, store.write() as session:
        owner = find_task(session, task)
        made, text = make_token(session, owner, days=days, who=operator_name(), why=why, now=now)
    address = settings.web_url.rstrip("/")
    lines = (
        f"{text}",
        f"opens {task} until {when(made.expires_at)}; it is not shown again (`outfox data revoke {made.key}` ends it)",
        f'in Python: outfox.load("{task}", url="{address}", token="…")',
    )
    show({"token": text, **_told(made, now), "url": f"{address}/data/{task}"}, "\n".join(lines))


@data.command("list")
@click.argument("task", required=False)
@json_option
@click.pass_obj
def list_(app: Application, task: str | None) -> None:
    """List tasks that are public, and tokens: of one task or of all."""
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.tasks.data_access import list_tokens
    from round_manager.tasks.tasks import find_task, list_tasks

    now = SystemClock().now()
    with open_store(settings.database) as store, store.read() as session:
        owner = find_task(session, task) if task else None
        public = [one.name for one in ([owner] if owner else list_tasks(session)) if one.published_at]
        tokens = list_tokens(session, owner)
    rows = [[one.key, one.task, one.state(now), when(one.created_at), when(one.expires_at), one.note] for one in tokens]
    told = {"public": public, "tokens": [_told(one, now) for one in tokens]}
    if public and not wants_json():
        click.echo(f"public: {', '.join(public)}")
    nothing = "there is no token yet; `outfox data token TASK` makes one"
    show(told, table(("token", "task", "state", "made", "until", "for"), rows) if rows else nothing)


@data.command()
@click.argument("key", metavar="TOKEN")
@WHY
@json_option
@click.pass_obj
def revoke(app: Application, key: str, why: str) -> None:
    """End a token at once; TOKEN is its name in `outfox data list`."""
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.tasks.data_access import revoke_token

    now = SystemClock().now()
    with open_store(settings.database) as store, store.write() as session:
        ended = revoke_token(session, key, who=operator_name(), why=why, now=now)
    show(_told(ended, now), f"{key} opens {ended.task} no more")


@data.command()
@click.argument("task")
@WHY
@json_option
@click.pass_obj
def publish(app: Application, task: str, why: str) -> None:
    """Let anybody read a task's frozen rounds, without a token."""
    settings = app.settings
    from round_manager.tasks.data_access import publish as make_public

    _change(settings, task, why, make_public)
    address = f"{settings.web_url.rstrip('/')}/data/{task}"
    show({"task": task, "public": True, "url": address}, f"anybody may read the frozen rounds of {task}: {address}")


@data.command()
@click.argument("task")
@WHY
@json_option
@click.pass_obj
def unpublish(app: Application, task: str, why: str) -> None:
    """Ask for a token again; what people have copied stays theirs."""
    settings = app.settings
    from round_manager.tasks.data_access import unpublish as make_private

    _change(settings, task, why, make_private)
    show({"task": task, "public": False}, f"only tokens open the frozen rounds of {task}")


def _change(settings: Settings, task: str, why: str, change: Any) -> None:
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.tasks.tasks import find_task

    with open_store(settings.database) as store, store.write() as session:
        change(session, find_task(session, task), who=operator_name(), why=why, now=SystemClock().now())


def _told(one: "ListedToken", now: "datetime") -> dict[str, Any]:
    return {
        "key": one.key,
        "task": one.task,
        "state": one.state(now),
        "note": one.note,
        "created_at": one.created_at,
        "expires_at": one.expires_at,
        "revoked_at": one.revoked_at,
    }
