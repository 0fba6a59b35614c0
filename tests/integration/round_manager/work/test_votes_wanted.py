"""A quote for validation HITs counts what there is to validate."""

from datetime import timedelta

from round_manager.crowd.hit_planning import HitRequest
from round_manager.loop.quote import Quote, quote
from round_manager.models import HitKind, Round, Task
from tests.fakes.crowd import FakeCrowd
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import Floor


def quoted(floor: Floor, places: int) -> Quote:
    wish = HitRequest(HitKind.VALIDATE, 1, places, floor.now + timedelta(hours=1))
    with floor.store.read() as session:
        task, round = session.get_one(Task, floor.task.id), session.get_one(Round, floor.round.id)
        return quote(session, task, round, wish, FakeCrowd(floor.clock.now), 10_000, now=floor.now)


def test_places_are_needed_for_missing_votes_that_are_not_posted_yet(lay: LayFloor) -> None:
    floor = lay(validation={"gold_rate": 0.0})
    for votes in (1, 2, 3):
        floor.pending(wanted=votes)
    wanted = quoted(floor, 3).votes_wanted
    assert wanted is not None
    assert (wanted.votes, wanted.places_out, wanted.places_needed) == (6, 0, 3)
    assert [quoted(floor, places).places_too_many for places in (3, 4)] == [0, 1]
    floor.hit(HitKind.VALIDATE, max_assignments=2)
    assert [quoted(floor, places).places_too_many for places in (1, 3)] == [0, 2]
