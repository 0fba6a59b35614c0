"""The campaign with everything that tests do in it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from round_manager.database.store import Store
from round_manager.learning.versions import register_version
from round_manager.tasks.rounds import list_rounds, open_round
from round_manager.tasks.tasks import create_task
from templates import Pack
from tests.campaign.base import OWNER, changed_pack, manifest_for
from tests.campaign.votes import VoteWork
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.contexts import live_contexts
from tests.fakes.crowd import FakeCrowd


class Campaign(VoteWork):
    """One task with a round, its workers and a crowd; the methods are in the modules of the base classes."""


def start_campaign(
    store: Store,
    task: str | Pack = "sentiment",
    *,
    models: Sequence[str] = ("first",),
    contexts: int | None = 8,
    seeds: bool = False,
    opened: bool = True,
    cents: int = 1_000_000,
    now: datetime = NOON,
    kind: type[Campaign] = Campaign,
    **terms: dict[str, Any],
) -> Campaign:
    """Create the task of a pack and open its first round against one version for each note in `models`.

    Other keywords change the terms: parts of the spec by name, with their new values. Without `seeds`, validation has
    no gold items.
    """
    clock = SettableClock(now)
    pack = changed_pack(task, contexts=contexts, seeds=seeds, terms=terms) if isinstance(task, str) else task
    with store.write() as session:
        row = create_task(session, pack, now=now)
        manifests = [manifest_for(pack.spec, note) for note in models if opened]
        versions = [register_version(session, row, one, f"models/{one.version}", now=now) for one in manifests]
        round = (
            open_round(session, row, versions, now=now, actor=OWNER, reason="a test")
            if opened
            else list_rounds(session, row)[-1]
        )
        context = live_contexts(session, row.id)[0]
    names = tuple(version.name for version in versions)
    return kind(store, clock, FakeCrowd(clock.now, cents), pack, row, round.id, context, names)
