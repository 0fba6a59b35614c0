"""`outfox crowd follow` reads work as it is submitted, with and without events."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

from crowd.errors import CrowdUnavailable
from mturk.event_queue import open_queue
from mturk.marketplace.event_delivery import EventForwarder, SqsSender
from plugin.settings import load_settings
from plugin.wiring import Application
from round_manager.crowd.collection import CollectionLoop, CollectionResult
from round_manager.services.context import ServiceContext
from tests.fakes.market import LOOPBACK_QUEUES
from tests.fakes.s3 import S3Server
from tests.integration.plugin.cli.crowd.crowd_commands import CrowdCommands

HOUR = 3_600.0


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A moto queue, set in the settings."""
    server = S3Server(one_at_a_time=False)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("sqs", endpoint_url=server.url, region_name="us-east-1")
    url = str(client.create_queue(QueueName="following", Attributes={"VisibilityTimeout": "0"})["QueueUrl"])
    monkeypatch.setenv("OUTFOX_CROWD_QUEUE_URL", url)
    yield url
    client.delete_queue(QueueUrl=url)
    server.stop()


def follow(
    commands: CrowdCommands, queue: str | None, *, every: float, until: Callable[[CollectionResult], bool]
) -> list[CollectionResult]:
    """Follow the crowd until a result meets the condition; return all results."""
    app = Application(load_settings(os.environ))
    stop, found = threading.Event(), []

    def report(one: CollectionResult) -> None:
        found.append(one)
        if until(one):
            stop.set()

    with commands.store() as store:
        services = app.connected_crowd(ServiceContext(store, app.clock), app.crowd())
        events = open_queue(queue, region="us-east-1") if queue else None
        watchdog = threading.Timer(20, stop.set)
        watchdog.start()
        CollectionLoop(services.collector, events, every=every, pause=stop.wait).run(report)
        watchdog.cancel()
    return found


def test_an_event_triggers_an_early_read_of_the_work(commands: CrowdCommands, queue: str) -> None:
    commands.post_hits(2)

    def hand_in() -> None:
        commands.submit_hit()
        # The events, delivered twice.
        with EventForwarder(commands.market.market, SqsSender(LOOPBACK_QUEUES)) as forwarder:
            forwarder.deliver()

    # Long after the first read found no work.
    threading.Timer(1.0, hand_in).start()
    found = follow(commands, queue, every=HOUR, until=lambda one: one.works > 0)
    assert sum(one.works for one in found) == 1


def test_work_is_read_even_without_a_queue_or_events(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    threading.Timer(0.2, commands.submit_hit).start()
    found = follow(commands, None, every=0.1, until=lambda one: one.works > 0)
    assert [one.works for one in found] == [1]


def test_invalid_events_and_a_short_outage_do_not_stop_the_loop(
    commands: CrowdCommands, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = boto3.client("sqs", endpoint_url=queue.rsplit("/", 2)[0], region_name="us-east-1")
    for body in ("{", '{"Events": [{"HITId": "no such hit"}]}', "[]"):
        client.send_message(QueueUrl=queue, MessageBody=body)
    commands.post_hits(1)
    commands.submit_hit()
    monkeypatch.setattr("round_manager.crowd.collection.SECONDS_AFTER_ERROR", 0.0)
    failures = iter([CrowdUnavailable("away")])
    from round_manager.crowd.collection import Collector

    really = Collector.run

    def once_away(self: Collector) -> CollectionResult:
        for error in failures:
            raise error
        return really(self)

    monkeypatch.setattr(Collector, "run", once_away)
    found = follow(commands, queue, every=0.1, until=lambda one: one.works > 0)
    assert [one.works for one in found] == [1]


def test_the_command_prints_new_work_and_ends_with_ctrl_c(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    command = [str(Path(sys.executable).parent / "outfox"), "crowd", "follow", "--every", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        assert "following" in process.stdout.readline()
        commands.submit_hit()
        assert process.stdout.readline() == "1 new assignment\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_with_wrong_keys_it_does_not_start(commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_CROWD_KEY_SECRET", "x" * 40)
    assert commands.run("follow").code == 2
