"""The workers' pages as `outfox serve` serves them, a process that can be killed at any moment."""

from collections.abc import Iterator
from contextlib import contextmanager

import requests

from plugin.server_process import free_port
from round_manager.models import Attempt, Example
from tests.integration.plugin.web.serving import Serving, serving
from tests.integration.plugin.web.work.work_site import SUBMIT_TO, Page, WorkSite, setup_in


@contextmanager
def _served(site: WorkSite, port: int) -> Iterator[Serving]:
    site.settings.make_home()
    with serving(site.settings, "--sync-every", "0", port=port) as web:
        yield web


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
