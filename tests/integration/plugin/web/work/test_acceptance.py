"""A page opens only for a worker who accepted its HIT, where the marketplace can prove that."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import requests

from crowd.proof import LEEWAY
from plugin.settings import Settings
from round_manager.models import Hit, WorkSession
from round_manager.work.session_start import (
    MORE_OPEN_PAGES,
    MORE_PAGES,
    OPEN_PAGES_PER_PLACE,
    PAGES_PER_PLACE,
    PAGES_PER_WORKER,
)
from tests.fakes.market import MarketWorld, StillWorld, open_world
from tests.fakes.market_pages import accept_task, frame_address
from tests.integration.plugin.web.work.work_site import PROOF, SUBMIT_TO, Page, WorkSite, setup_in

PATIENCE = 30
CLAIM = {"assignmentId": "AS-1", "hitId": "H", "workerId": "W1", "turkSubmitTo": SUBMIT_TO}

# One kind is enough: nothing here depends on the database.
pytestmark = pytest.mark.any_database


@pytest.fixture
def market(tmp_path: Path) -> Iterator[StillWorld]:
    with open_world(f"sqlite:///{tmp_path / 'marketplace.db'}") as world:
        yield world


def served_for(site: WorkSite, market: MarketWorld) -> WorkSite:
    """Give the web app the requester's key on that marketplace."""
    key = {"crowd_key_id": market.key.id, "crowd_key_secret": market.key.secret}
    site.settings = site.settings.model_copy(update={**key, "crowd_site_url": "http://127.0.0.1:7500"})
    site.restart()
    return site


def framed(site: WorkSite, market: MarketWorld, hit: Hit) -> str:
    """Accept the HIT on the marketplace as a new worker, and return the address in its frame."""
    posted = market.post(page_url=site.links.url(hit), seconds=hit.assignment_seconds)
    browser = market.sign_in(market.make_worker())
    assignment = accept_task(browser, market.group_of(posted.type_id))
    address = frame_address(browser.get(f"/work/{assignment}").text)
    return address.replace(Settings().web_url, site.web.url)


def refusal(address: str) -> tuple[int, str, str | None]:
    """Return the status, the code and the token of a page that shows an error."""
    answer = requests.get(address, timeout=PATIENCE)
    setup = setup_in(answer)
    return answer.status_code, setup["error"]["code"], setup["token"]


def changed(address: str, **parameters: str) -> str:
    """Return the address with other values for some of its parameters."""
    parts = urlsplit(address)
    return parts._replace(query=urlencode({**dict(parse_qsl(parts.query)), **parameters})).geturl()


def test_an_invented_assignment_gets_no_page_no_token_and_no_session(site: WorkSite) -> None:
    hit = site.campaign.add_hit()
    for number in range(5):
        claim = {**CLAIM, "assignmentId": f"AS-{number}", "workerId": f"W{number}"}
        assert refusal(site.claimed_address(hit, **claim)) == (403, "acceptance_not_proven", None)
    assert site.campaign.rows(WorkSession) == []


def test_the_frame_of_our_marketplace_opens_the_page(site: WorkSite, market: StillWorld) -> None:
    hit = served_for(site, market).campaign.add_hit()
    address = framed(site, market, hit)
    page = Page(site, hit, setup_in(requests.get(address, timeout=PATIENCE)))
    assert page.state()["status"] == "open"
    assert page.post("/items/0/tries", page.fooling())["tries_used"] == 1


@pytest.mark.parametrize("parameter", ["assignmentId", "workerId", "hitId", "turkSubmitTo", PROOF])
def test_a_proof_holds_for_exactly_these_parameters(site: WorkSite, market: StillWorld, parameter: str) -> None:
    address = framed(served_for(site, market), market, site.campaign.add_hit())
    told = {"turkSubmitTo": "http://127.0.0.1:7500/s/another"}.get(parameter, "another")
    assert refusal(changed(address, **{parameter: told})) == (403, "acceptance_not_proven", None)


def test_the_proof_of_one_hit_does_not_open_another(site: WorkSite, market: StillWorld) -> None:
    address = framed(served_for(site, market), market, site.campaign.add_hit())
    other = urlsplit(site.links.url(site.campaign.add_hit()))
    moved = changed(urlsplit(address)._replace(path=other.path).geturl(), **dict(parse_qsl(other.query)))
    assert refusal(moved) == (403, "acceptance_not_proven", None)


