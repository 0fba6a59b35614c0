"""Pages with a worker's earnings by day, and with messages from requesters."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby

from flask import Blueprint, render_template, request

from mturk.marketplace.services.earnings import EarnedAssignment, Earnings, worker_earnings
from mturk.marketplace.services.workers import read_messages
from mturk.marketplace.site.auth import SiteAuth
from mturk.marketplace.tables.work import AssignmentStatus

PAGE_SIZE = 100
LABELS = {
    AssignmentStatus.SUBMITTED: "In review",
    AssignmentStatus.APPROVED: "Approved",
    AssignmentStatus.REJECTED: "Rejected",
}


@dataclass(frozen=True)
class EarningsEntry:
    """A line of the earnings page; `cents` is what was earned, or what approval would pay."""

    at: datetime
    kind: str
    label: str
    title: str
    requester: str
    cents: int
    note: str

    @property
    def earned_cents(self) -> int:
        """What was earned so far."""
        return self.cents if self.kind in ("approved", "bonus") else 0


@dataclass(frozen=True)
class EarningsDay:
    """The entries of one day, in UTC."""

    on: date
    entries: tuple[EarningsEntry, ...]

    @property
    def cents(self) -> int:
        """The earnings of the day so far."""
        return sum(entry.earned_cents for entry in self.entries)


class EarningsPages:
    """The earnings page and the messages page."""

    def __init__(self, auth: SiteAuth) -> None:
        self._auth = auth
        self._market = auth.market

    def blueprint(self) -> Blueprint:
        """Return the pages."""
        pages = Blueprint("earnings", __name__)
        pages.add_url_rule("/earnings", "earnings", self._earnings)
        pages.add_url_rule("/messages", "messages", self._messages)
        return pages

    def _earnings(self) -> str:
        visitor = self._auth.require_visitor()
        earned = worker_earnings(self._market, visitor.worker_id)
        entries = earnings_entries(earned)
        page = max(1, request.args.get("page", 1, type=int))
        shown = entries[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        waiting = sum(work.status is AssignmentStatus.SUBMITTED for work in earned.assignments)
        return render_template(
            "earnings.html",
            here="earnings",
            earned=earned,
            waiting=waiting,
            days=entries_by_day(shown),
            page=page,
            has_more=len(entries) > page * PAGE_SIZE,
        )

    def _messages(self) -> str:
        visitor = self._auth.require_visitor()
        messages = read_messages(self._market, visitor.worker_id, limit=PAGE_SIZE)
        return render_template("messages.html", here="messages", messages=messages)


def earnings_entries(earned: Earnings) -> list[EarningsEntry]:
    """Return assignments and bonuses in one list, the newest first."""
    lines = [_line(work) for work in earned.assignments]
    lines += [
        EarningsEntry(one.paid_at, "bonus", "Bonus", one.title, one.requester, one.cents, one.reason)
        for one in earned.bonuses
    ]
    return sorted(lines, key=lambda line: line.at, reverse=True)


def entries_by_day(entries: Sequence[EarningsEntry]) -> list[EarningsDay]:
    """Group entries by day."""
    return [EarningsDay(on, tuple(same_day)) for on, same_day in groupby(entries, key=lambda entry: entry.at.date())]


def _line(work: EarnedAssignment) -> EarningsEntry:
    kind, label = work.status.value.lower(), LABELS[work.status]
    return EarningsEntry(work.submitted_at, kind, label, work.title, work.requester, work.reward_cents, work.feedback)
