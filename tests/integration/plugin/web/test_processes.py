import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import pytest
from sqlalchemy import text

from plugin.attempt_delivery import AttemptSender
from plugin.settings import Settings
from round_manager.labelstudio.projects import WEBHOOK_HEADER, find_link, webhook_secret
from round_manager.models import ProjectKind
from round_manager.tasks.rounds import collected
from tests.campaign import Campaign
from tests.conftest import Outfox
from tests.fakes.registry import eventually
from tests.fakes.slow_clients import SlowClients
from tests.integration.plugin.web.conftest import SECRETS, WebProcess
from tests.integration.plugin.web.serving import serving


@pytest.mark.usefixtures("campaign")
def test_ctrl_c_stops_the_server_gracefully(settings: Settings) -> None:
    with serving(settings) as web:
        assert web.end(signal.SIGINT) == 0


def test_shutdown_finishes_running_requests(settings: Settings, campaign: Campaign) -> None:
    with serving(settings) as web, ThreadPoolExecutor() as pool, campaign.store.write() as holder:
        # No other process writes now: in SQLite because of the transaction alone.
        if holder.get_bind().dialect.name == "postgresql":
            holder.execute(text("LOCK TABLE attempt IN EXCLUSIVE MODE"))
        else:
            holder.connection()
        posting = pool.submit(AttemptSender(web.url, SECRETS), [campaign.attempt_record()])
        eventually(lambda: b"outfox_web_in_progress 2.0" in web.get("/metrics")[1], "it is at it, and answers others")
        web.process.send_signal(signal.SIGTERM)
        eventually(lambda: not _takes_callers(web.port), "the door is closed")
        holder.rollback()
        posting.result(30)
        assert web.end() == 0
    with campaign.store.read() as session:
        assert collected(session, campaign.round).attempts == 1


def test_a_killed_worker_process_is_replaced_and_metrics_continue(settings: Settings, campaign: Campaign) -> None:
    with serving(settings, "--workers", "2") as web:
        post = AttemptSender(web.url, SECRETS)
        post([campaign.attempt_record(), campaign.attempt_record()])
        eventually(lambda: len(web.workers()) == 2, "both have begun")
        first = web.workers()
        os.kill(first[0], signal.SIGKILL)
        eventually(lambda: len(set(web.workers()) - set(first)) == 1, "another one has begun")
        post([campaign.attempt_record()])
        assert b'outfox_web_attempts_total{what="stored"} 3.0' in web.get("/metrics")[1]


@pytest.mark.xdist_group("web-process")
def test_the_log_has_one_json_object_per_request_without_bodies(web_process: WebProcess) -> None:
    web = web_process.process
    connection = HTTPConnection("127.0.0.1", web.port, timeout=10)
    connection.request("POST", "/api/attempts", b"private words", {"X-Request-ID": "mine-1"})
    assert connection.getresponse().status == 401
    connection.close()
    events = [one for one in web.events() if one.get("request_id") == "mine-1"]
    assert [(one["event"], one["status"]) for one in events] == [("attempts", 401)]
    assert "private words" not in web.log.read_text(encoding="utf-8")


@pytest.mark.xdist_group("web-process")
@pytest.mark.parametrize(
    "spoiled", ["GET /data/x/{}?token=private-token HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nX {}: private-token\r\n\r\n"]
)
def test_a_malformed_http_request_is_logged_without_its_contents(web_process: WebProcess, spoiled: str) -> None:
    web = web_process.process
    before = len(web.events())
    with socket.create_connection(("127.0.0.1", web.port), timeout=10) as caller:
        caller.sendall(spoiled.format("é").encode())
        assert b" 400 " in caller.recv(1_000)
    eventually(lambda: len(web.events()) > before, "the request is logged")
    assert web.events()[-1]["level"] == "warning"
    assert "private-token" not in web.log.read_text(encoding="utf-8")


