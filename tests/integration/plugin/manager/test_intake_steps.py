"""The steps of connected tasks in Label Studio, and pauses that events of the marketplace end."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from crowd.errors import CrowdUnavailable
from crowd.port import ChangedHits
from plugin.manager.loop import PassTimer
from round_manager.labelstudio.crowd_upload import CrowdUpload
from round_manager.labelstudio.push import PushResult
from round_manager.labelstudio.sync import SyncResult
from round_manager.models import PageAddress
from round_manager.services.label_studio import TaskSync
from round_manager.work.addresses import KEPT_FOR
from tests.integration.plugin.manager.conftest import NewManaged


@dataclass
class FakeConnection:
    """A Label Studio with connected tasks that records the calls."""

    connected: Sequence[str]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def tasks(self) -> Sequence[str]:
        return self.connected

    def read(self, task: str) -> TaskSync:
        self.asked.append(("read", task))
        return TaskSync(SyncResult(read=2, votes=2), CrowdUpload())

    def follow(self, task: str) -> str | None:
        self.asked.append(("follow", task))
        return None

    def push(self, task: str) -> PushResult:
        self.asked.append(("push", task))
        return PushResult()


class FakeQueue:
    """A queue with these events; a CrowdUnavailable among them is raised."""

    def __init__(self, *events: ChangedHits | CrowdUnavailable) -> None:
        self._events = list(events)
        self.handled: list[ChangedHits] = []

    def take(self, wait_seconds: int = 0) -> ChangedHits:
        found = self._events.pop(0) if self._events else ChangedHits()
        if isinstance(found, CrowdUnavailable):
            raise found
        return found

    def done(self, changed: ChangedHits) -> None:
        self.handled.append(changed)


def test_connected_tasks_are_read_and_filled(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    connected, stranger = FakeConnection(["sentiment"]), FakeConnection(["another"])
    done = [one.result.done for one in campaign.manage(label_studio=connected)]
    assert connected.asked == [("read", "sentiment"), ("follow", "sentiment"), ("push", "sentiment")]
    assert "2 votes from Label Studio" in done
    campaign.manage(label_studio=stranger)
    assert stranger.asked == []


def test_hashes_of_addresses_are_deleted_after_30_days(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    work = campaign.open_page("W1")
    with campaign.store.write() as session:
        session.add(PageAddress(session_id=work.id, address="0" * 64, stored_at=campaign.now))
    campaign.manage()
    assert len(campaign.rows(PageAddress)) == 1
    campaign.clock.advance(KEPT_FOR)
    campaign.manage()
    assert campaign.rows(PageAddress) == []


def test_nothing_is_sent_to_label_studio_while_no_round_is_live(new_campaign: NewManaged) -> None:
    campaign = new_campaign()
    campaign.mark_closed()
    campaign.last_round = 1
    studio = FakeConnection(["sentiment"])
    campaign.manage(label_studio=studio)
    assert studio.asked == [("read", "sentiment"), ("follow", "sentiment")]


def test_an_event_ends_the_pause_and_is_acknowledged() -> None:
    hints = ChangedHits(frozenset({"HIT1"}), ("receipt",))
    queue, began = FakeQueue(ChangedHits(), hints), time.monotonic()
    PassTimer(threading.Event(), 3_600, queue).wait()
    assert time.monotonic() - began < 60
    assert hints in queue.handled


def test_a_pause_without_events_ends_in_time_or_with_the_manager() -> None:
    began = time.monotonic()
    PassTimer(threading.Event(), 0.05).wait()
    assert time.monotonic() - began >= 0.05
    stop = threading.Event()
    stop.set()
    PassTimer(stop, 3_600).wait()
    # A queue that does not respond costs only the pause.
    PassTimer(threading.Event(), 1.05, FakeQueue(CrowdUnavailable("no queue"))).wait()
    assert time.monotonic() - began < 60
