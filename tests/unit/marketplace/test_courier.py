"""Events are delivered at least once, tried later and later, and given up after a day."""

from datetime import timedelta

import pytest

from mturk.marketplace import events
from mturk.marketplace.event_delivery import LEASE, DeliveryFailed, EventForwarder, SqsSender
from mturk.marketplace.tables.work import OutgoingEvent
from tests.unit.marketplace.conftest import Stage


class FarQueue:
    """Takes messages, or does not."""

    def __init__(self) -> None:
        self.open, self.taken, self.asked = True, list[str](), 0

    def __call__(self, queue_url: str, body: str) -> None:
        self.asked += 1
        if not self.open:
            raise DeliveryFailed("away")
        self.taken.append(queue_url)


def _enqueue(stage: Stage, count: int = 1) -> None:
    with stage.market.write() as session:
        for number in range(count):
            events.enqueue(session, "A1", f"https://queue/{number}", "2014-08-15", [], stage.clock.now())


def _left(stage: Stage) -> int:
    with stage.market.glance() as session:
        return session.query(OutgoingEvent).count()


def test_all_that_waits_is_delivered_in_order_and_gone(stage: Stage) -> None:
    queue = FarQueue()
    _enqueue(stage, 120)
    assert EventForwarder(stage.market, queue).deliver() == 120
    assert queue.taken == [f"https://queue/{number}" for number in range(120)]
    assert _left(stage) == 0


def test_a_queue_that_is_away_is_asked_less_and_less_often(stage: Stage) -> None:
    queue = FarQueue()
    queue.open = False
    _enqueue(stage)
    courier = EventForwarder(stage.market, queue)
    asked_at = []
    for second in range(120):
        before = queue.asked
        courier.deliver()
        if queue.asked > before:
            asked_at.append(second)
        stage.pass_time(seconds=1)
    assert asked_at == [0, 2, 6, 14, 30, 62]
    queue.open = True
    stage.pass_time(minutes=10)
    assert courier.deliver() == 1


def test_after_a_day_an_event_is_given_up_with_a_line_in_the_log(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    queue = FarQueue()
    queue.open = False
    _enqueue(stage)
    stage.pass_time(days=1, seconds=1)
    EventForwarder(stage.market, queue).deliver()
    assert _left(stage) == 0
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_a_killed_courier_had_taken_is_delivered_by_another(stage: Stage) -> None:
    class Killed(BaseException):
        pass

    def die(queue_url: str, body: str) -> None:
        raise Killed

    _enqueue(stage)
    with pytest.raises(Killed):
        EventForwarder(stage.market, die).deliver()
    queue = FarQueue()
    assert EventForwarder(stage.market, queue).deliver() == 0, "it may still be on its way"
    stage.clock.advance(LEASE + timedelta(seconds=1))
    assert EventForwarder(stage.market, queue).deliver() == 1


def test_a_destination_that_is_no_queue_is_undelivered() -> None:
    with pytest.raises(DeliveryFailed):
        SqsSender(aws_access_key_id="a", aws_secret_access_key="b")("http://127.0.0.1:1/1/queue", "{}")
