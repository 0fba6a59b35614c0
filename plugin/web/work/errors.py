"""What a worker's page is told when something cannot be: a sentence, what kind of trouble it is, and whether to retry.

PluginError
├── PageGone     the token or the link is none of ours
├── SlowDown     more calls than a person makes
└── BadCall      the page sent what it never should
"""

from dataclasses import dataclass

from common.text import sentence
from plugin.backend_client import BackendUnavailable
from plugin.errors import PluginError
from round_manager.errors import NothingToDo, OtherText, RoundManagerError, StaleVerdict, TimeIsOver, WorkRefused
from round_manager.labelstudio.errors import UnreadableAnnotation
from templates.errors import TemplateError

SECONDS_UNTIL_RETRY = 2
AWAY = "we cannot store anything at the moment; what you wrote stays on the page, and we try again"
MODEL_AWAY = "the model does not answer at the moment; no try was used, your text is kept, and we ask again ourselves"
FAILED = "something failed on our side; what was stored before is safe, and you can try again"


class PageGone(PluginError):
    """A token or a link that is none of ours."""

    code = "page_gone"


class SlowDown(PluginError):
    """More calls in a short time than a person makes."""

    code = "slow_down"
    retry = True


class BadCall(PluginError):
    """A call that the page's own script never makes."""

    code = "bad_call"


@dataclass(frozen=True)
class Trouble:
    """An error as the page hears of it."""

    status: int
    kind: str
    text: str
    retry: bool
    give_back: bool = False


def trouble_of(error: Exception) -> Trouble:
    """What the worker is told; only sentences that were written for workers get through."""
    match error:
        case TimeIsOver():
            return Trouble(410, "over", sentence(str(error)), retry=False)
        case OtherText():
            return Trouble(409, "changed", sentence(str(error)), retry=False)
        case WorkRefused() | UnreadableAnnotation():
            is_for_others = isinstance(error, NothingToDo)
            return Trouble(409, "refused", sentence(str(error)), retry=False, give_back=is_for_others)
        case PageGone():
            return Trouble(401, "gone", sentence(str(error)), retry=False)
        case SlowDown():
            return Trouble(429, "slow_down", sentence(str(error)), retry=True)
        case BadCall():
            return Trouble(400, "refused", sentence(str(error)), retry=False)
        case BackendUnavailable() | StaleVerdict():
            return Trouble(503, "away", sentence(MODEL_AWAY), retry=True)
        case RoundManagerError():
            return Trouble(503, "away", sentence(AWAY), retry=True)
        case PluginError() | TemplateError():
            # The editor is not installed, or the pack is gone: the owner's to mend.
            return Trouble(503, "away", sentence(FAILED), retry=True)
    return Trouble(500, "away", sentence(FAILED), retry=True)
