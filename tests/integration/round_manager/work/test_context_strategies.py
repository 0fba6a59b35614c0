"""Among many contexts only some are looked at, and every strategy means the same as if all were."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import delete, event, insert, select, text, update
from sqlalchemy.orm.attributes import set_committed_value

from round_manager.models import Context, ContextTally, Lease, LeaseEnd, Task, WorkItem, WorkSession
from round_manager.work import context_strategies
from round_manager.work.context_strategies import RANKS
from round_manager.work.errors import NothingToDo
from round_manager.work.leases import lease_contexts
from tests.campaign import Campaign, NewCampaign
from tests.fakes.contexts import live_contexts
from tests.integration.round_manager.work.test_context_leases import MANY, spread
from tests.integration.round_manager.work.test_context_uploads import row, upload

DRAWS = 200
# Fair draws are further from their shares once in a thousand times; these are the same in every run.
LARGEST_CHI_SQUARE = {2: 10.83, 8: 24.32}
# A plan that goes through all contexts: it says so, or knows nothing of them but their round or their task.
WALKS = re.compile(r"SCAN context|SEARCH context(_tally)? USING .*INDEX \w+ \((round_id|task_id)=\?\)")
STRATEGIES = pytest.mark.parametrize("strategy", sorted(RANKS))


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> int:
    """A window that is much smaller than a level."""
    monkeypatch.setattr(context_strategies, "WINDOW", 40)
    return 40


@pytest.mark.parametrize("statistics", ["fresh", "stale", "missing"])
def test_no_query_scans_all_contexts(campaign: Campaign, statistics: str) -> None:
    if statistics == "stale":
        _analyze(campaign)
    spread(campaign)
    if statistics == "fresh":
        _analyze(campaign)
    page = campaign.open_page("W1")
    for strategy in RANKS:
        with campaign.store.dry_run() as session:
            asked = _asked_for(session, campaign, strategy, page)
            assert len(asked) > 3
            if session.get_bind().dialect.name == "sqlite":
                plans = [_plan(session, statement, values) for statement, values, _ in asked]
                assert [plan for plan in plans if WALKS.search(plan)] == [], strategy
            else:
                # In a page or two, all leases would be read as cheaply as one.
                session.execute(text("ANALYZE lease"))
                if statistics == "missing":
                    session.execute(text("DELETE FROM pg_statistic WHERE starelid = 'context_tally'::regclass"))
                most = max(_rows_read(session, *one) for one in asked)
                assert most <= 2 * context_strategies.WINDOW < MANY / 4, strategy


def _analyze(campaign: Campaign) -> None:
    """Let PostgreSQL collect statistics; SQLite plans without them."""
    if campaign.store.engine.dialect.name == "postgresql":
        with campaign.store.write() as session:
            session.execute(text("ANALYZE context_tally"))


def _asked_for(
    session: Any, campaign: Campaign, strategy: str, page: WorkSession, most: int = 120
) -> list[tuple[str, Any, bool]]:
    """Return the queries that lease so many contexts to a worker at once."""
    asked: list[tuple[str, Any, bool]] = []
    in_order = False

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> None:
        nonlocal in_order
        if "set_config" in statement:
            in_order = "off" in values.values()
        elif statement.startswith("SELECT"):
            asked.append((statement, values, in_order))

    event.listen(campaign.store.engine, "before_cursor_execute", note)
    lease_contexts(session, page, campaign.round, _spec(campaign, strategy), most, now=campaign.now)
    event.remove(campaign.store.engine, "before_cursor_execute", note)
    return asked


def _plan(session: Any, statement: str, values: Any) -> str:
    return "\n".join(row[3] for row in session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values))


def _rows_read(session: Any, statement: str, values: Any, in_order: bool) -> int:
    """The most rows that any step of PostgreSQL's plan really read.

    A bitmap of an index counts former versions of rows too, until they are vacuumed; what reads by it counts none.
    """
    with context_strategies._index_order(session) if in_order else nullcontext():
        told = session.connection().exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", values).scalar()

    def steps(node: dict[str, Any]) -> Iterator[int]:
        if node["Node Type"] != "Bitmap Index Scan":
            yield int((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
        for part in node.get("Plans", ()):
            yield from steps(part)

    return max(steps(told[0]["Plan"]))


@pytest.mark.any_database
def test_a_draw_among_many_favours_no_context(campaign: Campaign, window: int) -> None:
    _lay_out(campaign, contexts=8 * window)
    drawn = Counter(_drawn(campaign, "least_used"))
    everyone = sorted(_living(campaign))
    parts = [sum(drawn[one] for one in everyone[first : first + window]) for first in range(0, len(everyone), window)]
    assert _chi_square(parts, [DRAWS / 8] * 8) < LARGEST_CHI_SQUARE[8]
    # Of five draws among eight, four come for the first time.
    assert len(drawn) > len(everyone) / 3


@pytest.mark.any_database
def test_a_leased_context_is_drawn_as_often_as_others_of_its_rank(campaign: Campaign, window: int) -> None:
    _lay_out(campaign, contexts=4 * window)
    others = campaign.add_example("OTHERS").author_id
    written_on = sorted(_living(campaign))[::4]
    with campaign.store.write() as session:
        used = ContextTally.context_id.not_in(written_on)
        session.execute(update(ContextTally).where(used).values(used=1))
    drawn = list(_drawn(campaign, "least_used", leased=written_on, to=others))
    share = sum(one in written_on for one in drawn)
    assert _chi_square([share, DRAWS - share], [DRAWS / 4, DRAWS * 3 / 4]) < LARGEST_CHI_SQUARE[2]


@STRATEGIES
def test_leases_of_others_are_not_read_one_by_one(campaign: Campaign, strategy: str) -> None:
    _lay_out(campaign, contexts=800)
    others, page = campaign.add_example("OTHERS").author_id, campaign.open_page("W1")
    half = sorted(_living(campaign) - {campaign.context_of(page).id})[:400]
    times = {"leased_at": campaign.now, "expires_at": page.expires_at}
    with campaign.store.dry_run() as session:
        session.execute(insert(Lease), [{"context_id": one, "worker_id": others, **times} for one in half])
        asked = _asked_for(session, campaign, strategy, page, most=1)
        found = session.scalars(select(Lease.context_id).where(Lease.session_id == page.id)).all()
    assert max(len(values) for _, values, _ in asked) < len(half) / 2
    assert len(found) == 2
    assert not set(found) & set(half)


@STRATEGIES
def test_a_worker_who_had_all_contexts_but_one_gets_the_last_one(
    campaign: Campaign, window: int, strategy: str
) -> None:
    _lay_out(campaign, contexts=4 * window)
    page = campaign.open_page("W1")
    *had, left = sorted(_living(campaign) - {campaign.context_of(page).id})
    now = campaign.now
    span: dict[str, Any] = {"leased_at": now, "expires_at": page.expires_at, "ended_at": now}
    with campaign.store.write() as session:
        session.execute(update(ContextTally).where(ContextTally.context_id == left).values(used=3, fooled=2))
        for one in had:
            mine: dict[str, Any] = {"context_id": one, "worker_id": page.worker_id, "session_id": page.id}
            session.add(Lease(**mine, outcome=LeaseEnd.USED, **span))
    with campaign.store.dry_run() as session:
        work, spec = session.get_one(WorkSession, page.id), _spec(campaign, strategy)
        assert lease_contexts(session, work, campaign.round, spec, 3, now=now) == [left]
        assert lease_contexts(session, work, campaign.round, spec, 3, now=now) == []


@STRATEGIES
def test_contexts_added_to_an_open_round_are_leased_and_removed_ones_are_not(
    new_campaign: NewCampaign, strategy: str
) -> None:
    campaign = new_campaign(contexts=2, rounds={"context_strategy": strategy})
    old = [campaign.context_of(campaign.open_page(f"W{number}")).key for number in range(2)]
    upload(campaign, [row("b"), row("a")])
    new = [campaign.context_of(campaign.open_page(f"X{number}")).key for number in range(2)]
    assert set(new) == {"a", "b"}
    upload(campaign, [row("c"), row("a")], replace=True)
    # A worker writes on a, and none on c.
    assert campaign.context_of(campaign.open_page("Y1")).key == "c"
    assert {campaign.context_of(campaign.open_page(f"Z{number}")).key for number in range(4)} == {"a", "c"}
    upload(campaign, [row("b"), row("a"), row("c")], replace=True)
    # One worker still writes on b, which is active again.
    assert campaign.context_of(campaign.open_page("V1")).key == "b"
    assert set(old).isdisjoint({"a", "b", "c"})
    if strategy == "in_order":
        assert new == ["b", "a"]


def test_a_changed_order_applies_to_an_open_round(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=2, rounds={"context_strategy": "in_order"})
    upload(campaign, [row("a"), row("b"), row("c")], replace=True)
    upload(campaign, [row("c"), row("a"), row("b")], replace=True)
    given = [campaign.context_of(campaign.open_page(f"W{number}")).key for number in range(4)]
    assert given == ["c", "a", "b", "c"]


def test_no_page_opens_when_all_contexts_are_retired(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        session.execute(update(Context).values(retired_at=campaign.now))
    with pytest.raises(NothingToDo):
        campaign.open_page("W1")


def _lay_out(campaign: Campaign, contexts: int) -> None:
    upload(campaign, [row(f"c{number}") for number in range(contexts)], replace=True)
    with campaign.store.write() as session:
        # Drawn with this, so that it is the same draw each time.
        session.get_one(Task, campaign.task.id).worker_salt = "0" * 64


def _living(campaign: Campaign) -> set[int]:
    with campaign.store.read() as session:
        return {one.id for one in live_contexts(session, campaign.task.id)}


def _spec(campaign: Campaign, strategy: str) -> Any:
    rounds = campaign.spec.rounds.model_copy(update={"context_strategy": strategy})
    return campaign.spec.model_copy(update={"rounds": rounds})


def _drawn(campaign: Campaign, strategy: str, leased: list[int] | None = None, to: int | None = None) -> Iterator[int]:
    """Return the context that each of many workers with a fixed seed would get next, while these are leased."""
    page, spec, now = campaign.open_page("W1"), _spec(campaign, strategy), campaign.now
    with campaign.store.dry_run() as session:
        session.execute(delete(WorkItem))
        session.execute(delete(Lease))
        for one in leased or ():
            session.add(Lease(context_id=one, worker_id=to, leased_at=now, expires_at=page.expires_at))
        work = session.get_one(WorkSession, page.id)
        for number in range(DRAWS):
            set_committed_value(work, "public_id", UUID(int=number))
            yield from lease_contexts(session, work, campaign.round, spec, 1, now=now)
            mine = delete(Lease).where(Lease.session_id == page.id)
            session.execute(mine.execution_options(synchronize_session=False))


def _chi_square(found: list[int], shares: list[float]) -> float:
    return sum((one - share) ** 2 / share for one, share in zip(found, shares, strict=True))
