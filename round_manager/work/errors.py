"""Why a worker's page is refused something. Every message is for the worker.

WorkRefused
├── TimeIsOver            the HIT's time is over
├── NothingToDo           there is nothing for this worker now
├── OtherText             the page shows a text that its example no longer has
├── PageUnknown           the page, the HIT or the item is unknown, or of another kind
├── PageInOtherBrowser    the page belongs to another browser
├── PageInputUnreadable   the page sent something that its own script never sends
├── HitNotAccepted        the worker only previews the HIT, or the marketplace named no assignment
├── AcceptanceNotProven   the marketplace did not sign that this worker accepted the HIT
├── HitUnavailable        the HIT cannot be started now
│   └── TooManyPages      more pages of the HIT were opened than it can have
├── TooManyHits           the worker has as many HITs of the task open as it allows
├── HitReassigned         the marketplace gave the HIT to another worker
├── HitIncomplete         items of the HIT are not done yet
├── WorkerBlocked         the worker may not work on this task
├── NotInGroup            the round is for groups of workers that this one is not in
├── RoundTakesNoWork      the round was closed while the worker was busy
├── AlreadySubmitted      the HIT or the example was submitted before
├── InvalidInput          a field is empty, invalid or unknown
│   └── TextTooLong       a text is longer than its field allows
├── NoAttemptsLeft        every attempt on this example is used
├── MoreAttemptsNeeded    the task asks for more attempts first
├── NotAskedYet           the target has not been asked about exactly this text
├── DuplicateText         the worker has submitted the same text before
├── EarnsNoBonus          the text repeats a known one; the worker may submit it anyway
├── WrittenElsewhere      the worker has written on this context on another page
└── TooManyReports        enough was reported about this HIT
"""

from common.errors import Hint
from common.messages import gettext
from round_manager.errors import CrowdWorkError

RETURN_HIT = Hint("return_hit")
RELOAD_PAGE = Hint("reload_page")
REOPEN_HIT = Hint("reopen_hit")
SKIP_ITEM = Hint("skip_item")
SUBMIT_HIT = Hint("submit_hit")
FINISH_HIT = Hint("finish_other_hit")


class WorkRefused(CrowdWorkError):
    """A request of a worker's page is refused; the message is for the worker."""


class TimeIsOver(WorkRefused):
    """The HIT's time is over; nothing more is accepted, and nothing that was stored is lost."""


class NothingToDo(WorkRefused):
    """There is nothing for this worker now; the HIT should be returned."""


class OtherText(WorkRefused):
    """The page shows a text or a target that its example no longer has; it must be reloaded."""


class PageUnknown(WorkRefused):
    """The page, the HIT or the item is unknown, or of another kind."""


class PageInOtherBrowser(WorkRefused):
    """The page belongs to another browser, which opened it first."""

    def __init__(self) -> None:
        text = gettext("this HIT is open in another browser; continue there, or open the HIT again on the marketplace")
        super().__init__(text, hint=REOPEN_HIT)


class PageInputUnreadable(WorkRefused):
    """The page sent something that its own script never sends."""

    def __init__(self) -> None:
        super().__init__(gettext("the page sent something that cannot be read; load it again"), hint=RELOAD_PAGE)


class HitNotAccepted(WorkRefused):
    """The worker only previews the HIT, or the marketplace named no assignment."""


class AcceptanceNotProven(WorkRefused):
    """The marketplace proves who accepted a HIT, and did not prove it for this page."""

    def __init__(self) -> None:
        text = gettext("the marketplace did not confirm that you accepted this HIT; open the HIT there and accept it")
        super().__init__(text, hint=REOPEN_HIT)


class HitUnavailable(WorkRefused):
    """The HIT cannot be started now."""


class TooManyPages(HitUnavailable):
    """More pages of the HIT were opened than it can have, and the marketplace proves none of them."""

    def __init__(self) -> None:
        text = gettext("too many pages of this HIT were opened; return it, please, and take another one")
        super().__init__(text, hint=RETURN_HIT)


class TooManyHits(WorkRefused):
    """The worker has as many HITs of the task open as it allows; one of them must be finished first."""

    retry = True


class HitReassigned(WorkRefused):
    """The marketplace gave the HIT to another worker."""

    def __init__(self) -> None:
        super().__init__(gettext("the marketplace gave this HIT to somebody else; take another one"))


class HitIncomplete(WorkRefused):
    """Items of the HIT are not done yet."""


class WorkerBlocked(WorkRefused):
    """The worker may not work on this task."""


class NotInGroup(WorkRefused):
    """The round is for groups of workers that this one is not in."""

    def __init__(self) -> None:
        super().__init__("this work is for another group; return the HIT, please", hint=RETURN_HIT)


class RoundTakesNoWork(WorkRefused):
    """The round was closed while the worker was busy."""


class AlreadySubmitted(WorkRefused):
    """The HIT or the example was submitted before."""


class InvalidInput(WorkRefused):
    """A field is empty, invalid or unknown."""


class TextTooLong(InvalidInput):
    """A text is longer than its field allows."""


class NoAttemptsLeft(WorkRefused):
    """Every attempt on this example is used."""


class MoreAttemptsNeeded(WorkRefused):
    """The task asks for more attempts first."""


class NotAskedYet(WorkRefused):
    """The target has not been asked about exactly this text."""


class DuplicateText(WorkRefused):
    """The worker has submitted the same text before."""


class EarnsNoBonus(WorkRefused):
    """The text repeats a known one; the worker may submit it anyway."""


class WrittenElsewhere(WorkRefused):
    """The worker has written on this context on another page."""


class TooManyReports(WorkRefused):
    """Enough was reported about this HIT."""
