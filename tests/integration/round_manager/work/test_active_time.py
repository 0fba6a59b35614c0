"""Each example and each vote has its own share of its page's active time, and a page cannot make time up."""

from datetime import timedelta

from round_manager.models import Example, WorkItem, WorkSession
from round_manager.work.creation import skip
from round_manager.work.sessions import record_active_time
from round_manager.work.validation_work import Judgement, judge_item
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import MINUTE, Floor

NO_GOLD = {"gold_rate": 0.0}
POSITIVE = Judgement(label="positive")


def fooled(floor: Floor, work: WorkSession, item: int = 0, active_ms: int | None = None) -> int | None:
    """The time of an example that was written for the item."""
    text = floor.fooling(work, item)
    floor.ask(work, text, item)
    return floor.hand_in(work, text, item, active_ms=active_ms).active_ms


def told(floor: Floor, work: WorkSession, active_ms: int) -> None:
    with floor.write() as session:
        record_active_time(session, work, active_ms, now=floor.now)


def judged(floor: Floor, work: WorkSession, item: int, active_ms: int | None = None) -> None:
    with floor.write() as session:
        judge_item(session, work, item, POSITIVE, now=floor.now, active_ms=active_ms)


def test_an_example_gets_the_time_since_the_previous_one(lay: LayFloor) -> None:
    floor = lay(work={"examples_per_hit": 3})
    work = floor.open()
    floor.clock.advance(5 * MINUTE)
    assert [fooled(floor, work, item, ms) for item, ms in ((1, 100_000), (0, 160_001), (2, 160_002))] == [
        100_000, 60_001, 1,
    ]  # fmt: skip
    assert floor.one(work).active_ms == 160_002


def test_active_time_never_exceeds_elapsed_time_and_never_decreases(lay: LayFloor) -> None:
    floor = lay(work={"examples_per_hit": 5})
    work = floor.open()
    floor.clock.advance(MINUTE)
    assert fooled(floor, work, 0, 10**30) == 60_000
    floor.clock.advance(MINUTE)
    assert [fooled(floor, work, item, ms) for item, ms in ((1, 30_000), (2, -(10**30)), (3, 0))] == [0, 0, 0]
    assert fooled(floor, work, 4, 10**30) == 60_000
    assert floor.one(work).active_ms == 120_000


def test_time_on_a_skipped_text_belongs_to_no_example(lay: LayFloor) -> None:
    floor = lay(work={"tries_before_skip": 0})
    work = floor.open()
    floor.clock.advance(5 * MINUTE)
    with floor.write() as session:
        skip(session, work, 0, now=floor.now, active_ms=70_000)
        skip(session, work, 0, now=floor.now, active_ms=80_000)
    assert fooled(floor, work, 0, 100_000) == 20_000
    (row,) = floor.rows(WorkItem)
    assert row.active_ms == 100_000


def test_a_vote_has_the_time_of_its_judgement_and_of_every_change_of_mind(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    for _ in range(2):
        floor.pending()
    work = floor.validating()
    floor.clock.advance(5 * MINUTE)
    for item, ms in ((0, 10_000), (1, 15_000), (0, 40_000), (0, 40_000)):
        judged(floor, work, item, ms)
    floor.finish(work)
    assignment = floor.confirm(work)
    assert [vote.active_ms for vote in floor.votes()] == [35_000, 5_000]
    assert floor.one(assignment).active_ms == 40_000


def test_a_page_that_sends_no_count_keeps_its_last_report(lay: LayFloor) -> None:
    floor = lay(work={"examples_per_hit": 3})
    work = floor.open()
    floor.clock.advance(5 * MINUTE)
    told(floor, work, 15_000)
    assert fooled(floor, work, 0) == 15_000
    assert fooled(floor, work, 1) == 0
    told(floor, work, 45_000)
    assert fooled(floor, work, 2) == 30_000


def test_a_page_that_never_reported_its_time_has_none_rather_than_zero(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    assert fooled(floor, floor.open()) is None
    floor.pending()
    work = floor.validating()
    floor.judge_all(work, POSITIVE)
    floor.finish(work)
    floor.confirm(work)
    assert [vote.active_ms for vote in floor.votes()] == [None]


def test_submitting_again_takes_no_time_from_the_next_example(lay: LayFloor) -> None:
    floor = lay(work={"examples_per_hit": 2})
    work = floor.open()
    floor.clock.advance(5 * MINUTE)
    assert fooled(floor, work, 0, 20_000) == 20_000
    assert floor.hand_in(work, floor.fooling(work), active_ms=90_000).active_ms == 20_000
    assert fooled(floor, work, 1, 100_000) == 80_000


def test_a_restarted_page_counts_from_zero_and_earlier_examples_keep_their_time(lay: LayFloor) -> None:
    floor = lay(work={"examples_per_hit": 2})
    hit = floor.hit()
    work = floor.open(hit=hit)
    floor.clock.advance(5 * MINUTE)
    assert fooled(floor, work, 0, 200_000) == 200_000
    floor.clock.advance(timedelta(hours=1))
    again = floor.open(hit=hit)
    floor.clock.advance(MINUTE)
    assert fooled(floor, again, 1, 30_000) == 30_000
    assert [example.active_ms for example in floor.rows(Example)] == [200_000, 30_000]


def test_the_times_of_a_pages_items_add_up_to_its_time(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD, work={"validations_per_hit": 4})
    for number in range(4):
        floor.pending(f"A{number}")
    work = floor.validating()
    floor.clock.advance(5 * MINUTE)
    for place, row in enumerate(floor.rows(WorkItem), 1):
        judged(floor, work, row.item, place * 11_111)
    assert [row.active_ms for row in floor.rows(WorkItem)] == [11_111] * 4
    assert floor.one(work).active_ms == 44_444
