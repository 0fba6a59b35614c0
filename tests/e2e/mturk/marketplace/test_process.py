"""`outfox marketplace` as a command with several processes."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import boto3
import pytest
import requests
from botocore.config import Config
from flask import Flask, request

from common.clock import SystemClock
from mturk.marketplace.destinations import LOOPBACK
from mturk.marketplace.market import open_market
from mturk.marketplace.people import KeyPair
from mturk.marketplace.services import accounts
from tests.e2e.mturk.marketplace.question import served

ROOT = Path(__file__).resolve().parents[4]
TIMEOUT = 60.0


@contextmanager
def marketplace(home: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run the command; return its URL when it answers."""
    log = home / "marketplace.log"
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    # The queue of these tests is on loopback.
    own = {"OUTFOX_HOME": str(home), "OUTFOX_MARKETPLACE_QUEUE_NETWORKS": LOOPBACK, "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **keys, **own}
    command = [sys.executable, "-c", "from plugin.cli import main; main()", "marketplace", "--port", "0", *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        yield _address(process, log), process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(TIMEOUT)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        found = re.search(r"serving at (http://127\.0\.0\.1:\d+)", log.read_text(encoding="utf-8"))
        if found and _is_up(found[1]):
            return found[1]
        time.sleep(0.02)
    raise AssertionError("the marketplace does not answer")


def _is_up(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=5).ok
    except requests.ConnectionError:
        return False


def _client(url: str, key: KeyPair) -> Any:
    return boto3.client(
        "mturk",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key.id,
        aws_secret_access_key=key.secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


def _invite(home: Path) -> str:
    command = [sys.executable, "-c", "from plugin.cli import main; main()", "marketplace", "invite", "Ada"]
    environment = {**os.environ, "OUTFOX_HOME": str(home), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout.split()[-1]


def test_it_serves_the_api_and_the_site_delivers_events_and_stops(tmp_path: Path) -> None:
    with open_market(f"sqlite:///{tmp_path / 'marketplace.db'}", SystemClock()) as market:
        key = accounts.open_account(market, "Lab", deposit_cents=1_000).key
    received: Queue[str] = Queue()
    queue = Flask("queue")

    @queue.post("/")
    @queue.post("/<path:_name>")
    def receive(_name: str = "") -> dict[str, str]:
        received.put(request.get_data(as_text=True))
        return {"MessageId": "1"}

    with served(queue) as queue_url, marketplace(tmp_path, "--workers", "2") as (url, process):
        log = (tmp_path / "marketplace.log").read_text(encoding="utf-8")
        assert log.count("at a loopback address") == 1
        client = _client(url, key)
        assert client.get_account_balance()["AvailableBalance"] == "10.00"
        page = requests.get(url, timeout=TIMEOUT)
        assert (page.status_code, "Outfox Crowd" in page.text) == (200, True)
        link = _invite(tmp_path)
        assert link.startswith(f"{url}/join/"), "the URL where it is served"
        assert "Welcome, Ada" in requests.get(link, timeout=TIMEOUT).text
        notification = {
            "Destination": f"{queue_url}/123/events",
            "Transport": "SQS",
            "Version": "2006-05-05",
            "EventTypes": ["Ping"],
        }
        client.send_test_event_notification(Notification=notification, TestEventType="Ping")
        assert "Ping" in received.get(timeout=TIMEOUT)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 0
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=TIMEOUT)
