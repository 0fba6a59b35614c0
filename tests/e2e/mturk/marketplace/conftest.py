"""A marketplace with its site, a requester's page on another port, and workers' browsers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page, ViewportSize, expect
from sqlalchemy import select

from common.clock import SystemClock
from mturk.marketplace import people
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.market import Market
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import Assignment, HitType
from tests.e2e.browser import Complaints
from tests.e2e.mturk.marketplace.question import question_app, served
from tests.fakes.market import MarketServer

DESK: ViewportSize = {"width": 1280, "height": 860}
PHONE: ViewportSize = {"width": 360, "height": 740}
LANDSCAPE: ViewportSize = {"width": 812, "height": 375}
KEYBOARD: ViewportSize = {"width": 375, "height": 440}
TITLE = "Write a review that the model gets wrong"
QUESTION = (
    '<ExternalQuestion xmlns="http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/'
    'ExternalQuestion.xsd"><ExternalURL>{url}</ExternalURL><FrameHeight>0</FrameHeight></ExternalQuestion>'
)


@dataclass
class SiteWorld:
    """A requester with an unmodified boto3 client, and workers in a real browser."""

    server: MarketServer
    question_url: str
    requester: Any
    open_context: Callable[..., BrowserContext]
    contexts: list[BrowserContext] = field(default_factory=list)

    def post(self, *, cents: int = 45, seconds: int = 600, query: str = "round=2", title: str = TITLE) -> str:
        """Post a HIT for one worker; return its id."""
        made = self.requester.create_hit(
            Title=title,
            Description="Write one or two sentences that a person understands at once and the model does not.",
            Keywords="writing, sentiment",
            Reward=f"{cents // 100}.{cents % 100:02d}",
            MaxAssignments=1,
            LifetimeInSeconds=86_400,
            AssignmentDurationInSeconds=seconds,
            AutoApprovalDelayInSeconds=604_800,
            Question=QUESTION.format(url=f"{self.question_url}/task?{query}".replace("&", "&amp;")),
        )
        return str(made["HIT"]["HITId"])

    def submitted(self, hit_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.requester.list_assignments_for_hit(HITId=hit_id)["Assignments"]
        return found

    def worker(self, name: str) -> Worker:
        return self.server.make_worker(name)

    def link(self, worker: Worker) -> str:
        with self.server.market.write() as session:
            return f"{self.server.url}/join/{people.create_link(session, worker.id, self.server.clock.now())}"

    def page(self, **options: Any) -> Page:
        """Open a page in a new browser context."""
        context = self.open_context(**{"viewport": DESK, **options})
        self.contexts.append(context)
        return context.new_page()

    def signed_in(self, worker: Worker, **options: Any) -> Page:
        page = self.page(**options)
        page.goto(self.link(worker))
        page.get_by_role("button", name="Start working").click()
        expect(page.get_by_role("heading", name="Find work")).to_be_visible()
        return page

    def accepted(self, page: Page) -> str:
        """Accept the first task in the list; return the assignment's id."""
        page.goto(self.server.url)
        page.get_by_role("button", name="Accept").first.click()
        expect(task_in(page).get_by_label("Your review")).to_be_visible()
        return page.url.rpartition("/")[2]

    def assignment(self, assignment_id: str) -> Assignment:
        with self.server.market.read() as session:
            return session.scalars(select(Assignment).where(Assignment.id == assignment_id)).one()

    def group(self) -> str:
        with self.server.market.read() as session:
            return session.scalars(select(HitType.group_id)).one()


def task_in(page: Page) -> FrameLocator:
    """Return the requester's page in the frame."""
    return page.frame_locator("iframe")


def write_and_submit(page: Page, text: str) -> None:
    """Do the task."""
    task_in(page).get_by_label("Your review").fill(text)
    task_in(page).get_by_role("button", name="Submit").click()


def fits(page: Page) -> bool:
    """Return whether nothing is wider than the window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width <= 0


def silent(*pages: Page) -> Complaints:
    """Collect errors of the pages, for a test to check."""
    complaints = Complaints()
    for page in pages:
        complaints.listen_to(page)
    return complaints


def _app(market: Market, url: str) -> Any:
    return marketplace_app(market, public_url=url, signing_time=SystemClock().now)


@pytest.fixture(scope="session")
def question_url() -> Iterator[str]:
    """The requester's server."""
    with served(question_app()) as url:
        yield url


@pytest.fixture
def site(tmp_path: Path, question_url: str, browser: Browser) -> Iterator[SiteWorld]:
    with MarketServer(tmp_path / "marketplace.db", app=_app) as server:
        made = SiteWorld(server, question_url, server.client(), browser.new_context)
        yield made
        for context in made.contexts:
            context.close()
