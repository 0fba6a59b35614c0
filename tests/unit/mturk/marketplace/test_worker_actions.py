"""Workers find, accept, return and submit work; what is late, repeated or another worker's changes nothing."""

import pytest

from mturk.marketplace import worker_actions
from mturk.marketplace.errors import (
    AssignmentAlreadySubmitted,
    AssignmentExpired,
    NotTheHolder,
    NoWorkLeft,
    QueueFull,
    WorkNotFound,
)
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import AssignmentStatus, HitStatus
from mturk.marketplace.worker_actions import HitGroup
from tests.fakes.market import TITLE, StillWorld


def list_groups(world: StillWorld, worker: Worker) -> list[HitGroup]:
    with world.market.read() as session:
        return worker_actions.list_groups(session, worker, world.now)


def test_a_group_shows_its_reward_and_how_many_hits_are_available(world: StillWorld) -> None:
    worker = world.make_worker()
    assert list_groups(world, worker) == []
    first = world.post(places=3, lifetime=3600)
    world.post(lifetime=7200)
    (group,) = list_groups(world, worker)
    assert (group.title, group.requester, group.reward_cents, group.available) == (TITLE, "Lab", 25, 2)
    assert (group.qualified, group.why_not, group.keywords) == (True, "", ("text", "writing"))
    assert group.expires_at > first.expires_at
    world.accept(worker, first.type_id)
    assert list_groups(world, worker)[0].available == 1
    assert list_groups(world, world.make_worker("Bob"))[0].available == 2
    world.advance(hours=3)
    assert list_groups(world, worker) == []


def test_the_previewed_hit_is_the_one_that_is_accepted(world: StillWorld) -> None:
    hit, worker = world.post(), world.make_worker()
    world.post()
    with world.market.read() as session:
        shown = worker_actions.preview(session, worker, world.group_of(hit.type_id), world.now)
        with pytest.raises(WorkNotFound):
            worker_actions.preview(session, worker, "3NONE", world.now)
    assert world.accept(worker, hit.type_id).hit_id == shown.id


def test_a_worker_cannot_accept_the_same_hit_twice(world: StillWorld) -> None:
    hit, worker = world.post(places=2), world.make_worker()
    world.work(worker, hit.type_id)
    with pytest.raises(NoWorkLeft):
        world.accept(worker, hit.type_id)


def test_a_returned_assignment_goes_to_another_worker_with_the_same_id(world: StillWorld) -> None:
    hit, ann, bob = world.post(), world.make_worker(), world.make_worker("Bob")
    held = world.accept(ann, hit.type_id)
    world.return_assignment(ann, held)
    assert world.hit(hit.id).status is HitStatus.ASSIGNABLE
    again = world.accept(bob, hit.type_id)
    assert (again.id, again.worker_id) == (held.id, bob.id)
    for act in (lambda: world.return_assignment(ann, held), lambda: world.submit(held, worker_id=ann.id)):
        with pytest.raises(NotTheHolder):
            act()
    assert world.assignment(held.id).status is AssignmentStatus.ACCEPTED


def test_a_worker_gets_a_returned_hit_last(world: StillWorld) -> None:
    first, second = world.post(), world.post()
    worker = world.make_worker()
    world.return_assignment(worker, world.accept(worker, first.type_id))
    assert [world.accept(worker, first.type_id).hit_id for _ in range(2)] == [second.id, first.id]


def test_an_assignment_is_released_at_its_deadline(world: StillWorld) -> None:
    hit, ann, bob = world.post(seconds=600), world.make_worker(), world.make_worker("Bob")
    held = world.accept(ann, hit.type_id)
    world.advance(seconds=599)
    assert world.hit(hit.id).status is HitStatus.UNASSIGNABLE
    world.advance(seconds=1)
    with pytest.raises(AssignmentExpired):
        world.submit(held, worker_id=ann.id)
    with pytest.raises(AssignmentExpired):
        world.return_assignment(ann, held)
    assert world.assignment(held.id).status is AssignmentStatus.FREE
    assert world.accept(bob, hit.type_id).id == held.id


def test_the_hold_of_an_expired_hit_is_returned_when_its_last_assignment_is_abandoned(world: StillWorld) -> None:
    hit = world.post(lifetime=60)
    world.accept(world.make_worker(), hit.type_id)
    world.advance(seconds=61)
    assert (world.hit(hit.id).status, world.hit(hit.id).held_cents) == (HitStatus.UNASSIGNABLE, 30)
    world.advance(seconds=600)
    assert (world.hit(hit.id).status, world.hit(hit.id).held_cents) == (HitStatus.REVIEWABLE, 0)


def test_work_is_submitted_once_and_only_by_its_holder(world: StillWorld) -> None:
    hit, ann, bob = world.post(), world.make_worker(), world.make_worker("Bob")
    held = world.accept(ann, hit.type_id)
    with pytest.raises(NotTheHolder):
        world.submit(held, worker_id=bob.id)
    world.submit(held, {"text": "first"}, worker_id=ann.id)
    with pytest.raises(AssignmentAlreadySubmitted):
        world.submit(held, {"text": "second"})
    assert "first" in world.assignment(held.id).answer
    with pytest.raises(WorkNotFound), world.market.write() as session:
        worker_actions.submit(session, "3NONE", {}, world.now)


def test_a_worker_holds_a_limited_number_of_assignments(world: StillWorld) -> None:
    worker = world.make_worker()
    hits = [world.post() for _ in range(worker_actions.MAX_HELD + 1)]
    held = [world.accept(worker, hits[0].type_id) for _ in range(worker_actions.MAX_HELD)]
    with pytest.raises(QueueFull):
        world.accept(worker, hits[0].type_id)
    with world.market.read() as session:
        listed = worker_actions.held_assignments(session, worker, world.now)
    assert [one.id for one in listed] == [one.id for one in held]
    world.submit(held[0])
    assert world.accept(worker, hits[0].type_id)
