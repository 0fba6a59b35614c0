"""Workers find, take, return and hand in work; what is late, twice or somebody else's changes nothing."""

import pytest

from mturk.marketplace import worker_actions
from mturk.marketplace.errors import (
    AlreadySubmitted,
    AssignmentExpired,
    NotTheHolder,
    NoWorkLeft,
    QueueFull,
    WorkNotFound,
)
from mturk.marketplace.services import earnings
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import AssignmentStatus, HitStatus
from mturk.marketplace.worker_actions import HitGroup
from tests.unit.marketplace.conftest import Stage


def _groups(stage: Stage, worker: Worker) -> list[HitGroup]:
    with stage.market.read() as session:
        return worker_actions.list_groups(session, worker, stage.clock.now())


def test_a_group_says_what_it_pays_and_how_much_is_there(stage: Stage) -> None:
    worker = stage.worker()
    assert _groups(stage, worker) == []
    first = stage.hit(assignments=3)
    stage.hit(lifetime=7200)
    (group,) = _groups(stage, worker)
    assert (group.title, group.requester, group.reward_cents, group.available) == ("Fool the model", "Lab", 25, 2)
    assert (group.qualified, group.why_not, group.keywords) == (True, "", ("text", "writing"))
    assert group.expires_at > first.expires_at
    stage.accept(worker)
    assert _groups(stage, worker)[0].available == 1
    assert _groups(stage, stage.worker("Bob"))[0].available == 2
    stage.pass_time(hours=3)
    assert _groups(stage, worker) == []


def test_what_is_previewed_is_what_is_accepted(stage: Stage) -> None:
    stage.hit()
    stage.hit()
    worker = stage.worker()
    with stage.market.read() as session:
        shown = worker_actions.preview(session, worker, stage.kind.group_id, stage.clock.now())
        with pytest.raises(WorkNotFound):
            worker_actions.preview(session, worker, "3NONE", stage.clock.now())
    assert stage.accept(worker).hit_id == shown.id


def test_nobody_works_twice_on_one_hit(stage: Stage) -> None:
    stage.hit(assignments=2)
    worker = stage.worker()
    stage.submit(stage.accept(worker))
    with pytest.raises(NoWorkLeft):
        stage.accept(worker)


def test_a_returned_place_goes_to_another_worker_with_the_same_id(stage: Stage) -> None:
    hit, ann, bob = stage.hit(), stage.worker(), stage.worker("Bob")
    held = stage.accept(ann)
    stage.give_back(ann, held)
    assert stage.seen(hit).status is HitStatus.ASSIGNABLE
    again = stage.accept(bob)
    assert (again.id, again.worker_id) == (held.id, bob.id)
    for act in (lambda: stage.give_back(ann, held), lambda: stage.submit(held, worker_id=ann.id)):
        with pytest.raises(NotTheHolder):
            act()
    assert stage.fresh(held).status is AssignmentStatus.ACCEPTED


def test_what_a_worker_returned_comes_last_for_them(stage: Stage) -> None:
    first, second = stage.hit(), stage.hit()
    worker = stage.worker()
    stage.give_back(worker, stage.accept(worker))
    assert stage.accept(worker).hit_id == second.id
    assert stage.accept(worker).hit_id == first.id


def test_when_its_time_is_over_a_place_is_free_again(stage: Stage) -> None:
    hit, ann, bob = stage.hit(), stage.worker(), stage.worker("Bob")
    held = stage.accept(ann)
    stage.pass_time(seconds=599)
    assert stage.seen(hit).status is HitStatus.UNASSIGNABLE
    stage.pass_time(seconds=1)
    with pytest.raises(AssignmentExpired):
        stage.submit(held, worker_id=ann.id)
    with pytest.raises(AssignmentExpired):
        stage.give_back(ann, held)
    assert stage.fresh(held).status is AssignmentStatus.FREE
    assert stage.accept(bob).id == held.id


def test_a_place_that_is_abandoned_after_the_hit_expired_gives_its_money_back(stage: Stage) -> None:
    hit = stage.hit(lifetime=60)
    stage.accept(stage.worker())
    stage.pass_time(seconds=61)
    assert (stage.seen(hit).status, stage.seen(hit).held_cents) == (HitStatus.UNASSIGNABLE, 30)
    stage.pass_time(seconds=600)
    assert (stage.seen(hit).status, stage.seen(hit).held_cents) == (HitStatus.REVIEWABLE, 0)


def test_work_is_handed_in_once_and_by_its_holder_only(stage: Stage) -> None:
    stage.hit()
    ann, bob = stage.worker(), stage.worker("Bob")
    held = stage.accept(ann)
    with pytest.raises(NotTheHolder):
        stage.submit(held, worker_id=bob.id)
    stage.submit(held, worker_id=ann.id, answers={"text": "first"})
    with pytest.raises(AlreadySubmitted):
        stage.submit(held, answers={"text": "second"})
    assert "first" in stage.fresh(held).answer
    with pytest.raises(WorkNotFound), stage.market.write() as session:
        worker_actions.submit(session, "3NONE", {}, stage.clock.now())


def test_a_worker_holds_so_many_hits_and_no_more(stage: Stage) -> None:
    worker = stage.worker()
    for _ in range(worker_actions.MAX_HELD + 1):
        stage.hit()
    held = [stage.accept(worker) for _ in range(worker_actions.MAX_HELD)]
    with pytest.raises(QueueFull):
        stage.accept(worker)
    with stage.market.read() as session:
        assert [one.id for one in worker_actions.held_assignments(session, worker, stage.clock.now())] == [
            one.id for one in held
        ]
    stage.submit(held[0])
    assert stage.accept(worker)


def test_earnings_say_what_is_pending_and_what_was_approved(stage: Stage) -> None:
    worker = stage.worker()
    stage.hit()
    stage.submit(stage.accept(worker))
    with stage.market.read() as session:
        before = earnings.worker_earnings(session, worker)
    stage.pass_time(days=1)
    with stage.market.read() as session:
        after = earnings.worker_earnings(session, worker)
    assert (before.pending_cents, before.total_cents) == (25, 0)
    assert (after.pending_cents, after.total_cents, after.balance_cents) == (0, 25, 25)
    assert [work.status for work in after.assignments] == [AssignmentStatus.APPROVED]
