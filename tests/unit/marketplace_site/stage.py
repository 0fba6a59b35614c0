"""A small marketplace with its worker's site: a requester with money, workers, and HITs to work on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from mturk.marketplace import assignments, credentials, hits, people
from mturk.marketplace.hits import TypeTerms
from mturk.marketplace.market import Market, open_market
from mturk.marketplace.questions import QuestionPage
from mturk.marketplace.site.app import worker_site
from mturk.marketplace.tables.people import Message, Requester, Worker
from mturk.marketplace.tables.work import Assignment, Hit, HitType
from tests.fakes.clock import SettableClock

SITE = "http://127.0.0.1:7500"
PAGE = "http://127.0.0.1:9/task?part=3"
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass
class Stage:
    """The market, its clock, and what tests do in it as its owner and as a requester."""

    market: Market
    clock: SettableClock
    requester: Requester
    sites: dict[str, Flask] = field(default_factory=dict)

    def site(self, public_url: str = SITE) -> Flask:
        if public_url not in self.sites:
            self.sites[public_url] = worker_site(self.market, public_url)
        return self.sites[public_url]

    def worker(self, name: str = "Ada", *, country: str = "US", adult: bool = True) -> Worker:
        with self.market.write() as session:
            return people.add_worker(session, name, self.clock.now(), country=country, adult=adult)

    def link(self, worker: Worker, life: timedelta = credentials.INVITATION_LIFE) -> str:
        with self.market.write() as session:
            return f"/join/{credentials.create_link(session, worker.id, self.clock.now(), life)}"

    def signed_in(self, worker: Worker, public_url: str = SITE) -> FlaskClient:
        browser = self.site(public_url).test_client()
        link = self.link(worker)
        joined = browser.post(link, data={"csrf": csrf(browser.get(link).text)})
        assert joined.status_code == 303, joined.text
        return browser

    def post(
        self,
        title: str = "Is this review positive?",
        *,
        cents: int = 45,
        page_url: str = PAGE,
        places: int = 1,
        seconds: int = 600,
        requirements: list[dict[str, Any]] | None = None,
        description: str = "Read one sentence and say what it means.",
        keywords: str = "text, sentiment",
        frame_height: int = 0,
    ) -> Hit:
        terms = TypeTerms(title, description, keywords, cents, seconds, 7 * 86_400, requirements or [])
        with self.market.write() as session:
            requester = session.get_one(Requester, self.requester.number)
            kind = hits.find_or_create_type(session, requester, terms)
            return hits.create(
                session,
                kind,
                QuestionPage(page_url, frame_height),
                "<ExternalQuestion/>",
                max_assignments=places,
                lifetime_seconds=5 * 86_400,
                annotation=None,
                now=self.clock.now(),
            )

    def group_of(self, hit: Hit) -> str:
        with self.market.read() as session:
            return session.scalars(select(HitType.group_id).where(HitType.id == hit.type_id)).one()

    def assignment(self, assignment_id: str) -> Assignment:
        with self.market.read() as session:
            return session.scalars(select(Assignment).where(Assignment.id == assignment_id)).one()

    def approve(self, assignment_id: str, feedback: str = "") -> None:
        with self.market.write() as session:
            assignments.approve(session, *_assignment_and_hit(session, assignment_id), self.clock.now(), feedback)

    def reject(self, assignment_id: str, reason: str) -> None:
        with self.market.write() as session:
            assignments.reject(session, *_assignment_and_hit(session, assignment_id), self.clock.now(), reason)

    def bonus(self, assignment_id: str, cents: int, reason: str) -> None:
        with self.market.write() as session:
            assignment, hit = _assignment_and_hit(session, assignment_id)
            assignments.send_bonus(session, hit, assignment, str(assignment.worker_id), cents, reason, self.clock.now())

    def write_to(self, worker: Worker, subject: str, text: str) -> None:
        with self.market.write() as session:
            session.add(
                Message(
                    requester_id=self.requester.id,
                    worker_id=worker.id,
                    subject=subject,
                    text=text,
                    sent_at=self.clock.now(),
                )
            )


def has_code(response: TestResponse, code: str) -> bool:
    """Return whether a page carries this code."""
    return f'data-code="{code}"' in response.text


def csrf(page: str) -> str:
    """What the forms of a page carry."""
    found = CSRF.search(page)
    assert found, f"no form on this page: {page[:2_000]}"
    return found[1]


def accepted(browser: FlaskClient, group_id: str) -> str:
    """Takes a HIT of a group; the assignment's id."""
    answer = browser.post(f"/groups/{group_id}/accept", data={"csrf": csrf(browser.get("/account").text)})
    assert answer.status_code == 303, answer.text
    return urlsplit(answer.location).path.removeprefix("/work/")


def frame_address(page: str) -> str:
    """Where the frame of a page leads."""
    return unescape(page.partition("<iframe")[2].partition(' src="')[2].partition('"')[0])


def submit_path(browser: FlaskClient, assignment_id: str) -> str:
    """Where the requester's page posts the work of an acceptance to."""
    told = parse_qs(urlsplit(frame_address(browser.get(f"/work/{assignment_id}").text)).query)["turkSubmitTo"][0]
    assert told.startswith(f"{SITE}/s/")
    return f"{told.removeprefix(SITE)}/mturk/externalSubmit"


@contextmanager
def open_stage(url: str, name: str = "Lexicon Lab") -> Iterator[Stage]:
    """A market in a database, with a requester who has $1,000."""
    clock = SettableClock()
    with open_market(url, clock) as market:
        with market.write() as session:
            requester = people.add_requester(session, name, clock.now())
            people.deposit(session, requester, 100_000, clock.now())
        yield Stage(market, clock, requester)


def _assignment_and_hit(session: Session, assignment_id: str) -> tuple[Assignment, Hit]:
    found = select(Assignment, Hit).join(Hit, Hit.id == Assignment.hit_id).where(Assignment.id == assignment_id)
    assignment, hit = session.execute(found).one()
    return assignment, hit
