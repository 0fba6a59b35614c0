"""Texts of the worker site: notices, status and error pages, and formats for money and time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from markupsafe import Markup

from common.messages import Cents, Message, as_sentence, gettext, in_a_row, ngettext
from mturk.marketplace import errors
from mturk.marketplace.services.work import Submission
from mturk.marketplace.site.language import site_translator

FIND = ("/", gettext("Find work"))
QUEUE = ("/queue", gettext("Your queue"))
EARNINGS = ("/earnings", gettext("Earnings"))
DAY, HOUR, MINUTE = 86_400, 3_600, 60
# What a date shows; CLDR orders it for each language.
MONTH_AND_DAY, WEEKDAY = "MMMd", "MMMMEEEEd"


@dataclass(frozen=True)
class StatusPage:
    """A page that explains what happened; the first link is the one that most people want."""

    status: int
    code: str
    title: str
    text: str
    links: tuple[tuple[str, str], ...] = (FIND,)


class StatusPageError(Exception):
    """Ends a request with a status page instead of the requested one."""

    def __init__(self, page: StatusPage) -> None:
        super().__init__(page.title)
        self.page = page


@dataclass(frozen=True)
class Notice:
    """A line above the next page; `tone` is `quiet` for a neutral one."""

    text: str
    tone: str = ""


NOTICES = {
    "submitted": Notice(gettext("Submitted. You can find it under Earnings, and here is more of the same.")),
    "went_on": Notice(gettext("Submitted. You can find it under Earnings. This is the next one.")),
    "last": Notice(gettext("Submitted. That was the last one of its kind for you.")),
    "returned": Notice(gettext("Returned. Someone else can take it now."), "quiet"),
    "elsewhere": Notice(gettext("Signed out on your other devices.")),
    "welcome": Notice(gettext("You are signed in. Pick something you like.")),
}
# The same, where it is known what was submitted.
SUBMITTED: dict[str, Callable[[Cents], Message]] = {
    "submitted": lambda pay: gettext(
        "Submitted. %(pay)s is in review, under Earnings. Here is more of the same.", pay=pay
    ),
    "went_on": lambda pay: gettext("Submitted. %(pay)s is in review, under Earnings. This is the next one.", pay=pay),
    "last": lambda pay: gettext(
        "Submitted. %(pay)s is in review, under Earnings. That was the last one of its kind for you.", pay=pay
    ),
}

_PAGES: dict[type[errors.MarketError], StatusPage] = {
    errors.WorkNotFound: StatusPage(
        404,
        errors.WorkNotFound.code,
        gettext("This work is not here"),
        gettext("It may be finished, or the address is not complete."),
    ),
    errors.NoWorkLeft: StatusPage(
        409,
        errors.NoWorkLeft.code,
        gettext("Nothing left for you here"),
        gettext("Others took the rest, or you have done your share of it."),
    ),
    # The error's message says what is missing.
    errors.NotQualified: StatusPage(403, errors.NotQualified.code, gettext("You cannot take this at the moment"), ""),
    errors.QueueFull: StatusPage(
        409,
        errors.QueueFull.code,
        gettext("Your queue is full"),
        gettext("Submit or return something that you have accepted, then take more."),
        (QUEUE, FIND),
    ),
    # The links lead to the tasks.
    errors.TooManyHeld: StatusPage(
        409,
        errors.TooManyHeld.code,
        gettext("Finish one of your tasks first"),
        gettext("You have accepted as many tasks of this kind as you can have at once. Submit or return one of them."),
        (QUEUE, FIND),
    ),
    errors.NotTheHolder: StatusPage(
        409,
        errors.NotTheHolder.code,
        gettext("Someone else has this task"),
        gettext("It is not yours, or no longer: you returned it, or its time ran out."),
        (QUEUE, FIND),
    ),
    errors.AssignmentExpired: StatusPage(
        410,
        errors.AssignmentExpired.code,
        gettext("The time for this task is over"),
        gettext("It is available to others again and cannot be submitted. This does not count against you."),
        (QUEUE, FIND),
    ),
    errors.AssignmentAlreadySubmitted: StatusPage(
        409,
        errors.AssignmentAlreadySubmitted.code,
        gettext("You have already submitted this"),
        gettext("Your first submission counts, and it is safe."),
        (EARNINGS, FIND),
    ),
    errors.LinkNotFound: StatusPage(
        404,
        errors.LinkNotFound.code,
        gettext("This link does not work"),
        gettext("Check that you copied all of it, or ask for another one."),
    ),
    errors.LinkUsed: StatusPage(
        410,
        errors.LinkUsed.code,
        gettext("This link was already used"),
        gettext(
            "A link signs you in once. Are you signed in on another device? Make a new link there, under Account. "
            "If not, ask the person who invited you for another one."
        ),
    ),
    errors.LinkExpired: StatusPage(
        410,
        errors.LinkExpired.code,
        gettext("This link has expired"),
        gettext("Ask the person who invited you for another one."),
    ),
}

NOT_FOUND = StatusPage(404, "page_not_found", gettext("Page not found"), gettext("The address may be mistyped or old."))
SIGNED_OUT = StatusPage(
    401,
    "signed_out",
    gettext("You are not signed in"),
    gettext("Open the link that you were given, or ask for a new one."),
)
OLD_FORM = StatusPage(
    400,
    "form_expired",
    gettext("This page was out of date"),
    gettext("Nothing was changed. Open the page again and retry."),
)
TOO_LARGE = StatusPage(
    413,
    "submission_too_large",
    gettext("This is too much"),
    gettext("The answers are larger than a task may submit, so nothing was stored."),
    (QUEUE,),
)
TOO_MANY_WRONG_LINKS = StatusPage(
    429,
    "too_many_wrong_links",
    gettext("Too many attempts"),
    gettext("Too many wrong links were opened from your network. Wait a minute and try again."),
)
UNAVAILABLE = StatusPage(
    503,
    errors.MarketUnavailable.code,
    gettext("Not just now"),
    gettext("We cannot read or store anything at the moment. Nothing is lost; try again in a moment."),
    (FIND, QUEUE),
)
FAILED = StatusPage(
    500,
    "server_error",
    gettext("Something went wrong"),
    gettext("This is our fault, and it was logged. Try again in a moment."),
    (FIND, QUEUE),
)
PREVIEW = StatusPage(
    409,
    "task_not_accepted",
    gettext("Accept the task first"),
    gettext("This was only a preview, so nothing was submitted. Accept the task, then work on it."),
)
NO_ASSIGNMENT = StatusPage(
    400,
    "assignment_missing",
    gettext("No task was named"),
    gettext("The requester's page did not say which task this is, so nothing was stored."),
    (QUEUE, FIND),
)
NO_PASS = StatusPage(
    400,
    "submit_pass_missing",
    gettext("This page sent its work to the wrong address"),
    gettext(
        "Nothing was stored. The requester's page has to post to the exact value of turkSubmitTo, followed by "
        "/mturk/externalSubmit."
    ),
    (QUEUE, FIND),
)
FILES = StatusPage(
    400,
    "files_not_supported",
    gettext("Files cannot be submitted here"),
    gettext("Nothing was stored. Leave the file out; if the task needs it, return the task and tell its requester."),
    (QUEUE,),
)
TOO_MANY_FIELDS = StatusPage(
    413,
    "too_many_fields",
    gettext("Too many answers"),
    gettext("The task's form has more fields than can be submitted. Nothing was stored."),
    (QUEUE,),
)
NOT_POSSIBLE = StatusPage(400, "http_error", gettext("That did not work"), gettext("That is not possible here."))
THANKS = StatusPage(200, "submitted", gettext("Thank you"), gettext("Your work was submitted."), ())


def notice_of(said: str, submission: Submission | None) -> Notice | None:
    """Return the line above a page, with the reward of what was submitted before it."""
    if said in SUBMITTED and submission is not None:
        return Notice(SUBMITTED[said](Cents(submission.reward_cents)))
    return NOTICES.get(said)


def page_for_error(error: errors.MarketError) -> StatusPage:
    """Return the page that explains an error."""
    message = as_sentence(error.message)
    if isinstance(error, errors.TooManyHeld) and error.finish:
        tasks = [
            (f"/work/{assignment_id}", gettext("Continue with task %(number)s", number=number))
            for number, assignment_id in enumerate(error.finish, 1)
        ]
        return replace(_PAGES[errors.TooManyHeld], links=(*tasks, QUEUE))
    for kind, page in _PAGES.items():
        if isinstance(error, kind):
            return page if page.text else replace(page, text=message)
    return StatusPage(400, error.code, gettext("That did not work"), message)


def duration(seconds: int) -> Message:
    """Return the two largest units of a duration: 45 s, 10 min, 1 h 30 min, 3 days."""
    days, rest = divmod(seconds, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    units = [
        (days, ngettext("%(n)s day", "%(n)s days", days)),
        (hours, gettext("%(n)s h", n=hours)),
        (minutes, gettext("%(n)s min", n=minutes)),
        (rest, gettext("%(n)s s", n=rest)),
    ]
    return in_a_row([text for number, text in units if number][:2] or [gettext("%(n)s s", n=0)])


def countdown(milliseconds: int) -> str:
    """Return 1:02:03 or 02:03; seconds are rounded up, as in the script that continues the countdown."""
    minutes, seconds = divmod(max(0, -(-milliseconds // 1_000)), MINUTE)
    hours, minutes = divmod(minutes, MINUTE)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"


def moment(at: datetime) -> Markup:
    """Return a time to the minute, in UTC; the page's script converts it to the visitor's time zone."""
    return _time(at, "moment", f"{site_translator().date(at.date(), MONTH_AND_DAY)}, {at:%H:%M}")


def day(at: datetime) -> Markup:
    """Return a date."""
    return _time(at, "day", site_translator().date(at.date(), MONTH_AND_DAY))


def weekday(on: date) -> Markup:
    """Return a date such as Mon, Mar 1."""
    return Markup('<time datetime="{}">{}</time>').format(on.isoformat(), site_translator().date(on, WEEKDAY))


def _time(at: datetime, kind: str, text: str) -> Markup:
    stamp = at.isoformat(timespec="seconds")
    return Markup('<time datetime="{}" data-as="{}" title="{} UTC">{}</time>').format(
        stamp, kind, f"{at:%Y-%m-%d %H:%M}", text
    )


FILTERS: dict[str, Callable[..., Any]] = {one.__name__: one for one in (duration, countdown, moment, day, weekday)}
