"""`outfox crowd reports`: problems that workers reported, and why they skipped texts."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import Group

from plugin.cli.crowd_texts import MOST_SHOWN, more_than, when
from plugin.cli.output import json_option, show, table
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.work.reports import WorkerReport


@click.command()
@click.argument("task")
@json_option
@click.pass_obj
def reports(app: Application, task: str) -> None:
    """List what workers reported on a task's pages, and why they skipped a text; the newest first.

    Workers are named as in the task's data. An unconfirmed worker may be anyone who had the HIT's link.
    """
    from round_manager.tasks.tasks import find_task
    from round_manager.work.reports import worker_reports

    with app.services() as services, services.store.read() as session:
        found = worker_reports(session, find_task(session, task))
    show([asdict(one) for one in found], _listed(found) if found else f"there are no reports about {task}")


def _listed(found: list["WorkerReport"]) -> Group:
    columns = ("when", "worker", "confirmed", "HIT", "kind", "item", "text")
    rows = [
        (when(one.at), one.worker, "yes" if one.confirmed else "no", one.hit_id, one.kind,
         "page" if one.item is None else str(one.item), " ".join(one.text.split()))
        for one in found[:MOST_SHOWN]
    ]  # fmt: skip
    return Group(table(columns, rows), *filter(None, [more_than(found)]))
