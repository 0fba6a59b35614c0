"""A verified fooling example earns its author the bonus once; a bonus that can no longer be earned is released."""

from round_manager.crowd.mirror import mark_rejected
from round_manager.crowd.reviews import Rejections
from round_manager.models import Assignment, EntryKind, Example, ExampleStatus, Hit, Task
from round_manager.money.ledger import release
from round_manager.validation.decisions import Decisions
from round_manager.validation.flags import find_example, keep, withdraw
from tests.fakes.crowd import FakeCrowd
from tests.integration.round_manager.validation.conftest import SeatPanel
from tests.integration.round_manager.validation.panel import OWNER, Panel


def test_a_verified_fooling_example_owes_its_author_the_bonus_once(panel: Panel) -> None:
    (example,) = panel.written()
    panel.vote(example, None, None)
    assert panel.bonuses() == {"reserved": 1}
    found = panel.decide()
    assert (found.verified, found.bonuses, found.released) == (1, 1, 0)
    panel.vote(example)
    assert panel.decide().bonuses == 0
    assert (panel.bonuses(), panel.owed_to()) == ({"owed": 1}, [example.id])


def test_a_disputed_example_releases_its_bonus(panel: Panel) -> None:
    (example,) = panel.written()
    panel.vote(example, *[panel.other(example)] * 3)
    found = panel.decide()
    assert (found.disputed, found.released) == (1, 1)
    assert panel.bonuses() == {"released": 1}


def test_in_house_work_has_no_bonus(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example, None, None)
    assert panel.decide().bonuses == 0
    assert panel.owed_to() == []


def test_an_example_that_did_not_fool_releases_its_bonus_when_confirmed(seat: SeatPanel) -> None:
    panel = seat(validation={"sample_non_fooling": 0.0}, work={"tries_before_skip": 0})
    (example,) = panel.written(fooled=False)
    assert panel.status(example) is ExampleStatus.UNCHECKED
    assert panel.bonuses() == {"released": 1}


def test_an_example_that_did_not_fool_earns_nothing_even_if_verified(seat: SeatPanel) -> None:
    panel = seat(validation={"sample_non_fooling": 1.0}, work={"tries_before_skip": 0})
    (example,) = panel.written(fooled=False)
    panel.vote(example, None, None)
    found = panel.decide()
    assert (found.verified, found.bonuses) == (1, 0)
    assert panel.bonuses() == {"released": 1}


def test_each_example_of_a_hit_has_its_own_bonus(seat: SeatPanel) -> None:
    panel = seat(work={"examples_per_hit": 3})
    hit = panel.hit(assignments=2)
    first, second, third = panel.written(hit=hit)
    panel.vote(first, None, None)
    panel.vote(second, *[panel.other(second)] * 3)
    panel.decide()
    # One is owed and one released; one waits for votes, and three for the worker of the other assignment.
    assert panel.bonuses() == {"owed": 1, "released": 1, "reserved": 4}
    panel.vote(third, None, None)
    panel.decide()
    assert sorted(panel.owed_to()) == [first.id, third.id]


def test_rejected_work_earns_nothing_and_takes_no_other_works_bonus(seat: SeatPanel) -> None:
    panel = seat(work={"examples_per_hit": 1})
    hit = panel.hit(assignments=2)
    (good,) = panel.written("W1", hit=hit)
    (bad,) = panel.written("W2", hit=hit)
    panel.vote(bad, *[panel.other(bad)] * 3)
    panel.decide()
    assert panel.bonuses() == {"reserved": 1, "released": 1}
    with panel.store.write() as session:
        work = session.get_one(Assignment, panel.assignment(bad).id)
        mark_rejected(session, work, "No.", OWNER, panel.now, now=panel.now)
    assert panel.bonuses() == {"reserved": 1, "released": 1}
    panel.vote(good, None, None)
    panel.decide()
    assert panel.owed_to() == [good.id]


