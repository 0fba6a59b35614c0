"""The client and a real marketplace on a connection that loses responses: everything happens exactly once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from crowd.errors import CrowdAccessDenied, CrowdBusy, CrowdRefused, CrowdUnavailable, NotOnCrowd, RetryPolicy
from crowd.port import AssignmentState
from mturk.client import open_crowd
from tests.fakes.market import MarketServer
from tests.fakes.marketplace_proxy import FaultPlan, MarketplaceProxy, Outcome, proxy_of
from tests.integration.crowd.stage import FUNDS, FakeStage, MarketStage, Orders

QUICK = RetryPolicy(budget=20, first_pause=0.001, longest_pause=0.02)
FAULTS = [Outcome.THROTTLED, Outcome.FAILED_AFTER, Outcome.DROPPED_AFTER]


@pytest.fixture
def proxy(market_server: MarketServer) -> Iterator[MarketplaceProxy]:
    with proxy_of(market_server.url) as proxy:
        yield proxy


@pytest.fixture
def orders(market_server: MarketServer, proxy: MarketplaceProxy) -> Orders:
    return Orders(MarketStage(market_server, proxy.url, QUICK))


@pytest.mark.parametrize("outcome", FAULTS)
def test_a_hit_is_posted_once_even_if_the_response_is_lost(
    orders: Orders, proxy: MarketplaceProxy, outcome: Outcome
) -> None:
    order = orders.hit()
    proxy.next(Outcome.PASSED, outcome)
    posted = orders.crowd.post(order)
    assert proxy.done["CreateHITWithHITType", outcome] == 1
    assert [(one.hit_id, one.key) for one in orders.crowd.hits()] == [(posted.hit_id, order.token.key)]
    assert orders.crowd.balance() == FUNDS - 3 * 30


@pytest.mark.parametrize("outcome", FAULTS)
def test_a_bonus_is_paid_once_even_if_the_response_is_lost(
    orders: Orders, proxy: MarketplaceProxy, outcome: Outcome
) -> None:
    work = orders.work(max_assignments=1)
    order = orders.bonus(work)
    proxy.next(outcome, outcome)
    orders.crowd.bonus(order)
    assert proxy.calls("SendBonus") == 3
    assert [one.key for one in orders.crowd.bonuses(hit_id=work.hit_id)] == [order.token.key]
    assert orders.crowd.balance() == FUNDS - 30 - 180


@pytest.mark.parametrize("outcome", FAULTS)
def test_every_other_change_is_made_even_if_the_response_is_lost(
    orders: Orders, proxy: MarketplaceProxy, outcome: Outcome
) -> None:
    crowd, hit = orders.crowd, orders.crowd.post(orders.hit(max_assignments=1))
    good, bad = (orders.work(max_assignments=1) for _ in range(2))
    kind, worker = crowd.ensure_qualification("trained", "d").qualification_id, good.worker_id
    changes: list[Callable[[], object]] = [
        lambda: crowd.expire(hit.hit_id),
        lambda: crowd.approve(good.assignment_id),
        lambda: crowd.reject(bad.assignment_id, "not a sentence"),
        lambda: crowd.override_rejection(bad.assignment_id),
        lambda: crowd.grant(kind, worker),
        lambda: crowd.revoke(kind, worker),
        lambda: crowd.block(worker, "spam"),
        lambda: crowd.unblock(worker),
    ]
    for change in changes:
        proxy.next(outcome)
        change()
    proxy.next(Outcome.PASSED, outcome)
    made = crowd.ensure_qualification("validator", "d")
    assert proxy.faults() == len(changes) + 1
    assert crowd.ensure_qualification("validator", "d") == made
    assert {crowd.assignment(one.assignment_id).state for one in (good, bad)} == {AssignmentState.APPROVED}
    assert crowd.balance() == FUNDS - 2 * 30


def test_many_threads_on_a_bad_connection_do_everything_exactly_once(market_server: MarketServer) -> None:
    count = 40
    plan = FaultPlan(seed=7, throttled=0.1, failed_after=0.1, dropped_after=0.1, delayed=0.05)
    with proxy_of(market_server.url, plan) as proxy, ThreadPoolExecutor(8) as pool:
        stage = MarketStage(market_server, proxy.url, QUICK)
        orders, terms = Orders(stage), Orders(stage).terms()
        ordered = [orders.hit(terms=terms, max_assignments=1) for _ in range(count)]
        posted = list(pool.map(orders.crowd.post, ordered))
        worker = market_server.make_worker()
        for hit in posted:
            market_server.work(worker, hit.type_id)
        works = [one for hit in posted for one in orders.crowd.assignments(hit.hit_id)]
        bonuses = [orders.bonus(work, cents=50) for work in works]
        list(pool.map(orders.crowd.approve, [one.assignment_id for one in works]))
        list(pool.map(orders.crowd.bonus, bonuses))
        assert proxy.faults() > count / 2
        assert all(any(key[1] is outcome for key in proxy.done) for outcome in Outcome)
    crowd = open_crowd(replace(stage.endpoint, url=market_server.url), now=stage.now)
    assert sorted(one.key for one in crowd.hits()) == sorted(one.token.key for one in ordered)
    assert len(works) == count
    assert {crowd.assignment(one.assignment_id).state for one in works} == {AssignmentState.APPROVED}
    paid = [bonus.key for hit in posted for bonus in crowd.bonuses(hit_id=hit.hit_id)]
    assert sorted(paid) == sorted(one.token.key for one in bonuses)
    assert crowd.balance() == FUNDS - count * (30 + 60)


def test_a_persistent_failure_is_given_up_when_the_retry_budget_is_used(
    market_server: MarketServer, proxy: MarketplaceProxy
) -> None:
    orders = Orders(MarketStage(market_server, proxy.url, replace(QUICK, budget=0.05)))
    proxy.next(*[Outcome.THROTTLED] * 1000)
    with pytest.raises(CrowdBusy):
        orders.crowd.balance()
    assert 1 < proxy.calls() < 1000


def test_a_call_without_any_response_ends_in_doubt_and_ran_once(
    market_server: MarketServer, proxy: MarketplaceProxy
) -> None:
    orders = Orders(MarketStage(market_server, proxy.url, replace(QUICK, budget=0.05)))
    order = orders.hit()
    proxy.next(Outcome.PASSED, *[Outcome.FAILED_AFTER] * 1000)
    with pytest.raises(CrowdUnavailable) as caught:
        orders.crowd.post(order)
    assert caught.value.in_doubt
    proxy.next_is_planned()
    assert [one.key for one in orders.crowd.hits()] == [order.token.key]


def test_the_same_seed_makes_the_same_faults() -> None:
    plan = FaultPlan(seed=3, throttled=0.2, failed_after=0.2, dropped_after=0.2)
    one, other = MarketplaceProxy("", plan), MarketplaceProxy("", plan)
    assert [one.decide("x") for _ in range(200)] == [other.decide("x") for _ in range(200)]
    assert 90 < one.faults() < 150


@pytest.mark.parametrize("wrong", [{"secret": "wrong"}, {"access_key_id": "AKIAUNKNOWN"}])
def test_wrong_keys_are_refused_and_change_nothing(market_server: MarketServer, wrong: dict[str, str]) -> None:
    stage = MarketStage(market_server)
    stranger = open_crowd(replace(stage.endpoint, **wrong), now=stage.now)
    with pytest.raises(CrowdAccessDenied):
        stranger.post(Orders(stage).hit())
    assert list(stage.crowd.hits()) == []


def test_another_requesters_objects_are_unknown(market_server: MarketServer) -> None:
    mine, other = MarketStage(market_server), MarketStage(market_server)
    work = Orders(mine).work()
    for call in (other.crowd.hit, other.crowd.expire):
        with pytest.raises(NotOnCrowd):
            call(work.hit_id)
    with pytest.raises(NotOnCrowd):
        other.crowd.approve(work.assignment_id)


@pytest.mark.parametrize("after", [False, True])
def test_the_fake_crowd_fails_on_request(*, after: bool) -> None:
    stage = FakeStage()
    orders, fake = Orders(stage), stage.fake
    order = orders.hit()
    fake.fail(CrowdUnavailable("lost"), call=2, after=after)
    assert fake.balance() == FUNDS
    with pytest.raises(CrowdUnavailable):
        fake.post(order)
    assert len(list(fake.hits())) == int(after)
    fake.post(order)
    assert len(list(fake.hits())) == 1
    assert fake.calls == {"balance": 1, "post": 2, "hits": 2}


def test_the_in_memory_crowd_accepts_deposits() -> None:
    stage = FakeStage()
    stage.fake.deposit(5)
    assert stage.crowd.balance() == FUNDS + 5
    with pytest.raises(CrowdRefused):
        stage.fake.bonuses()