@pytest.mark.xdist_group("web-process")
def test_an_oversized_body_gets_a_clear_response(web_process: WebProcess) -> None:
    connection = HTTPConnection("127.0.0.1", web_process.process.port, timeout=30)
    connection.request("POST", "/api/attempts", b"x" * 20_000_000)
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.xdist_group("web-process")
def test_a_client_that_disconnects_affects_no_others(web_process: WebProcess) -> None:
    web = web_process.process
    for _ in range(20):
        caller = socket.create_connection(("127.0.0.1", web.port))
        caller.sendall(b"POST /api/attempts HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nbroken")
        caller.close()
    assert web.get("/health")[0] == 200
    assert not [one for one in web.events() if one["level"] == "error"]


@pytest.mark.xdist_group("web-process")
def test_slow_clients_do_not_delay_others(web_process: WebProcess) -> None:
    port = web_process.process.port
    with SlowClients(port, 48, "/api/attempts", seconds=0.5):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                assert client.recv(65_536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("every", ["0", "30"])
def test_one_process_reads_label_studio_on_a_hint_or_on_schedule(
    settings: Settings, campaign: Campaign, every: str
) -> None:
    with campaign.store.write() as session:
        link = find_link(session, campaign.task.id, ProjectKind.CREATE)
        assert link is not None
        link.url = "http://127.0.0.1:9"
    there = settings.model_copy(update={"label_studio_url": "http://127.0.0.1:9/", "label_studio_token": "0" * 40})
    with serving(there, "--workers", "2", "--sync-every", every) as web:
        if every == "0":
            connection = HTTPConnection("127.0.0.1", web.port, timeout=10)
            secret = {WEBHOOK_HEADER: webhook_secret(SECRETS, "sentiment")}
            connection.request("POST", "/webhooks/label-studio/sentiment", b"{}", secret)
            assert connection.getresponse().status == 204
            connection.close()
        eventually(lambda: [one for one in web.events() if one["event"] == "Label Studio is not read"], "it was read")
        assert b'outfox_web_label_studio_reads_total{outcome="failed",task="sentiment"} 1.0' in web.get("/metrics")[1]
        assert web.get("/health")[0] == 200
        assert web.end() == 0


def test_a_secret_that_is_too_short_is_refused(
    outfox: Outfox, campaign: Campaign, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert campaign.round.number == 1
    monkeypatch.setenv("OUTFOX_HOME", settings.home)
    monkeypatch.setenv("OUTFOX_SECRET", "short")
    ran = outfox("serve", "--port", "0")
    assert (ran.code, "32 characters" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("setting", "value", "cure"),
    [
        ("CROWD_SITE_URL", "market.example", "correct OUTFOX_CROWD_SITE_URL"),
        ("CROWD_SITE_URL", "https://market.example 'unsafe-inline'", "correct OUTFOX_CROWD_SITE_URL"),
        ("ML_BACKEND_AUTH", "user", "user:password"),
    ],
)
@pytest.mark.usefixtures("campaign")
def test_an_invalid_setting_of_the_pages_is_reported_at_the_start(
    outfox: Outfox, settings: Settings, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, cure: str
) -> None:
    monkeypatch.setenv("OUTFOX_HOME", settings.home)
    monkeypatch.setenv(f"OUTFOX_{setting}", value)
    ran = outfox("serve", "--port", "0")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran
    assert cure in ran.err


@pytest.mark.usefixtures("campaign")
def test_pages_that_browsers_would_block_cause_a_warning_and_are_served(settings: Settings) -> None:
    unseen = settings.model_copy(
        update={"web_url": "http://outfox.example", "crowd_site_url": "https://market.example"}
    )
    with serving(unseen) as web:
        log = web.log.read_text(encoding="utf-8")
        assert "warning: " in log
        assert "crowd_key_id or crowd_key_secret is empty" in log
        assert web.get("/health")[0] == 200


def test_without_a_database_it_does_not_start_and_gives_a_hint(outfox: Outfox) -> None:
    ran = outfox("serve", "--port", "0")
    assert ran.code in (2, 3)
    assert "Traceback" not in ran.err


def _takes_callers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
