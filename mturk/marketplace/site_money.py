"""What a worker earned and was told: earnings, day by day, and messages from requesters."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby

from flask import Blueprint, render_template, request
from sqlalchemy import select

from mturk.marketplace import earnings
from mturk.marketplace.earnings import Earned, Earnings
from mturk.marketplace.site_door import Door
from mturk.marketplace.tables import AssignmentStatus, Message, Requester, Worker

ON_A_PAGE = 100
LABELS = {
    AssignmentStatus.SUBMITTED: "In review",
    AssignmentStatus.APPROVED: "Approved",
    AssignmentStatus.REJECTED: "Rejected",
}


@dataclass(frozen=True)
class Entry:
    """One line of the earnings page; `cents` is what it brought or may bring."""

    at: datetime
    kind: str
    label: str
    title: str
    requester: str
    cents: int
    note: str

    @property
    def earned_cents(self) -> int:
        """What it brought so far."""
        return self.cents if self.kind in ("approved", "bonus") else 0


@dataclass(frozen=True)
class Day:
    """The entries of one day, in UTC."""

    on: date
    entries: tuple[Entry, ...]

    @property
    def cents(self) -> int:
        """What the day brought so far."""
        return sum(entry.earned_cents for entry in self.entries)


@dataclass(frozen=True)
class Letter:
    """A message as the worker reads it; new until it was shown once."""

    subject: str
    requester: str
    text: str
    sent_at: datetime
    is_new: bool


class MoneyPages:
    """The pages of somebody who wants to know what became of their work."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._market = door.market

    def blueprint(self) -> Blueprint:
        """All of them."""
        pages = Blueprint("money", __name__)
        pages.add_url_rule("/earnings", "earnings", self._earnings)
        pages.add_url_rule("/messages", "messages", self._messages)
        return pages

    def _earnings(self) -> str:
        visit = self._door.visitor()
        with self._market.read() as session:
            earned = earnings.of(session, session.get_one(Worker, visit.worker_id))
        lines = entries(earned)
        page = max(1, request.args.get("page", 1, type=int))
        shown = lines[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
        waiting = sum(work.status is AssignmentStatus.SUBMITTED for work in earned.works)
        return render_template(
            "earnings.html",
            here="earnings",
            earned=earned,
            waiting=waiting,
            days=days(shown),
            page=page,
            has_more=len(lines) > page * ON_A_PAGE,
        )

    def _messages(self) -> str:
        visit = self._door.visitor()
        mine = (
            select(Message, Requester.name)
            .join(Requester, Requester.id == Message.requester_id)
            .where(Message.worker_id == visit.worker_id)
            .order_by(Message.number.desc())
            .limit(ON_A_PAGE)
        )
        with self._market.write() as session:
            found = session.execute(mine).all()
            letters = [Letter(one.subject, name, one.text, one.sent_at, one.read_at is None) for one, name in found]
            for message, _ in found:
                message.read_at = message.read_at or self._market.now()
        return render_template("messages.html", here="messages", messages=letters)


def entries(earned: Earnings) -> list[Entry]:
    """Work and bonuses in one list, the newest first."""
    lines = [_line(work) for work in earned.works]
    lines += [
        Entry(one.paid_at, "bonus", "Bonus", one.title, one.requester, one.cents, one.reason) for one in earned.bonuses
    ]
    return sorted(lines, key=lambda line: line.at, reverse=True)


def days(lines: Sequence[Entry]) -> list[Day]:
    """The lines by day."""
    return [Day(on, tuple(those)) for on, those in groupby(lines, key=lambda line: line.at.date())]


def _line(work: Earned) -> Entry:
    kind, label = work.status.value.lower(), LABELS[work.status]
    return Entry(work.submitted_at, kind, label, work.title, work.requester, work.reward_cents, work.feedback)
