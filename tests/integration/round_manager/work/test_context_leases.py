"""Ten thousand contexts: each strategy leases the right one without counting examples."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, event, func, insert, select, update
from sqlalchemy.orm.attributes import set_committed_value

from round_manager.models import (
    Context,
    ContextTally,
    Example,
    ExampleStatus,
    LabelTally,
    Lease,
    Task,
    WorkItem,
    WorkSession,
)
from round_manager.work.context_strategies import RANKS
from round_manager.work.errors import NothingToDo
from round_manager.work.leases import lease_contexts
from tests.campaign import Campaign, NewCampaign

MANY = 10_000
DRAWS = 200
# A fair draw among eight is further from equal shares once in a thousand times; this one is the same in every run.
LARGEST_CHI_SQUARE = 24.32


@contextmanager
def statements(campaign: Campaign) -> Iterator[list[str]]:
    """Every statement that is sent to the database meanwhile."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        sent.append(statement)

    event.listen(campaign.store.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(campaign.store.engine, "before_cursor_execute", note)


def spread(campaign: Campaign) -> list[int]:
    """Ten thousand contexts, all with an example but the last hundred; the ids of those, in their order."""
    rows = [
        {
            "public_id": uuid4(),
            "task_id": campaign.task.id,
            "key": f"many-{number}",
            "position": 1_000 + number,
            "fields": {"prompt": f"Write about {number}."},
            "extra": {},
            "created_at": campaign.now,
        }
        for number in range(MANY)
    ]
    with campaign.store.write() as session:
        session.execute(update(Context).values(retired_at=campaign.now))
        session.execute(insert(Context), rows)
        ids = list(session.scalars(select(Context.id).where(Context.retired_at.is_(None)).order_by(Context.position)))
        most = ContextTally.position < 1_000 + MANY - 100
        session.execute(update(ContextTally).where(most).values(used=1, fooled=1))
    return ids[-100:]


def test_every_strategy_finds_its_context_among_ten_thousand_without_counting_examples(campaign: Campaign) -> None:
    unused = spread(campaign)
    for strategy in RANKS:
        page = campaign.open_page(f"W-{strategy}")
        rounds = campaign.spec.rounds.model_copy(update={"context_strategy": strategy})
        spec = campaign.spec.model_copy(update={"rounds": rounds})
        leased = {lease.context_id for lease in campaign.live_leases()}
        with statements(campaign) as sent, campaign.store.write() as session:
            given = lease_contexts(session, page, campaign.round, spec, 3, now=campaign.now)
        assert len(set(given)) == 3
        assert leased.isdisjoint(given)
        if strategy == "in_order":
            assert given == [one for one in unused if one not in leased][:3]
        elif strategy != "uniform":
            assert set(given) <= set(unused)
        (asked,) = [one for one in sent if "FROM example" in one]
        # Only what this worker has written is looked at, by its index.
        assert asked.count("example.author_id = ") == asked.count("FROM example") == 1


def test_contexts_of_equal_rank_are_drawn_evenly(campaign: Campaign) -> None:
    given = [campaign.context_of(campaign.open_page(f"W{number}")).id for number in range(16)]
    for turn in (given[:8], given[8:]):
        assert len(set(turn)) == 8
    assert given[:8] != given[8:]
    assert given[:8] != sorted(given[:8])


@pytest.mark.any_database
def test_a_uniform_draw_favours_no_context(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=8, rounds={"context_strategy": "uniform"})
    page = campaign.open_page("W1")
    with campaign.store.write() as session:
        session.get_one(Task, campaign.task.id).worker_salt = "0" * 64
        everyone = list(session.scalars(select(Context.id).where(Context.retired_at.is_(None))))
    drawn = Counter(_drawn_for(campaign, page))
    assert set(drawn) == set(everyone)
    share = DRAWS / len(everyone)
    assert sum((drawn[one] - share) ** 2 / share for one in everyone) < LARGEST_CHI_SQUARE


def _drawn_for(campaign: Campaign, page: WorkSession) -> Iterator[int]:
    """Yield the context that each of many workers with a fixed seed would get first."""
    with campaign.store.dry_run() as session:
        # Existing pages hold contexts; without them, all contexts rank equally.
        session.execute(delete(WorkItem))
        session.execute(delete(Lease))
        work, round = session.get_one(WorkSession, page.id), campaign.round
        for number in range(DRAWS):
            set_committed_value(work, "public_id", UUID(int=number))
            yield from lease_contexts(session, work, round, campaign.spec, 1, now=campaign.now)
            session.execute(delete(Lease).execution_options(synchronize_session=False))
            session.expunge_all()


@pytest.mark.parametrize("may_repeat", [False, True])
def test_no_worker_is_leased_a_context_twice_unless_the_task_allows_it(
    new_campaign: NewCampaign, *, may_repeat: bool
) -> None:
    campaign = new_campaign(contexts=3, work={"repeat_context": may_repeat})
    seen = []
    for _ in range(3):
        page = campaign.open_page("W1")
        seen.append(campaign.context_of(page).id)
        campaign.write_examples(page)
        campaign.finish_page(page)
        campaign.confirm(page)
    assert len(set(seen)) == 3
    if may_repeat:
        assert campaign.context_of(campaign.open_page("W1")).id in seen
    else:
        with pytest.raises(NothingToDo, match="you have written on everything that there is"):
            campaign.open_page("W1")


def test_the_tallies_always_equal_a_full_count(campaign: Campaign) -> None:
    with campaign.store.read() as session:
        first, second = session.scalars(select(Context.id).order_by(Context.id).limit(2))
    made = [
        campaign.add_example(context_id=place, fooled=fooled)
        for place in (first, second, None)
        for fooled in (True, False)
    ]
    campaign.add_example(context_id=first, status=ExampleStatus.WITHDRAWN, decided_at=campaign.now)
    check_tallies(campaign)
    withdrawn = {"status": ExampleStatus.WITHDRAWN, "decided_at": campaign.now}
    for values in (withdrawn, {"status": ExampleStatus.PENDING, "decided_at": None}, withdrawn):
        with campaign.store.write() as session:
            session.execute(update(Example).where(Example.id.in_([made[0].id, made[4].id])).values(**values))
        check_tallies(campaign)


def check_tallies(campaign: Campaign) -> None:
    fooled = func.count().filter(Example.fooled.is_(True))
    counted = select(Example.context_id, func.count(), fooled).where(Example.status != ExampleStatus.WITHDRAWN)
    labels = select(Example.label, func.count()).where(Example.status != ExampleStatus.WITHDRAWN)
    kept = select(ContextTally.context_id, ContextTally.used, ContextTally.fooled).where(ContextTally.used > 0)
    with campaign.store.read() as session:
        by_context = session.execute(counted.where(Example.context_id.is_not(None)).group_by(Example.context_id)).all()
        assert sorted(map(tuple, session.execute(kept))) == sorted(map(tuple, by_context))
        by_label = session.execute(labels.group_by(Example.label)).all()
        assert session.execute(select(LabelTally.label, LabelTally.examples)).all() == by_label
