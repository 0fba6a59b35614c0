"""`outfox crowd expire`: no more workers can take a HIT, and the money of empty places comes back."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from common.money import dollars
from common.text import count
from plugin.cli.crowd_context import DRY_RUN, KIND, YES, CrowdContext, ask, open_crowd_context
from plugin.cli.crowd_texts import unknown_text
from plugin.cli.output import json_option, show
from plugin.cli.progress import ProgressBar
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.crowd.status import LiveHit

THREADS = 8
WHY = "expired with all of the task's HITs"


@click.command()
@click.argument("task")
@click.argument("hits", nargs=-1, metavar="[HIT]...")
@KIND
@click.option("--all", "every", is_flag=True, help="Every HIT of the task, or of the kind.")
@YES
@DRY_RUN
@json_option
@click.pass_obj
def expire(
    app: Application, task: str, hits: tuple[str, ...], kind: str | None, every: bool, yes: bool, dry_run: bool
) -> None:
    """Let no more workers take HITs; whoever has one may finish it and is paid.

    Then the marketplace is read, so that the money of places that nobody took comes back to the budget. With --all,
    HITs that were planned and never sent are given up too.
    """
    settings = app.settings
    if bool(hits) == every:
        raise click.UsageError("name the HITs, or give --all")
    with open_crowd_context(settings) as context:
        chosen = _standing(context, task, hits, kind)
        back = sum(one.reserved_cents for one in chosen)
        unsent, freed = _give_up(context, task, kind, rehearse=True) if every else (0, 0)
        data: dict[str, Any] = {"task": task, "dry_run": dry_run, "hits": [one.hit_id for one in chosen]}
        if not chosen and not unsent:
            show({**data, "reserved_cents": 0}, f"no HIT of {task} can be taken; there is nothing to expire")
            return
        told = f"{count(len(chosen), 'HIT')} of {task}, with {dollars(back)} reserved for them"
        told += f", and give up {unsent} that were never sent, with {dollars(freed)}" if unsent else ""
        if dry_run:
            rest = "what workers hand in is still paid, the rest comes back"
            show({**data, "reserved_cents": back, "given_up": unsent, "given_up_cents": freed},
                 f"would expire {told}; {rest}; nothing was changed")  # fmt: skip
            return
        ask(f"expire {told}?", yes=yes)
        # Asked first: with wrong keys, or a silent marketplace, nothing is given up either.
        context.account_cents()
        unsent, freed = _give_up(context, task, kind, rehearse=False) if every else (0, 0)
        with ProgressBar() as progress:
            _expire(context, chosen, progress)
            collected = context.services.collector.run(progress)
        left = _reserved(context, task, chosen)
    released = back - left + freed
    text = f"expired {count(len(chosen), 'HIT')} of {task}" + (f", gave up {unsent}" if unsent else "")
    later = f"; {dollars(left)} stays reserved for what workers have in hand or handed in" if left else ""
    later += unknown_text(collected)
    show({**data, "reserved_cents": left, "released_cents": released, "given_up": unsent,
          "collected": asdict(collected)}, f"{text}; {dollars(released)} came back{later}")  # fmt: skip


def _give_up(context: CrowdContext, task: str, kind: str | None, *, rehearse: bool) -> tuple[int, int]:
    """How many HITs were planned and never sent, and the money that is free again without them."""
    from round_manager.crowd.hit_planning import cancel_planned
    from round_manager.models import HitKind
    from round_manager.money.budget import figures
    from round_manager.tasks.tasks import find_task

    with context.store.dry_run() if rehearse else context.store.write() as session:
        found = find_task(session, task)
        before = figures(session, found, lock=True)
        only = HitKind(kind) if kind else None
        hits = cancel_planned(
            session, context.crowd.name, found, only, who=context.who, why=WHY, now=context.clock.now()
        )
        session.flush()
        return hits, before.reserved_cents - figures(session, found).reserved_cents


def _standing(context: CrowdContext, task: str, hits: tuple[str, ...], kind: str | None) -> list["LiveHit"]:
    from round_manager.crowd.status import live_hits
    from round_manager.errors import CrowdWorkError
    from round_manager.tasks.tasks import find_task

    with context.store.read() as session:
        posted = live_hits(session, context.crowd.name, find_task(session, task).id)
    found = [one for one in posted if one.can_be_taken]
    known = {one.hit_id for one in found}
    unknown = [one for one in hits if one not in known]
    if unknown:
        raise CrowdWorkError(f"no HIT {unknown[0]} of {task} can be taken; `outfox crowd status {task}` shows what can")
    return [one for one in found if (not hits or one.hit_id in hits) and kind in (None, one.kind.value)]


def _reserved(context: CrowdContext, task: str, chosen: Sequence["LiveHit"]) -> int:
    from round_manager.crowd.status import live_hits
    from round_manager.tasks.tasks import find_task

    ids = {one.hit_id for one in chosen}
    with context.store.read() as session:
        found = live_hits(session, context.crowd.name, find_task(session, task).id)
    return sum(one.reserved_cents for one in found if one.hit_id in ids)


def _expire(context: CrowdContext, chosen: Sequence["LiveHit"], progress: ProgressBar) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from crowd.errors import NotOnCrowd

    def one_down(hit_id: str) -> None:
        try:
            context.crowd.expire(hit_id)
        except NotOnCrowd:
            return  # The collecting that follows notes that it is gone.

    progress.start(len(chosen), "expiring HITs")
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(one_down, [one.hit_id for one in chosen]):
            progress.advance()
    progress.finish()
