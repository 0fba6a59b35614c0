"""What the site tells somebody who cannot go on as they meant to: what happened, and a way on."""

from dataclasses import dataclass, replace

from mturk.marketplace import errors, sessions

FIND = ("/", "Find work")
QUEUE = ("/queue", "Your queue")
EARNINGS = ("/earnings", "Earnings")


@dataclass(frozen=True)
class Told:
    """One page that explains; the first of the ways on is the one that most people want."""

    status: int
    title: str
    text: str
    ways: tuple[tuple[str, str], ...] = (FIND,)


@dataclass(frozen=True)
class Notice:
    """One line above the next page; `tone` is `quiet` where nothing was achieved."""

    text: str
    tone: str = ""


NOTICES = {
    "submitted": Notice("Handed in. You find it under Earnings, and here is more of the same."),
    "last": Notice("Handed in. That was the last one of its kind for you."),
    "returned": Notice("Returned. Somebody else can take it now.", "quiet"),
    "elsewhere": Notice("Signed out on your other devices."),
    "welcome": Notice("You are signed in. Pick something you like."),
}

_REFUSALS: dict[type[errors.MarketError], Told] = {
    errors.NoSuchWork: Told(404, "This work is not here", "It may be finished, or the address is not complete."),
    errors.NothingLeft: Told(
        409, "Nothing left for you here", "Others took the rest, or you have done your share of it."
    ),
    # What exactly is missing is in the error itself.
    errors.NotQualified: Told(403, "Not for you at present", ""),
    errors.TooManyHeld: Told(
        409, "Your queue is full", "Hand in or return something that you have accepted, then take more.", (QUEUE, FIND)
    ),
    errors.NotTheHolder: Told(
        409,
        "Somebody else has this task",
        "It is not yours, or not any more: you returned it, or its time was over.",
        (QUEUE, FIND),
    ),
    errors.TimeIsOver: Told(
        410,
        "The time for this task is over",
        "It went back to the others and cannot be handed in. Nothing is held against you.",
        (QUEUE, FIND),
    ),
    errors.AlreadySubmitted: Told(
        409, "You have handed this in already", "The first time counts, and it is safe.", (EARNINGS, FIND)
    ),
    sessions.LinkUnknown: Told(
        404, "This link leads nowhere", "Check that you copied all of it, or ask for another one."
    ),
    sessions.LinkUsed: Told(
        410,
        "This link was used already",
        "A link signs in once. Are you signed in on another device? Make a new link there, under Account. "
        "If not, ask whoever invited you for another one.",
    ),
    sessions.LinkExpired: Told(410, "This link is too old", "Ask whoever invited you for another one."),
}

NOT_FOUND = Told(404, "There is no such page", "The address may be mistyped or old.")
SIGNED_OUT = Told(401, "You are not signed in", "Open the link that you were given, or ask for a new one.")
OLD_FORM = Told(400, "This page was too old", "Nothing was done. Open the page again and repeat what you wanted to do.")
TOO_LARGE = Told(
    413, "This is too much", "The answers are larger than a task may hand in, so nothing was stored.", (QUEUE,)
)
SILENT = Told(408, "Your answer did not arrive", "The connection went quiet half-way. Try once more.", (QUEUE,))
TOO_MANY = Told(429, "Slowly, please", "Too many wrong links came from your network. Wait a minute and try again.")
FAILED = Told(
    500, "Something went wrong here", "It is our fault and was noted. Try once more in a moment.", (FIND, QUEUE)
)
PREVIEW = Told(
    409, "Accept the task first", "This was only a preview, so nothing was handed in. Accept the task, then work on it."
)
NO_ASSIGNMENT = Told(
    400,
    "No task was named",
    "The requester's page did not say which task this is, so nothing was stored.",
    (QUEUE, FIND),
)
NO_PASS = Told(
    400,
    "This page sent its work to the wrong address",
    "Nothing was stored. Its requester has to post to turkSubmitTo, exactly as the page was told, with "
    "/mturk/externalSubmit behind it.",
    (QUEUE, FIND),
)
FILES = Told(
    400,
    "Files cannot be handed in here",
    "Nothing was stored. Leave the file out; if the task needs it, return the task and tell its requester.",
    (QUEUE,),
)
TOO_MANY_FIELDS = Told(
    413,
    "These are too many answers",
    "The task's form has more fields than can be handed in. Nothing was stored.",
    (QUEUE,),
)
THANKS = Told(200, "Thank you", "Your work was handed in.", ())


def refusal(error: errors.MarketError) -> Told:
    """What to tell about a refusal."""
    said = f"{error.message[:1].upper()}{error.message[1:].rstrip('.')}."
    for kind, told in _REFUSALS.items():
        if isinstance(error, kind):
            return told if told.text else replace(told, text=said)
    return Told(400, "That did not work", said)


class Stopped(Exception):
    """A visitor who is told something instead of what they asked for."""

    def __init__(self, told: Told) -> None:
        super().__init__(told.title)
        self.told = told