def test_an_overridden_rejection_earns_the_bonus(panel: Panel) -> None:
    (example,) = panel.written()
    work = panel.assignment(example)
    with panel.store.write() as session:
        mark_rejected(session, session.get_one(Assignment, work.id), "No.", OWNER, panel.now, now=panel.now)
    assert panel.bonuses() == {"released": 1}
    panel.vote(example, None, None)
    assert panel.decide().bonuses == 0
    crowd = FakeCrowd(panel.floor.clock.now)
    Rejections(panel.store, crowd, panel.floor.clock).override(work.external_id, actor=OWNER, reason="Yes.")
    assert panel.owed_to() == [example.id]


def test_a_bonus_is_owed_as_soon_as_the_budget_covers_it(panel: Panel) -> None:
    (example,) = panel.written()
    with panel.store.write() as session:
        release(session, [panel.assignment(example).hit_id], EntryKind.BONUS, now=panel.now)
    panel.set_budget(54)
    panel.vote(example, None, None)
    for _ in range(2):
        found = panel.decide()
        assert (found.bonuses, found.uncovered) == (0, 1)
    assert panel.status(example) is ExampleStatus.VERIFIED
    panel.set_budget(1_000)
    assert panel.decide().bonuses == 1
    assert (panel.owed_to(), panel.uncounted()) == ([example.id], 0)


def test_a_bonus_for_a_kept_example_is_owed_as_soon_as_the_budget_covers_it(panel: Panel) -> None:
    (example,) = panel.written()
    panel.vote(example, None, None)
    panel.vote(example, flag="It names a person")
    panel.decide()
    with panel.store.write() as session:
        release(session, [panel.assignment(example).hit_id], EntryKind.BONUS, now=panel.now)
    bound = panel.spend_all()
    with panel.store.write() as session:
        row = find_example(session, session.get_one(Task, panel.floor.task.id), example.public_id)
        keep(session, row, actor=OWNER, reason="It does not", now=panel.now)
    assert (panel.status(example), panel.decide().uncovered) == (ExampleStatus.VERIFIED, 1)
    panel.set_budget(bound + 1_000)
    assert [panel.decide().bonuses for _ in range(2)] == [1, 0]
    assert (panel.owed_to(), panel.uncounted()) == ([example.id], 0)


def test_a_closed_round_releases_bonuses_that_can_no_longer_be_earned(panel: Panel) -> None:
    earned, undecided = panel.written("W1")[0], panel.written("W2")[0]
    panel.hit(assignments=3)
    panel.vote(earned, None, None)
    panel.vote(undecided)
    panel.decide()
    assert panel.bonuses() == {"owed": 1, "reserved": 4}
    panel.close()
    assert panel.decide().released == 4
    assert panel.bonuses() == {"owed": 1, "released": 4}
    assert panel.decide().released == 0


def test_a_flagged_example_keeps_its_bonus_until_its_owner_decides(panel: Panel) -> None:
    kept, withdrawn = panel.written("W1")[0], panel.written("W2")[0]
    for example in (kept, withdrawn):
        panel.vote(example, None, None)
        panel.vote(example, flag="It names a person")
    assert panel.decide() == Decisions()
    assert panel.bonuses() == {"reserved": 2}
    with panel.store.write() as session:
        task = session.get_one(Task, panel.floor.task.id)
        keep(session, find_example(session, task, kept.public_id), actor=OWNER, reason="It does not", now=panel.now)
        row = find_example(session, task, withdrawn.public_id)
        withdraw(session, row, actor=OWNER, reason="It does", now=panel.now)
    assert (panel.status(kept), panel.status(withdrawn)) == (ExampleStatus.VERIFIED, ExampleStatus.WITHDRAWN)
    assert (panel.bonuses(), panel.owed_to()) == ({"owed": 1, "released": 1}, [kept.id])


def test_unfinished_hits_keep_only_what_they_can_still_cost(panel: Panel) -> None:
    hit = panel.hit(assignments=2)
    (example,) = panel.written("W1", hit=hit)
    panel.vote(example, *[panel.other(example)] * 3)
    panel.decide()
    assert panel.bonuses() == {"released": 1, "reserved": 1}
    assert panel.floor.rows(Hit, Hit.finished_at.is_not(None)) == []
    assert panel.floor.rows(Example, Example.status == ExampleStatus.PENDING) == []
