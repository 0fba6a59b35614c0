"""Why a worker's page is refused something. Every message is for the worker.

WorkRefused
├── TimeIsOver, NothingToDo, OtherText   (round_manager.errors)
├── PageUnknown           the page, the HIT or the item is unknown, or of another kind
├── PageInputUnreadable   the page sent something that its own script never sends
├── HitNotAccepted        the worker only previews the HIT, or the marketplace named no assignment
├── HitUnavailable        the HIT cannot be started now
├── HitReassigned         the marketplace gave the HIT to another worker
├── HitIncomplete         items of the HIT are not done yet
├── WorkerBlocked         the worker may not work on this task
├── RoundTakesNoWork      the round was closed while the worker was busy
├── AlreadySubmitted      the HIT or the example was submitted before
├── InvalidInput          a field is empty, invalid or unknown
│   └── TextTooLong       a text is longer than its field allows
├── NoAttemptsLeft        every attempt on this example is used
├── MoreAttemptsNeeded    the task asks for more attempts first
├── NotAskedYet           the target has not been asked about exactly this text
├── DuplicateText         the worker has submitted the same text before
├── WrittenElsewhere      the worker has written on this context on another page
└── TooManyReports        enough was reported about this HIT
"""

from common.errors import Hint
from round_manager.errors import WorkRefused

RETURN_HIT = Hint("return_hit")
RELOAD_PAGE = Hint("reload_page")
REOPEN_HIT = Hint("reopen_hit")
SKIP_ITEM = Hint("skip_item")
SUBMIT_HIT = Hint("submit_hit")


class PageUnknown(WorkRefused):
    """The page, the HIT or the item is unknown, or of another kind."""

    code = "page_unknown"


class PageInputUnreadable(WorkRefused):
    """The page sent something that its own script never sends."""

    code = "page_input_unreadable"

    def __init__(self) -> None:
        super().__init__("the page sent something that cannot be read; load it again", hint=RELOAD_PAGE)


class HitNotAccepted(WorkRefused):
    """The worker only previews the HIT, or the marketplace named no assignment."""

    code = "hit_not_accepted"


class HitUnavailable(WorkRefused):
    """The HIT cannot be started now."""

    code = "hit_unavailable"


class HitReassigned(WorkRefused):
    """The marketplace gave the HIT to another worker."""

    code = "hit_reassigned"

    def __init__(self) -> None:
        super().__init__("the marketplace gave this HIT to somebody else; take another one")


class HitIncomplete(WorkRefused):
    """Items of the HIT are not done yet."""

    code = "hit_incomplete"


class WorkerBlocked(WorkRefused):
    """The worker may not work on this task."""

    code = "worker_blocked"


class RoundTakesNoWork(WorkRefused):
    """The round was closed while the worker was busy."""

    code = "round_takes_no_work"


class AlreadySubmitted(WorkRefused):
    """The HIT or the example was submitted before."""

    code = "already_submitted"


class InvalidInput(WorkRefused):
    """A field is empty, invalid or unknown."""

    code = "invalid_input"


class TextTooLong(InvalidInput):
    """A text is longer than its field allows."""

    code = "text_too_long"


class NoAttemptsLeft(WorkRefused):
    """Every attempt on this example is used."""

    code = "no_attempts_left"


class MoreAttemptsNeeded(WorkRefused):
    """The task asks for more attempts first."""

    code = "more_attempts_needed"


class NotAskedYet(WorkRefused):
    """The target has not been asked about exactly this text."""

    code = "not_asked_yet"


class DuplicateText(WorkRefused):
    """The worker has submitted the same text before."""

    code = "duplicate_text"


class WrittenElsewhere(WorkRefused):
    """The worker has written on this context on another page."""

    code = "written_elsewhere"


class TooManyReports(WorkRefused):
    """Enough was reported about this HIT."""

    code = "too_many_reports"