def test_a_proof_ends_with_its_assignment(site: WorkSite, market: StillWorld) -> None:
    hit = served_for(site, market).campaign.add_hit()
    address = framed(site, market, hit)
    site.campaign.clock.advance(timedelta(seconds=hit.assignment_seconds) + 2 * LEEWAY)
    assert refusal(address) == (410, "time_is_over", None)
    assert site.campaign.rows(WorkSession) == []


def test_a_key_can_be_replaced_while_work_is_under_way(site: WorkSite, market: StillWorld) -> None:
    served_for(site, market)
    market.make_requester("Lab", 0)
    address = framed(site, market, site.campaign.add_hit())
    assert setup_in(requests.get(address, timeout=PATIENCE))["error"] is None


def test_another_requesters_key_proves_nothing(site: WorkSite, market: StillWorld) -> None:
    served_for(site, market)
    market.requester, _ = market.make_requester("Another lab")
    assert refusal(framed(site, market, site.campaign.add_hit()))[:2] == (403, "acceptance_not_proven")


def test_without_the_requesters_key_no_page_opens(site: WorkSite) -> None:
    site.settings = site.settings.model_copy(update={"crowd_key_secret": ""})
    site.restart()
    status, code, token = refusal(site.claimed_address(site.campaign.add_hit(), **CLAIM))
    assert (status, code, token) == (503, "settings_error", None)


def test_other_crowds_need_no_proof(unproven_site: WorkSite) -> None:
    answer = requests.get(unproven_site.claimed_address(unproven_site.campaign.add_hit(), **CLAIM), timeout=PATIENCE)
    assert setup_in(answer)["error"] is None


def claimed(site: WorkSite, hit: Hit, worker: str, assignment: str) -> str | None:
    """Return the error code of a page that is opened without a proof."""
    claim = {**CLAIM, "workerId": worker, "assignmentId": assignment}
    error = setup_in(requests.get(site.claimed_address(hit, **claim), timeout=PATIENCE))["error"]
    return str(error["code"]) if error else None


def test_where_nothing_is_proven_a_hit_has_few_pages_for_strangers(unproven_site: WorkSite) -> None:
    site = unproven_site
    hit = site.campaign.add_hit(max_assignments=2)
    at_once = OPEN_PAGES_PER_PLACE * 2 + MORE_OPEN_PAGES
    opened = [claimed(site, hit, f"W{number}", f"AS-{number}") for number in range(at_once + 1)]
    assert opened == [None] * at_once + ["too_many_pages"]
    assert claimed(site, hit, "W0", "AS-0") is None, "a page that is open can be loaded again"
    site.campaign.clock.advance(timedelta(seconds=hit.assignment_seconds))
    in_total = PAGES_PER_PLACE * 2 + MORE_PAGES
    later = [claimed(site, hit, f"X{number}", f"AT-{number}") for number in range(at_once)]
    site.campaign.clock.advance(timedelta(seconds=hit.assignment_seconds))
    later += [claimed(site, hit, f"Y{number}", f"AU-{number}") for number in range(at_once)]
    assert later == [None] * (in_total - at_once) + ["too_many_pages"] * (3 * at_once - in_total)


def test_workers_whose_work_was_confirmed_get_in_beside_forged_ones(unproven_site: WorkSite) -> None:
    site = unproven_site
    site.campaign.confirm(site.campaign.open_page("KNOWN"))
    hit = site.campaign.add_hit()
    while claimed(site, hit, f"W{len(site.campaign.rows(WorkSession))}", "AS-1") is None:
        pass
    assert claimed(site, hit, "KNOWN", "AS-2") is None


def test_one_worker_id_has_few_pages_of_a_hit(unproven_site: WorkSite) -> None:
    hit = unproven_site.campaign.add_hit(max_assignments=9)
    opened = [claimed(unproven_site, hit, "W1", f"AS-{number}") for number in range(PAGES_PER_WORKER + 1)]
    assert opened == [None] * PAGES_PER_WORKER + ["too_many_pages"]


def test_a_proven_page_is_not_limited_by_forged_ones(site: WorkSite) -> None:
    hit = site.campaign.add_hit()
    for number in range(12):
        assert site.open(f"W{number}", hit, assignmentId=f"AS-{number}").setup["error"] is None
