"""The campaign with everything that tests do in it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from round_manager.database.store import Store
from round_manager.learning.versions import register_version
from round_manager.tasks.rounds import list_rounds, live_round, open_round, pinned_versions
from round_manager.tasks.tasks import create_task, find_task
from templates import Pack
from tests.campaign.base import OWNER, changed_pack, manifest_for
from tests.campaign.closed_rounds import ClosedRounds
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.contexts import live_contexts
from tests.fakes.crowd import FakeCrowd


class Campaign(ClosedRounds):
    """One task with a round, its workers and a crowd; the methods are in the modules of the base classes."""


def start_campaign(
    store: Store,
    task: str | Pack = "sentiment",
    *,
    models: Sequence[str] = ("first",),
    contexts: int | None = 8,
    seeds: bool = False,
    opened: bool = True,
    label_studio: bool = False,
    cents: int = 1_000_000,
    now: datetime = NOON,
    **terms: Any,
) -> Campaign:
    """Create the task of a pack and open its first round against one version for each note in `models`.

    Other keywords change the terms: parts of the spec by name, with their new values. Without `seeds`, validation has
    no gold items. With `label_studio`, the task is linked to a project and has two annotators.
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
    campaign = Campaign(store, clock, FakeCrowd(clock.now, cents), pack, row, round.id, context, names)
    if label_studio:
        campaign.link_label_studio()
    return campaign


def start_closed(store: Store, name: str = "sentiment", **changes: Any) -> Campaign:
    """Return a campaign whose first round, against two versions, is filled and closed."""
    return start_campaign(store, name, models=("first", "second"), label_studio=True).fill_and_close(**changes)


def find_campaign(store: Store, pack: Pack, now: datetime = NOON) -> Campaign:
    """Return the campaign of a task that exists, in its live or newest round."""
    clock = SettableClock(now)
    with store.read() as session:
        task = find_task(session, pack.spec.name)
        round = live_round(session, task.id) or list_rounds(session, task)[-1]
        versions = pinned_versions(session, round)
        context = live_contexts(session, task.id)[0]
    return Campaign(store, clock, FakeCrowd(clock.now), pack, task, round.id, context, versions)
