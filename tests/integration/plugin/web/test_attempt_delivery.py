"""Attempts are delivered exactly once, whatever fails on the way."""

import sqlite3
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from common.errors import Hint
from ml_backend.errors import Undeliverable
from ml_backend.serving.attempt_forwarder import AttemptForwarder
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.outbox import Outbox
from plugin.attempt_delivery import AttemptSender, DeliveryFailed
from plugin.settings import Settings
from plugin.wiring import Application
from round_manager.tasks.rounds import collected
from tests.campaign import Campaign
from tests.fakes.registry import eventually
from tests.integration.plugin.web.conftest import SECRETS, WebProcess
from tests.integration.plugin.web.serving import serving

Deliver = Callable[[Sequence[AttemptRecord]], None]


def attempts(campaign: Campaign) -> int:
    with campaign.store.read() as session:
        return collected(session, campaign.round).attempts


class Carried:
    """An outbox with its forwarder, in this process."""

    def __init__(self, deliver: Deliver, folder: Path) -> None:
        outbox = Outbox(folder, seal_after=0.01)
        self._outbox, self.put, self.state = outbox, outbox.put, outbox.state
        self._ending = Event()
        forwarder = AttemptForwarder(folder, deliver, first_wait=0.05, longest_wait=0.2)
        self._thread = Thread(target=forwarder.run, args=(lambda _seconds: self._ending.wait(0.01),))

    def start(self) -> None:
        self._outbox.start()
        self._thread.start()

    def close(self) -> None:
        self._outbox.close()
        self._ending.set()
        self._thread.join(20)


