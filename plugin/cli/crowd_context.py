"""What the commands of `outfox crowd` share: the connected crowd, questions, texts and exit codes."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

import click
from rich.console import RenderableType

from common.text import count, dollars
from crowd.errors import Answer, CrowdRefused, CrowdUnavailable, RetryPolicy
from plugin.cli.output import console, wants_json
from plugin.errors import PluginError
from plugin.wiring import SECONDS_TO_WAIT, Application

if TYPE_CHECKING:
    from round_manager.crowd.collection import CollectionResult
    from round_manager.crowd.payments import PaymentResult
    from round_manager.crowd.reviews import UndecidedWork
    from round_manager.models import HitKind
    from round_manager.services.context import Actor, ConnectedCrowd, ServiceContext

# If nothing listens, waiting helps only while the marketplace restarts.
SECONDS_WHERE_NOTHING_LISTENS = 5.0
# What to do about work that was submitted without its page being finished.
DECIDE = "pay it with `outfox crowd approve ASSIGNMENT…`, or reject it with `outfox crowd reject`"

KIND = click.option("--kind", type=click.Choice(["create", "validate", "quiz"]), help="What the HITs are for.")


class ConfirmationRequired(PluginError):
    """A command needs a confirmation, and there is no terminal to ask for it."""


@dataclass(frozen=True)
class CrowdContext:
    """The database, the connected crowd, and the user who runs the command."""

    services: "ServiceContext"
    crowd: "ConnectedCrowd"
    actor: "Actor"

    def account_cents(self) -> int:
        """Return the account's balance; raise WrongCrowdAccount if our HITs were posted by another account."""
        from round_manager.services.payments import account_cents

        return account_cents(self.services, self.crowd)


@contextmanager
def open_crowd_context(app: Application) -> Iterator[CrowdContext]:
    """Open the database and the crowd; nothing is sent to the marketplace yet."""
    crowd = app.crowd(AnnouncedRetries(budget=SECONDS_TO_WAIT, silent=not _may_announce()))
    with app.services() as services:
        yield CrowdContext(services, app.connected_crowd(services, crowd), app.actor)


def confirm(question: str, *, yes: bool) -> None:
    """Continue only if the user agrees, now or with --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        has_dry_run = any(one.name == "dry_run" for one in click.get_current_context().command.params)
        also = ", or --dry-run to see what would happen" if has_dry_run else ""
        raise ConfirmationRequired(f"not a terminal; pass --yes{also}")
    click.confirm(question, abort=True, err=True)


def announce(text: RenderableType) -> None:
    """Print something before it happens, on standard error, so that standard output stays one document."""
    if _may_announce():
        console(stderr=True).print(text)


def _may_announce() -> bool:
    return not wants_json() or sys.stdin.isatty()


def leave(*, problem: str = "", wrong: str = "") -> None:
    """End a command, whose result is printed, with an error: a retry can help, or something was refused."""
    if problem:
        raise CrowdUnavailable(problem)
    if wrong:
        raise CrowdRefused(wrong)


def leave_paid(paid: "PaymentResult", uncovered: int = 0) -> None:
    """Exit with the code for a payment's result; `uncovered` counts work that the budget does not cover."""
    wrong = [f"the marketplace refused {paid.refused}"] if paid.refused else []
    wrong += [f"{paid.held} held"] if paid.held else []
    texts = [f"{' and '.join(wrong)}; `outfox crowd status` shows why"] if wrong else []
    if uncovered:
        texts.append(f"the budget does not cover {uncovered} more; raise it with `outfox round budget TASK DOLLARS`")
    leave(problem=paid.problem, wrong="; ".join(texts))


@dataclass(frozen=True)
class AnnouncedRetries(RetryPolicy):
    """A RetryPolicy that announces the first unanswered attempt on standard error."""

    longest_pause: float = 2.0
    silent: bool = False
    _announced: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def run(self, call: Callable[[], Answer], may_repeat: Callable[[], bool] = lambda: True) -> Answer:
        """Return the call's answer; give up early if nothing listens."""
        began = self.clock()
        refused = False

        def attempt() -> Answer:
            nonlocal refused
            refused = False
            try:
                return call()
            except CrowdUnavailable as error:
                refused = _nothing_listens(error)
                self._announce(self._limit(refused) - (self.clock() - began))
                raise

        return super().run(attempt, lambda: self.clock() - began < self._limit(refused) and may_repeat())

    def _limit(self, refused: bool) -> float:
        return min(self.budget, SECONDS_WHERE_NOTHING_LISTENS) if refused else self.budget

    def _announce(self, seconds: float) -> None:
        # Many threads may fail at once: the first acquires the lock, and nothing releases it.
        if not self.silent and seconds > 0 and self._announced.acquire(blocking=False):
            text = f"the marketplace does not answer; retrying for {count(ceil(seconds), 'more second')}"
            print(text, file=sys.stderr, flush=True)


def _nothing_listens(error: BaseException) -> bool:
    return any(isinstance(one, ConnectionRefusedError) for one in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def asking(kind: "HitKind") -> str:
    """Return what HITs of a kind are for, as in `2 HITs to validate`."""
    from round_manager.crowd.hit_planning import WORDS

    return WORDS[kind]


def page_text(work: "UndecidedWork") -> str:
    """Return the state of the page of a piece of work."""
    return "not finished" if work.page_unfinished else ""


def unfinished_text(number: int) -> str:
    """Return `1 submitted without a finished page`."""
    return f"{number:,} submitted without a finished page"


def unknown_text(collected: "CollectionResult") -> str:
    """Return a note about HITs that the marketplace does not know."""
    if not collected.unknown:
        return ""
    return f"; the marketplace does not know {count(collected.unknown, 'HIT')}, see `outfox crowd status`"


def paid_text(paid: "PaymentResult") -> str:
    """Return how much was paid, and what was not."""
    if not (paid.rewards or paid.bonuses or paid.refused or paid.held or paid.in_doubt or paid.waiting):
        return "nothing was owed"
    parts = [
        f"paid {dollars(paid.cents)}: {count(paid.rewards, 'reward')} and {count(paid.bonuses, 'bonus', 'bonuses')}"
    ]
    parts += [f"{paid.refused} refused"] if paid.refused else []
    parts += [f"{paid.held} held, see `outfox crowd status`"] if paid.held else []
    parts += [f"{paid.in_doubt} in doubt, check with `outfox crowd reconcile`"] if paid.in_doubt else []
    parts += [f"{paid.waiting} still owed, continue with `outfox crowd pay`"] if paid.waiting else []
    return "; ".join(parts)
