"""Events are delivered at least once, retried with exponential backoff, and given up after a day."""

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from mturk.marketplace import hits
from mturk.marketplace.destinations import LOOPBACK, QueueNetworks
from mturk.marketplace.event_delivery import LEASE, EventDeliveryFailed, EventForwarder, SqsSender
from mturk.marketplace.tables.work import OutgoingEvent
from tests.fakes.market import LOOPBACK_QUEUES, StillWorld


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


KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}


def test_a_destination_that_does_not_answer_is_a_failed_delivery() -> None:
    with pytest.raises(EventDeliveryFailed):
        SqsSender(LOOPBACK_QUEUES, **KEYS)("http://127.0.0.1:1/1/queue", "{}")


class Server:
    """A server on loopback that counts connections and gives one answer."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.requests = answer, list[bytes]()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.requests.append(connection.recv(65_536))
            connection.sendall(self.answer)
            connection.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    """A server that redirects to itself, which a delivery must not follow."""
    server = Server(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n")
    yield server
    server.close()


def test_a_private_destination_is_never_connected_to(elsewhere: Server) -> None:
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        with pytest.raises(EventDeliveryFailed, match="destination_refused"):
            SqsSender(QueueNetworks(), **KEYS)(f"http://{host}:{elsewhere.port}/1/queue", "{}")
    assert elsewhere.requests == []


def test_a_delivery_connects_to_the_address_that_was_checked(elsewhere: Server) -> None:
    asked = []

    def rebinding(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    # The name does not exist: only the address that was checked can be reached.
    queues = QueueNetworks(LOOPBACK, resolve=rebinding)
    with pytest.raises(EventDeliveryFailed):
        SqsSender(queues, **KEYS)(f"http://queue.invalid:{elsewhere.port}/1/queue", "{}")
    assert len(elsewhere.requests) == len(asked), "nothing was resolved in between"
    assert all(f"Host: queue.invalid:{elsewhere.port}".encode() in one for one in elsewhere.requests)
    assert set(asked) == {"queue.invalid"}


def test_a_name_that_moves_to_a_private_address_gets_no_event() -> None:
    addresses = iter([["10.0.0.8"]])
    queues = QueueNetworks(resolve=lambda _host, _port: next(addresses))
    with pytest.raises(EventDeliveryFailed, match="destination_refused"):
        SqsSender(queues, **KEYS)("https://queue.example/1/queue", "{}")