class Answers:
    """A web server on loopback that gives one answer to everything."""

    def __init__(self, status: int, body: bytes = b"{}", **headers: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response_only(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Answers":
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_direct_delivery_stores_attempts_once(campaign: Campaign, settings: Settings) -> None:
    deliver, tries = (
        Application(settings).attempt_delivery(by_post=False),
        [campaign.attempt_record() for _ in range(3)],
    )
    deliver(tries)
    deliver(tries)
    assert attempts(campaign) == 3


def test_an_invalid_attempt_is_set_aside_and_the_others_arrive(
    campaign: Campaign, settings: Settings, tmp_path: Path
) -> None:
    sink = Carried(Application(settings).attempt_delivery(by_post=False), tmp_path / "spill")
    for one in (campaign.attempt_record(), campaign.attempt_record(task="nothing"), campaign.attempt_record()):
        sink.put(one)
    sink.start()
    eventually(lambda: sink.state().refused == 1 and attempts(campaign) == 2, "the right ones arrived")
    sink.close()
    assert "nothing" in (tmp_path / "spill" / "refused.jsonl").read_text(encoding="ascii")


@pytest.mark.sqlite("there, one writer locks out all others")
def test_attempts_are_kept_while_the_database_is_locked(campaign: Campaign, settings: Settings, tmp_path: Path) -> None:
    settings = settings.model_copy(update={"database_request_seconds": 0.1})
    holder = sqlite3.connect(settings.home_path / "outfox.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    sink = Carried(Application(settings).attempt_delivery(by_post=False), tmp_path / "spill")
    sink.start()
    for _ in range(5):
        sink.put(campaign.attempt_record())
    eventually(lambda: sink.state().error, "the lock is reported")
    assert "locked" in str(sink.state().error)
    holder.execute("ROLLBACK")
    holder.close()
    eventually(lambda: attempts(campaign) == 5, "they are stored after all")
    sink.close()
    assert (sink.state().refused, sink.state().dropped) == (0, 0)


def test_delivery_fails_until_there_is_a_database(settings: Settings) -> None:
    settings.make_home()
    with pytest.raises(DeliveryFailed) as caught:
        Application(settings).attempt_delivery(by_post=False)([])
    assert caught.value.hint == Hint("upgrade_database")


@pytest.mark.xdist_group("web-process")
def test_delivery_by_post_stores_attempts_once(web_process: WebProcess) -> None:
    campaign, before = web_process.campaign, web_process.attempts()
    deliver, tries = (
        Application(web_process.settings).attempt_delivery(by_post=True),
        [campaign.attempt_record() for _ in range(3)],
    )
    deliver(tries)
    deliver(tries)
    assert web_process.attempts() == before + 3
    with pytest.raises(Undeliverable, match="nothing"):
        deliver([campaign.attempt_record(), campaign.attempt_record(task="nothing")])
    assert web_process.attempts() == before + 4


@pytest.mark.xdist_group("web-process")
def test_a_clock_that_is_hours_off_loses_nothing(web_process: WebProcess) -> None:
    campaign, before = web_process.campaign, web_process.attempts()
    post = AttemptSender(f"{web_process.process.url}/", SECRETS, seconds=lambda: 1_000_000.0)
    post([campaign.attempt_record()])
    post([campaign.attempt_record()])
    assert web_process.attempts() == before + 2


@pytest.mark.xdist_group("web-process")
def test_a_wrong_secret_is_a_failure_that_can_be_retried(web_process: WebProcess) -> None:
    before = web_process.attempts()
    with pytest.raises(DeliveryFailed, match="OUTFOX_SECRET"):
        AttemptSender(web_process.process.url, ("another secret, of sufficient length",))(
            [web_process.campaign.attempt_record()]
        )
    assert web_process.attempts() == before


def test_a_killed_web_app_loses_and_duplicates_nothing(campaign: Campaign, settings: Settings, tmp_path: Path) -> None:
    tries = [campaign.attempt_record() for _ in range(300)]
    with serving(settings, "--workers", "2") as web:
        sink = Carried(AttemptSender(web.url, SECRETS), tmp_path / "spill")
        sink.start()
        for one in tries[:100]:
            sink.put(one)
        eventually(lambda: attempts(campaign) > 0, "some have arrived")
        for one in tries[100:200]:
            sink.put(one)
        web.kill_all()
    for one in tries[200:]:
        sink.put(one)
    eventually(lambda: sink.state().error, "the sink knows")
    with serving(settings, port=web.port):
        eventually(lambda: attempts(campaign) == len(tries), "all have arrived", seconds=30)
        sink.close()
    assert (sink.state().refused, sink.state().dropped) == (0, 0)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_refused_attempts_are_undeliverable(campaign: Campaign, status: int) -> None:
    with Answers(status, b'{"error": "no"}') as there, pytest.raises(Undeliverable, match="no"):
        AttemptSender(there.url, SECRETS)([campaign.attempt_record()])


@pytest.mark.parametrize("status", [301, 401, 403, 404, 408, 429, 500, 502, 503])
def test_other_statuses_can_be_retried(campaign: Campaign, status: int) -> None:
    with (
        Answers(status, Date="Mon, 01 Mar 2027 12:00:00 GMT") as there,
        pytest.raises(DeliveryFailed, match=str(status)),
    ):
        AttemptSender(there.url, SECRETS)([campaign.attempt_record()])


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]", b'{"refused": 1}', b'{"refused": ["x"]}'])
def test_an_answer_of_another_program_can_be_retried(campaign: Campaign, body: bytes) -> None:
    with Answers(200, body) as there, pytest.raises(DeliveryFailed, match="web_url"):
        AttemptSender(there.url, SECRETS)([campaign.attempt_record()])


def test_no_answer_can_be_retried(campaign: Campaign) -> None:
    with pytest.raises(DeliveryFailed):
        AttemptSender("http://127.0.0.1:9", SECRETS)([campaign.attempt_record()])


def test_a_batch_that_is_too_large_is_not_even_sent(campaign: Campaign) -> None:
    large = campaign.attempt_record(campaign.fields(text="x" * 8_000_000))
    with pytest.raises(Undeliverable, match="8,000,000"):
        AttemptSender("http://127.0.0.1:9", SECRETS)([large])
