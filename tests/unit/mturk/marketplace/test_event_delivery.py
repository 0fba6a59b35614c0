"""Events are delivered at least once, retried with exponential backoff, and given up after a day."""

from datetime import timedelta

import pytest

from mturk.marketplace import hits
from mturk.marketplace.event_delivery import LEASE, EventDeliveryFailed, EventForwarder, SqsSender
from mturk.marketplace.tables.work import OutgoingEvent
from tests.fakes.market import StillWorld


class FakeQueue:
    """A queue that is available or not."""

    def __init__(self, *, available: bool = True) -> None:
        self.available, self.received, self.calls = available, list[str](), 0

    def __call__(self, queue_url: str, body: str) -> None:
        self.calls += 1
        if not self.available:
            raise EventDeliveryFailed("unavailable")
        self.received.append(queue_url)


def enqueue(world: StillWorld, count: int = 1) -> None:
    with world.market.write() as session:
        for number in range(count):
            hits.enqueue(session, "A1", f"https://queue/{number}", "2014-08-15", [], world.now)


def count_events(world: StillWorld) -> int:
    with world.market.glance() as session:
        return session.query(OutgoingEvent).count()


def test_all_events_are_delivered_in_order_and_deleted(world: StillWorld) -> None:
    queue = FakeQueue()
    enqueue(world, 120)
    assert EventForwarder(world.market, queue).deliver() == 120
    assert queue.received == [f"https://queue/{number}" for number in range(120)]
    assert count_events(world) == 0


def test_an_unavailable_queue_is_retried_with_exponential_backoff(world: StillWorld) -> None:
    queue = FakeQueue(available=False)
    enqueue(world)
    forwarder = EventForwarder(world.market, queue)
    called_at = []
    for second in range(120):
        before = queue.calls
        forwarder.deliver()
        if queue.calls > before:
            called_at.append(second)
        world.advance(seconds=1)
    assert called_at == [0, 2, 6, 14, 30, 62]
    queue.available = True
    world.advance(minutes=10)
    assert forwarder.deliver() == 1


def test_an_event_is_given_up_after_a_day_with_a_warning(world: StillWorld, caplog: pytest.LogCaptureFixture) -> None:
    enqueue(world)
    world.advance(days=1, seconds=1)
    EventForwarder(world.market, FakeQueue(available=False)).deliver()
    assert count_events(world) == 0
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_events_leased_by_a_killed_forwarder_are_delivered_by_another(world: StillWorld) -> None:
    class Killed(BaseException):
        pass

    def die(queue_url: str, body: str) -> None:
        raise Killed

    enqueue(world)
    with pytest.raises(Killed):
        EventForwarder(world.market, die).deliver()
    queue = FakeQueue()
    assert EventForwarder(world.market, queue).deliver() == 0, "the lease still holds"
    world.clock.advance(LEASE + timedelta(seconds=1))
    assert EventForwarder(world.market, queue).deliver() == 1


def test_a_destination_that_does_not_answer_is_a_failed_delivery() -> None:
    with pytest.raises(EventDeliveryFailed):
        SqsSender(aws_access_key_id="a", aws_secret_access_key="b")("http://127.0.0.1:1/1/queue", "{}")
