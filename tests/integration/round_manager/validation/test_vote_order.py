"""Votes on one example are stored in the order in which they count, even if a commit is slow."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import text

from round_manager.database.store import Store
from round_manager.models import Example, ExampleStatus, Source, ensure_worker
from round_manager.validation.metrics import round_metrics
from round_manager.work.validation_work import cast_vote
from tests.campaign import MARKET, start_campaign
from tests.integration.databases import Databases

PATIENCE = 20
WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


@pytest.fixture
def crowded(postgresql_databases: Databases) -> Iterator[Store]:
    """A database that allows two concurrent writers, which SQLite does not."""
    with postgresql_databases.opened() as opened:
        yield opened


def is_done_or_waits(store: Store, deed: Future[Any]) -> bool:
    with store.read() as session:
        return deed.done() or bool(session.scalar(WAITING))


def test_a_slow_commit_of_a_vote_is_awaited_and_keeps_its_order(crowded: Store) -> None:
    campaign = start_campaign(crowded)
    (example,) = campaign.confirmed_examples()
    with ThreadPoolExecutor(1) as pool:
        with crowded.write() as session:
            slow = ensure_worker(session, MARKET, "slow", now=campaign.now)
            row = session.get_one(Example, example.id)
            terms: dict[str, Any] = {"source": Source.LABEL_STUDIO, "voted_at": campaign.now}
            cast_vote(session, row, slow.id, label=campaign.other_label(example), **terms)
            quick = pool.submit(campaign.vote, example, None, None)
            end = monotonic() + PATIENCE
            while not is_done_or_waits(crowded, quick) and monotonic() < end:
                pass
            campaign.decide()
        quick.result(PATIENCE)
    campaign.decide()
    with crowded.read() as session:
        found = round_metrics(session, campaign.round)
    assert (found.differing, found.counts.verified_fooling) == (0, len(campaign.examples_with_bonus()))
    assert campaign.status_of(example) is ExampleStatus.PENDING
