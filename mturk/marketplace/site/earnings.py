"""Pages with a worker's earnings by day, and with messages from requesters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby

from flask import Blueprint, render_template, request

from common.messages import Cents, Message, gettext
from crowd.inquiries import ExampleOutcome
from mturk.marketplace.inquiries import Inquirer
from mturk.marketplace.services.earnings import EarnedAssignment, Earnings, example_outcomes, worker_earnings
from mturk.marketplace.services.workers import read_messages
from mturk.marketplace.site.auth import SiteAuth
from mturk.marketplace.tables.work import AssignmentStatus

PAGE_SIZE = 100
LABELS = {
    AssignmentStatus.SUBMITTED: gettext("In review"),
    AssignmentStatus.APPROVED: gettext("Approved"),
    AssignmentStatus.REJECTED: gettext("Rejected"),
}


UNKNOWN = gettext("Decided by the requester.")
# By outcome: the text with a bonus, and the text without one.
OUTCOMES: dict[str, tuple[Callable[[Cents], Message] | None, Message]] = {
    "waiting": (
        lambda amount: gettext(
            "Others are checking it. It earns %(amount)s more if they agree with you.", amount=amount
        ),
        gettext("Others may check it."),
    ),
    "verified": (
        lambda cents: gettext("Others agreed with you: %(amount)s bonus.", amount=cents),
        gettext("Others agreed with you."),
    ),
    "disputed": (None, gettext("Others read it differently than you, so it earns no bonus.")),
    "duplicate": (None, gettext("A text like it was there before, so it earns no bonus.")),
    "withdrawn": (None, gettext("It was taken out and does not count.")),
    "not_checked": (None, gettext("It did not fool the model, so it was not checked and earns no bonus.")),
    "undecided": (None, gettext("The round ended before others had checked it, so it earns no bonus.")),
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
    assignment_id: str = ""

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

    def __init__(self, auth: SiteAuth, inquirer: Inquirer) -> None:
        self._auth = auth
        self._market = auth.market
        self._inquirer = inquirer

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
        ids = {entry.assignment_id for entry in shown}
        listed = [work for work in earned.assignments if work.assignment_id in ids]
        outcomes = example_outcomes(self._market, self._inquirer, visitor.worker_id, listed)
        waiting = sum(work.status is AssignmentStatus.SUBMITTED for work in earned.assignments)
        return render_template(
            "earnings.html",
            here="earnings",
            earned=earned,
            outcomes=outcomes,
            outcome_text=outcome_text,
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
        EarningsEntry(one.paid_at, "bonus", gettext("Bonus"), one.title, one.requester, one.cents, one.reason)
        for one in earned.bonuses
    ]
    return sorted(lines, key=lambda line: line.at, reverse=True)


def entries_by_day(entries: Sequence[EarningsEntry]) -> list[EarningsDay]:
    """Group entries by day."""
    return [EarningsDay(on, tuple(same_day)) for on, same_day in groupby(entries, key=lambda entry: entry.at.date())]


def _line(work: EarnedAssignment) -> EarningsEntry:
    kind, label = work.status.value.lower(), LABELS[work.status]
    return EarningsEntry(
        work.submitted_at,
        kind,
        label,
        work.title,
        work.requester,
        work.reward_cents,
        work.feedback,
        work.assignment_id,
    )


def outcome_text(example: ExampleOutcome) -> Message:
    """Return what became of an example, as its author reads it; requesters may know outcomes that we do not."""
    with_bonus, plain = OUTCOMES.get(example.outcome, (None, UNKNOWN))
    return with_bonus(Cents(example.bonus_cents)) if with_bonus and example.bonus_cents else plain
