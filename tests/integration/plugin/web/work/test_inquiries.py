"""Our marketplace asks the web app, over HTTP, what its HITs hold for a worker and what became of their examples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests
from flask.testing import FlaskClient

from crowd.inquiries import PATH, SIGNATURE, Inquiry, sign_inquiry
from mturk.marketplace.inquiries import Inquirer
from mturk.marketplace.services.accounts import set_web_app
from mturk.marketplace.services.offers import web_apps
from mturk.marketplace.tables.work import Hit as PostedHit
from round_manager.models import Example, ExampleStatus, Hit, HitKind
from tests.campaign import Campaign
from tests.fakes.market import StillWorld, open_world
from tests.fakes.market_pages import accept_task, csrf, frame_address, has_code
from tests.integration.plugin.web.work.conftest import OpenSite
from tests.integration.plugin.web.work.work_site import Page, WorkSite, setup_in

PATIENCE = 30
NO_GOLD = {"gold_rate": 0.0}
pytestmark = pytest.mark.any_database


class AskingMarket:
    """A marketplace that asks the web app of a campaign, and its workers."""

    def __init__(self, site: WorkSite, market: StillWorld) -> None:
        key = {"crowd_key_id": market.key.id, "crowd_key_secret": market.key.secret}
        site.settings = site.settings.model_copy(update={**key, "crowd_site_url": "http://127.0.0.1:7500"})
        site.restart()
        self.site, self.market = site, market
        set_web_app(market.market, "Lab", site.web.url)

    @property
    def campaign(self) -> Campaign:
        return self.site.campaign

    def post(self, kind: HitKind, title: str = "Check", **terms: Any) -> tuple[Hit, PostedHit]:
        """Post a HIT, as the manager does."""
        own_id = uuid4()
        posted = self.market.post(title, page_url=self.site.links.url_of(own_id), seconds=20 * 60, **terms)
        ours = self.campaign.add_hit(kind, public_id=own_id, external_id=posted.id)
        return ours, posted

    def group_of(self, posted: PostedHit) -> str:
        return self.market.group_of(posted.type_id)

    def open(self, browser: FlaskClient, assignment: str, hit: Hit) -> Page:
        """Open the page of an accepted HIT in its frame."""
        address = frame_address(browser.get(f"/work/{assignment}").text)
        path = address.partition("/hits/")[2]
        return Page(self.site, hit, setup_in(requests.get(f"{self.site.web.url}/hits/{path}", timeout=PATIENCE)))


def accept(browser: FlaskClient, group: str) -> Any:
    return browser.post(f"/groups/{group}/accept", data={"csrf": csrf(browser.get("/account").text)})


@pytest.fixture
def asking(open_site: OpenSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AskingMarket]:
    # Each page asks again instead of repeating an answer.
    monkeypatch.setattr("mturk.marketplace.inquiries.KEPT_SECONDS", -1.0)
    with open_world(f"sqlite:///{tmp_path / 'marketplace.db'}") as market:
        yield AskingMarket(open_site(validation=NO_GOLD, work={"hits_at_once": 2, "validations_per_hit": 2}), market)


def test_a_validation_hit_is_offered_only_while_it_holds_work_for_the_worker(asking: AskingMarket) -> None:
    ann, bob = asking.market.make_worker("Ann"), asking.market.make_worker("Bob")
    _, posted = asking.post(HitKind.VALIDATE)
    group = asking.group_of(posted)
    first, second = asking.market.sign_in(ann), asking.market.sign_in(bob)
    for browser in (first, second):
        assert f"/groups/{group}" not in browser.get("/").text
        assert has_code(browser.get(f"/groups/{group}"), "no_work_left")
        assert has_code(accept(browser, group), "no_work_left")
    # No worker judges their own example.
    asking.campaign.add_example(ann.id)
    assert f"/groups/{group}" not in first.get("/").text
    assert f"/groups/{group}" in second.get("/").text
    assert accept(second, group).status_code == 303


def test_a_worker_gets_another_hit_of_the_group_if_one_cannot_be_opened(asking: AskingMarket) -> None:
    asking.campaign.add_example("A1")
    gone, posted = asking.post(HitKind.VALIDATE)
    _, other = asking.post(HitKind.VALIDATE)
    with asking.campaign.store.write() as session:
        session.get_one(Hit, gone.id).finished_at = asking.campaign.now
    browser = asking.market.sign_in(asking.market.make_worker())
    assignment = accept_task(browser, asking.group_of(posted))
    assert asking.market.assignment(assignment).hit_id == other.id


def test_hits_that_were_accepted_and_not_opened_need_their_share_of_the_work(asking: AskingMarket) -> None:
    for _ in range(2):
        asking.campaign.add_example("A1")
    for _ in range(2):
        _, posted = asking.post(HitKind.VALIDATE)
    browser = asking.market.sign_in(asking.market.make_worker())
    group = asking.group_of(posted)
    assert accept(browser, group).status_code == 303
    assert has_code(accept(browser, group), "no_work_left")
    asking.campaign.add_example("A1")
    assert accept(browser, group).status_code == 303


def test_no_worker_accepts_more_hits_than_they_can_open(asking: AskingMarket) -> None:
    hits = [asking.post(HitKind.CREATE, "Write") for _ in range(4)]
    browser, group = asking.market.sign_in(asking.market.make_worker()), asking.group_of(hits[0][1])
    held = [accept_task(browser, group) for _ in range(2)]
    refused = accept(browser, group)
    assert has_code(refused, "too_many_held")
    listed = browser.get("/").text
    assert 'data-code="too_many_hits"' in listed
    for page in (refused.text, listed):
        assert all(f'href="/work/{one}"' in page for one in held)
    for assignment, (hit, _) in zip(held, hits, strict=False):
        assert asking.open(browser, assignment, hit).state()["status"] == "open"


def test_a_returned_hit_leaves_its_place_at_once(asking: AskingMarket) -> None:
    hits = [asking.post(HitKind.CREATE, "Write") for _ in range(3)]
    browser, group = asking.market.sign_in(asking.market.make_worker()), asking.group_of(hits[0][1])
    held = [accept_task(browser, group) for _ in range(2)]
    for assignment, (hit, _) in zip(held, hits, strict=False):
        asking.open(browser, assignment, hit)
    browser.post(f"/work/{held[0]}/return", data={"csrf": csrf(browser.get("/account").text)})
    third = accept_task(browser, group)
    assert asking.open(browser, third, hits[2][0]).state()["status"] == "open"


def test_the_possible_bonus_is_shown_with_the_reward(asking: AskingMarket) -> None:
    asking.post(HitKind.CREATE, "Write", cents=45)
    bonus = asking.campaign.spec.pay.fooled_bonus_cents * asking.campaign.spec.work.examples_per_hit
    page = asking.market.sign_in(asking.market.make_worker()).get("/").text
    assert f"up to ${bonus // 100}.{bonus % 100:02d} bonus" in page


def test_without_an_answer_every_hit_is_offered(asking: AskingMarket) -> None:
    _, posted = asking.post(HitKind.VALIDATE)
    asking.site.web.stop()
    try:
        browser = asking.market.sign_in(asking.market.make_worker())
        assert f"/groups/{asking.group_of(posted)}" in browser.get("/").text
        assert accept(browser, asking.group_of(posted)).status_code == 303
    finally:
        asking.site.web.start()


def test_earnings_show_what_became_of_each_example(asking: AskingMarket) -> None:
    ann = asking.market.make_worker("Ann")
    hit, posted = asking.post(HitKind.CREATE, "Write")
    browser = asking.market.sign_in(ann)
    assignment = accept_task(browser, asking.group_of(posted))
    page = asking.campaign.open_page(ann.id, hit=hit, assignment=assignment)
    asking.campaign.write_examples(page, fooling=True)
    asking.campaign.finish_page(page)
    asking.market.submit(asking.market.assignment(assignment))
    asking.campaign.confirm(page)
    shown = browser.get("/earnings").text
    assert 'data-outcome="waiting"' in shown
    assert 'id="possible"' in shown
    (example, *_) = asking.campaign.rows(Example, Example.session_id == page.id)
    with asking.campaign.store.write() as session:
        row = session.get_one(Example, example.id)
        row.status, row.decided_at = ExampleStatus.DISPUTED, asking.campaign.now
    assert 'data-outcome="disputed"' in browser.get("/earnings").text
    # Nobody else reads it.
    other = asking.market.make_worker("Bob")
    body = Inquiry(other.id, assignments=(assignment,)).to_json()
    assert ask(asking, body).json()["outcomes"] == {}


def ask(asking: AskingMarket, body: bytes, secret: str = "") -> requests.Response:
    signature = sign_inquiry(body, [secret or asking.market.key.secret], now=asking.campaign.now)
    headers = {SIGNATURE: signature, "Accept": "application/json"}
    return requests.post(f"{asking.site.web.url}{PATH}", body, headers=headers, timeout=PATIENCE)


def test_only_the_marketplace_is_answered(asking: AskingMarket) -> None:
    body = Inquiry("W1", ("H1",)).to_json()
    assert ask(asking, body).status_code == 200
    forged = ask(asking, body, secret="another secret")
    assert (forged.status_code, forged.json()["code"]) == (403, "proof_invalid")
    assert ask(asking, b'{"worker": 7}').status_code == 400


def test_an_app_that_does_not_answer_is_left_alone_for_a_while(asking: AskingMarket) -> None:
    asking.site.web.stop()
    try:
        now = [0.0]
        inquirer = Inquirer(lambda: now[0])
        with asking.market.market.read() as session:
            app = web_apps(session, [asking.market.requester.id])[asking.market.requester.id]
        assert inquirer.ask(app, Inquiry("W1"), asking.market.now) is None
    finally:
        asking.site.web.start()
    assert inquirer.ask(app, Inquiry("W1"), asking.market.now) is None
    now[0] = 60.0
    assert inquirer.ask(app, Inquiry("W1"), asking.market.now) is not None


def test_a_hit_that_became_empty_after_it_was_accepted_can_be_submitted_and_is_paid(asking: AskingMarket) -> None:
    asking.campaign.add_example("A1", wanted=1)
    hit, posted = asking.post(HitKind.VALIDATE)
    browser = asking.market.sign_in(asking.market.make_worker())
    assignment = accept_task(browser, asking.group_of(posted))
    asking.campaign.open_validation_page("V9")
    page = asking.open(browser, assignment, hit)
    assert (page.state()["empty"], page.state()["items"], page.state()["missing"]) == (True, [], None)
    assert page.post("/finish")["submit"]["fields"]["assignmentId"] == assignment
