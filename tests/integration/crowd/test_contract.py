"""The contract of HITs on every crowd: posting, extending, expiring, and the money that each step holds."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from crowd.errors import (
    CrowdError,
    CrowdRefused,
    InsufficientFunds,
    NotOnCrowd,
    TokenExpired,
    TokenMissing,
)
from crowd.port import BonusOrder, Crowd, HitOrder, HitState, Token
from tests.integration.crowd.stage import FUNDS, Orders, Stage

UNKNOWN = "3NOSUCHTHING"


def nothing_changed(crowd: Crowd) -> bool:
    return list(crowd.hits()) == [] and crowd.balance() == FUNDS


def test_a_hit_is_posted_as_ordered(stage: Stage, orders: Orders) -> None:
    order = orders.hit(max_assignments=4, lifetime_seconds=3600)
    hit = orders.crowd.post(order)
    assert hit == orders.crowd.hit(hit.hit_id) == next(orders.crowd.hits())
    assert (hit.key, hit.state, hit.reward_cents) == (order.token.key, HitState.ASSIGNABLE, 25)
    assert (hit.max_assignments, hit.available, hit.pending, hit.completed, hit.undecided) == (4, 4, 0, 0, 0)
    assert abs(hit.expires_at - hit.created_at - timedelta(hours=1)) < timedelta(seconds=1)
    assert abs(hit.created_at - stage.now()) < timedelta(minutes=1)


def test_the_same_token_posts_one_hit_however_often_it_is_sent(orders: Orders) -> None:
    order = orders.hit()
    first = orders.crowd.post(order)
    balance = orders.crowd.balance()
    assert [orders.crowd.post(order).hit_id for _ in range(3)] == [first.hit_id] * 3
    assert [one.hit_id for one in orders.crowd.hits()] == [first.hit_id]
    assert orders.crowd.balance() == balance


def test_the_same_token_from_many_threads_posts_one_hit(orders: Orders) -> None:
    order = orders.hit()
    with ThreadPoolExecutor(6) as pool:
        made = set(pool.map(lambda _: orders.crowd.post(order).hit_id, range(6)))
    assert {one.hit_id for one in orders.crowd.hits()} == made
    assert len(made) == 1


def test_hits_with_the_same_terms_form_one_group(orders: Orders) -> None:
    terms = orders.terms()
    first, second = (orders.crowd.post(orders.hit(terms=terms)) for _ in range(2))
    other = orders.crowd.post(orders.hit())
    assert first.hit_id != second.hit_id
    assert (first.type_id, first.group_id) == (second.type_id, second.group_id)
    assert other.group_id != first.group_id


def test_a_token_is_remembered_for_as_long_as_it_protects(stage: Stage, orders: Orders) -> None:
    order = orders.hit(lifetime_seconds=200_000)
    first = orders.crowd.post(order)
    stage.wait(timedelta(hours=21, minutes=59))
    assert orders.crowd.post(order).hit_id == first.hit_id


def test_an_expired_token_is_not_sent(stage: Stage, orders: Orders) -> None:
    order = orders.hit()
    stage.wait(timedelta(hours=24))
    with pytest.raises(TokenExpired):
        orders.crowd.post(order)
    assert nothing_changed(orders.crowd)


def test_without_a_token_nothing_is_posted(stage: Stage, orders: Orders) -> None:
    with pytest.raises(TokenMissing):
        orders.crowd.post(orders.hit(token=Token("", stage.now())))
    assert nothing_changed(orders.crowd)


@pytest.mark.parametrize(("workers", "each"), [(3, 30), (9, 30), (10, 35)])
def test_posting_reserves_the_quoted_price_of_the_hit(orders: Orders, workers: int, each: int) -> None:
    order = orders.hit(max_assignments=workers)
    assert orders.crowd.price(order.terms, workers).total_cents == each
    orders.crowd.post(order)
    assert orders.crowd.balance() == FUNDS - workers * each


def test_a_hit_that_the_balance_does_not_cover_is_refused_and_can_be_posted_later(orders: Orders) -> None:
    order = orders.hit(terms=orders.terms(reward_cents=100_000), max_assignments=9)
    with pytest.raises(InsufficientFunds) as caught:
        orders.crowd.post(order)
    assert caught.value.retry
    assert nothing_changed(orders.crowd)


@pytest.mark.parametrize("nonsense", ["reward", "workers", "question", "address", "token"])
def test_invalid_orders_are_refused_and_change_nothing(stage: Stage, orders: Orders, nonsense: str) -> None:
    choices: dict[str, Callable[[], HitOrder]] = {
        "reward": lambda: orders.hit(terms=orders.terms(reward_cents=-1)),
        "workers": lambda: orders.hit(max_assignments=0),
        "question": lambda: orders.hit(page_url=f"https://outfox.example/{'x' * 66_000}"),
        "address": lambda: orders.hit(page_url="outfox.example/hit"),
        "token": lambda: orders.hit(token=Token("x" * 65, stage.now())),
    }
    with pytest.raises(CrowdRefused):
        orders.crowd.post(choices[nonsense]())
    assert nothing_changed(orders.crowd)


def test_missing_objects_are_unknown(orders: Orders) -> None:
    crowd = orders.crowd
    bonus = BonusOrder(orders.token(), "A1", UNKNOWN, 5, "")
    calls: list[Callable[[], object]] = [
        lambda: crowd.hit(UNKNOWN),
        lambda: crowd.expire(UNKNOWN),
        lambda: list(crowd.assignments(UNKNOWN)),
        lambda: crowd.assignment(UNKNOWN),
        lambda: crowd.approve(UNKNOWN),
        lambda: crowd.reject(UNKNOWN, "bad"),
        lambda: crowd.override_rejection(UNKNOWN),
        lambda: crowd.bonus(bonus),
        lambda: list(crowd.bonuses(hit_id=UNKNOWN)),
        lambda: crowd.grant(UNKNOWN, orders.stage.worker()),
        lambda: crowd.revoke(UNKNOWN, orders.stage.worker()),
        lambda: crowd.send_events(UNKNOWN, "https://sqs.us-east-1.amazonaws.com/1/events"),
    ]
    for call in calls:
        with pytest.raises(NotOnCrowd) as caught:
            call()
        assert not caught.value.retry
    assert nothing_changed(crowd)


def test_listings_return_all_pages_newest_first(orders: Orders) -> None:
    terms = orders.terms()
    posted = [orders.crowd.post(orders.hit(terms=terms, max_assignments=1)).hit_id for _ in range(101)]
    assert [one.hit_id for one in orders.crowd.hits()] == posted[::-1]


def test_an_expired_hit_can_be_finished_but_not_accepted(stage: Stage, orders: Orders) -> None:
    hit, early, late = orders.crowd.post(orders.hit()), stage.worker(), stage.worker()
    assert stage.accept(hit, early)
    orders.crowd.expire(hit.hit_id)
    orders.crowd.expire(hit.hit_id)
    assert not stage.accept(hit, late)
    assert orders.crowd.hit(hit.hit_id).state is HitState.UNASSIGNABLE
    stage.submit(hit, early)
    ended = orders.crowd.hit(hit.hit_id)
    assert (ended.state, ended.undecided, ended.available) == (HitState.REVIEWABLE, 1, 2)
    assert orders.crowd.balance() == FUNDS - 30


def test_a_hit_expires_at_the_end_of_its_lifetime(stage: Stage, orders: Orders) -> None:
    hit = orders.crowd.post(orders.hit(lifetime_seconds=3600))
    stage.wait(timedelta(seconds=3601))
    assert orders.crowd.hit(hit.hit_id).state is HitState.REVIEWABLE
    assert orders.crowd.balance() == FUNDS


def test_events_can_be_sent_to_a_queue(orders: Orders) -> None:
    hit = orders.crowd.post(orders.hit())
    orders.crowd.send_events(hit.type_id, "https://sqs.us-east-1.amazonaws.com/123456789012/events")
    with pytest.raises(CrowdError):
        orders.crowd.send_events(hit.type_id, "no queue")
