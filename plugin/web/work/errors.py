"""Errors as a worker's page gets them: a sentence, the kind of screen it needs, and whether to retry.

PluginError
├── PageGone     the token or the link is not one of ours
└── SlowDown     more calls than a person makes
"""

from dataclasses import dataclass

from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from common.errors import CodedError
from common.messages import as_sentence, gettext
from plugin.backend_client import BackendUnavailable, BackendVerdictRejected, JudgementRefused
from plugin.errors import PluginError
from plugin.web.middleware import INTERNAL_ERROR, ApiError
from round_manager.errors import RoundManagerError, StaleVerdict
from round_manager.work.errors import (
    RETURN_HIT,
    AcceptanceNotProven,
    OtherText,
    PageInputUnreadable,
    TextTooLong,
    TimeIsOver,
    TooManyHits,
    WorkRefused,
)

UNFORESEEN = 500
AWAY = gettext("we cannot store anything at the moment; what you wrote stays on the page, and we try again")
MODEL_AWAY = gettext(
    "the model does not answer at the moment; no attempt was used, your text is kept, and we ask again ourselves"
)
FAILED = gettext("something failed on our side; what was stored before is safe, and you can try again")
UNKNOWN = gettext("there is nothing at this address; open the HIT again on the marketplace")
TOO_LONG = gettext("this is too long to be sent; shorten your text")
RETURN_TITLE = gettext("Return this HIT, please")
TITLES = {
    "over": gettext("The time is over"),
    "refused": gettext("This HIT cannot be opened"),
    "changed": gettext("This HIT cannot be opened"),
    "busy": gettext("Finish your other HITs first"),
    "gone": gettext("This link does not work"),
    "slow_down": gettext("One moment, please"),
    "away": gettext("We cannot be reached just now"),
}


class PageGone(PluginError):
    """The token or the link is not one of ours."""


class SlowDown(PluginError):
    """More calls in a short time than a person makes."""

    retry = True


@dataclass(frozen=True)
class PageError(ApiError):
    """An error for a worker's page; `kind` decides which screen shows it."""

    kind: str = "refused"

    @property
    def should_return(self) -> bool:
        """Whether the worker should return the HIT, so that others can have it."""
        return self.hint == RETURN_HIT

    @property
    def title(self) -> str:
        """The heading of a page that shows only this error."""
        return RETURN_TITLE if self.should_return else TITLES[self.kind]

    def as_data(self) -> dict[str, object]:
        """Return the JSON that the page's script gets."""
        return {**super().as_data(), "kind": self.kind}


# The first class that fits decides; their messages were written for workers.
FOR_WORKERS: tuple[tuple[type[CodedError], int, str], ...] = (
    (TimeIsOver, 410, "over"),
    (OtherText, 409, "changed"),
    (TooManyHits, 409, "busy"),
    (PageInputUnreadable, 400, "refused"),
    (AcceptanceNotProven, 403, "refused"),
    (WorkRefused, 409, "refused"),
    (PageGone, 401, "gone"),
    (SlowDown, 429, "slow_down"),
)


def page_error(error: Exception) -> PageError:
    """Return what the worker reads; only messages that were written for workers are passed on."""
    if isinstance(error, CodedError):
        for kind_of_error, status, kind in FOR_WORKERS:
            if isinstance(error, kind_of_error):
                return PageError(status, as_sentence(error.message), error.code, error.retry, error.hint, kind)
        return PageError(503, as_sentence(_away_text(error)), error.code, retry=True, kind="away")
    if isinstance(error, RequestEntityTooLarge):
        return PageError(413, as_sentence(TOO_LONG), TextTooLong.code)
    if isinstance(error, HTTPException):
        found = ApiError.of_http(error)
        is_ours = found.status >= UNFORESEEN
        kind = "away" if is_ours else "refused"
        return PageError(
            found.status, as_sentence(FAILED if is_ours else UNKNOWN), found.code, retry=is_ours, kind=kind
        )
    return PageError(UNFORESEEN, as_sentence(FAILED), INTERNAL_ERROR, retry=True, kind="away")


def _away_text(error: CodedError) -> str:
    if isinstance(error, BackendUnavailable | JudgementRefused | BackendVerdictRejected | StaleVerdict):
        return MODEL_AWAY
    # Otherwise the editor is not installed or the pack is missing, which the owner has to correct.
    return AWAY if isinstance(error, RoundManagerError) else FAILED
