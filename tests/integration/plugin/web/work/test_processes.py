"""The workers' pages as `outfox serve` serves them, a process that can be killed at any moment."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import requests

from plugin.cli.servers import OPENINGS
from plugin.server_process import free_port
from round_manager.models import Attempt, Example
from round_manager.work.leases import lock_task
from tests.fakes.http_server import RunningServer
from tests.integration.plugin.web.serving import Serving, serving
from tests.integration.plugin.web.work.work_site import SUBMIT_TO, Page, WorkSite, setup_in


@contextmanager
def _served(site: WorkSite, port: int) -> Iterator[Serving]:
    site.settings.make_home()
    with serving(site.settings, "--sync-every", "0", port=port) as web:
        yield web


@pytest.mark.any_database
def test_a_restart_between_any_two_steps_loses_and_duplicates_nothing(site: WorkSite) -> None:
    # The process uses the system clock, so the backend must use it too.
    site.use_machine_clock()
    port = free_port()
    site.settings = site.settings.model_copy(update={"web_url": f"http://127.0.0.1:{port}"})
    hit = site.campaign.add_hit()
    told = {"assignmentId": "A1", "workerId": "W1", "turkSubmitTo": SUBMIT_TO}
    with _served(site, port) as web:
        address = site.address(hit, **told).replace(site.web.url, web.url)
        page = Page(site, hit, setup_in(requests.get(address, timeout=30)), web.url)
        body = page.fooling()
        page.put("/items/0/draft", body)
        huge = page.refused("/items/0/draft", page.written("x" * 2_000_000), "PUT")
        assert (huge["status"], huge["code"]) == (413, "text_too_long")
        web.kill_all()
    with _served(site, port) as web:
        assert page.state()["items"][0]["draft"] == {"result": body["result"]}
        verdict = page.post("/items/0/tries", body)["verdict"]
        web.kill_all()
    with _served(site, port) as web:
        again = page.post("/items/0/tries", body)
        assert (again["again"], again["verdict"]) == (True, verdict)
        page.post("/items/0/hand-in", body)
        form = page.post("/finish")
        web.kill_all()
    with _served(site, port):
        assert page.post("/finish") == form
        assert setup_in(requests.get(address, timeout=30))["error"] is None
    assert [len(site.campaign.rows(kind)) for kind in (Attempt, Example)] == [1, 1]


def test_pages_that_wait_to_be_opened_do_not_delay_others(site: WorkSite) -> None:
    campaign, page = site.campaign, site.open("W-early")
    page.state()
    addresses = [_address(site, f"W{number}") for number in range(6)]
    with RunningServer(site.new_app(), 2, one_by_one=OPENINGS) as server, ThreadPoolExecutor(len(addresses)) as threads:
        page.elsewhere = f"http://127.0.0.1:{server.port}"
        with campaign.store.write() as session:
            # As long as somebody uploads contexts, for example.
            lock_task(session, campaign.task.id)
            opened = [
                threads.submit(requests.get, one.replace(site.web.url, page.elsewhere), timeout=30) for one in addresses
            ]
            time.sleep(0.5)
            assert page.call("GET", "/state", timeout=10).status_code == 200
            assert not any(one.done() for one in opened)
        assert {one.result().status_code for one in opened} == {200}


def _address(site: WorkSite, worker: str) -> str:
    told = {"assignmentId": f"A-{worker}", "workerId": worker, "turkSubmitTo": SUBMIT_TO}
    return site.address(site.campaign.add_hit(), **told)
