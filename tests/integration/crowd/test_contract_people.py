"""The contract of workers on every crowd: qualifications, blocks and messages."""

import pytest

from crowd.errors import CrowdRefused
from crowd.port import Comparator, Requirement
from crowd.profile import BuiltInQualification
from tests.integration.crowd.stage import Orders, Stage


def test_a_qualification_is_created_once_per_name(orders: Orders) -> None:
    first = orders.crowd.ensure_qualification("trained", "has read the rules")
    assert (first.name, first.description) == ("trained", "has read the rules")
    assert orders.crowd.ensure_qualification("trained", "has read the rules") == first
    assert orders.crowd.ensure_qualification("validator", "votes").qualification_id != first.qualification_id


def test_a_qualification_is_granted_with_a_score_and_revoked(stage: Stage, orders: Orders) -> None:
    kind = orders.crowd.ensure_qualification("trained", "has read the rules").qualification_id
    one, other = stage.worker(), stage.worker()
    orders.crowd.grant(kind, one)
    orders.crowd.grant(kind, other, 50)
    orders.crowd.grant(kind, other, 80)
    assert stage.scores(kind) == {one: 1, other: 80}
    orders.crowd.revoke(kind, one, "spam")
    assert stage.scores(kind) == {other: 80}


def test_revoking_a_qualification_without_holders_does_nothing(stage: Stage, orders: Orders) -> None:
    kind, worker = orders.crowd.ensure_qualification("trained", "has read the rules").qualification_id, stage.worker()
    orders.crowd.revoke(kind, worker)
    orders.crowd.grant(kind, worker)
    orders.crowd.revoke(kind, worker)
    orders.crowd.revoke(kind, worker, "again")
    orders.crowd.grant(kind, worker, 5)
    assert stage.scores(kind) == {worker: 5}


@pytest.mark.parametrize(
    ("comparator", "wanted", "fits", "fails"),
    [
        (Comparator.EXISTS, (), 1, None),
        (Comparator.DOES_NOT_EXIST, (), None, 1),
        (Comparator.AT_LEAST, (80,), 80, 79),
        (Comparator.MORE, (80,), 81, 80),
        (Comparator.LESS, (80,), 79, 80),
        (Comparator.AT_MOST, (80,), 80, 81),
        (Comparator.EQUAL, (80,), 80, 81),
        (Comparator.NOT_EQUAL, (80,), 81, 80),
        (Comparator.IN, (1, 2), 2, 3),
        (Comparator.NOT_IN, (1, 2), 3, 2),
        (Comparator.AT_LEAST, (80,), 80, None),
    ],
)
def test_only_workers_who_meet_the_requirements_can_accept_a_hit(
    stage: Stage, orders: Orders, comparator: Comparator, wanted: tuple[int, ...], fits: int | None, fails: int | None
) -> None:
    kind = orders.crowd.ensure_qualification("trained", "has read the rules").qualification_id
    hit = orders.crowd.post(orders.hit(terms=orders.terms(requirements=(Requirement(kind, comparator, wanted),))))
    for score, may in ((fits, True), (fails, False)):
        worker = stage.worker()
        if score is not None:
            orders.crowd.grant(kind, worker, score)
        assert stage.accept(hit, worker) is may


@pytest.mark.parametrize("comparator", [Comparator.IN, Comparator.NOT_IN])
def test_countries_can_be_required_and_excluded(stage: Stage, orders: Orders, comparator: Comparator) -> None:
    requirement = Requirement(BuiltInQualification.LOCALE, comparator, countries=("US", "CA"))
    hit = orders.crowd.post(orders.hit(terms=orders.terms(requirements=(requirement,))))
    assert stage.accept(hit, stage.worker("CA")) is (comparator is Comparator.IN)
    assert stage.accept(hit, stage.worker("DE")) is (comparator is Comparator.NOT_IN)


def test_a_blocked_worker_cannot_accept_hits_until_unblocked(stage: Stage, orders: Orders) -> None:
    hit, worker = orders.crowd.post(orders.hit()), stage.worker()
    orders.crowd.block(worker, "sells answers")
    orders.crowd.block(worker, "sells answers to others")
    assert [(one.worker_id, one.reason) for one in orders.crowd.blocks()] == [(worker, "sells answers to others")]
    assert not stage.accept(hit, worker)
    orders.crowd.unblock(worker)
    orders.crowd.unblock(worker, "was a mistake")
    assert list(orders.crowd.blocks()) == []
    assert stage.accept(hit, worker)


def test_a_block_without_a_reason_is_refused(stage: Stage, orders: Orders) -> None:
    with pytest.raises(CrowdRefused):
        orders.crowd.block(stage.worker(), " ")
    assert list(orders.crowd.blocks()) == []


def test_messages_reach_past_workers_and_others_are_reported(stage: Stage, orders: Orders) -> None:
    known, stranger = orders.work().worker_id, stage.worker()
    undelivered = orders.crowd.notify([known, stranger], "Round 2", "It starts today.")
    assert [one.worker_id for one in undelivered] == [stranger]
    assert undelivered[0].reason
    assert stage.read(known) == ["Round 2"]
    assert stage.read(stranger) == []
    assert orders.crowd.notify([], "Round 2", "It starts today.") == []
