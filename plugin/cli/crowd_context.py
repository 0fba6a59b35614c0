"""The context where the commands of `outfox crowd` work: the books, the marketplace, and who asks."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType

from common.money import parse_dollars
from plugin.cli.output import console, wants_json
from plugin.errors import PluginError
from plugin.operator import operator_name
from plugin.settings import Settings

if TYPE_CHECKING:
    from common.clock import Clock
    from crowd.port import Crowd
    from plugin.crowd import ConnectedCrowd
    from round_manager.crowd.payments import PaymentResult
    from round_manager.database.store import Store

NOT_RIGHT, WRONG, AGAIN = 1, 2, 3

DRY_RUN = click.option("--dry-run", is_flag=True, help="Only tell what would happen; nothing changes anywhere.")
KIND = click.option("--kind", type=click.Choice(["create", "validate", "quiz"]), help="What the HITs ask for.")
YES = click.option("--yes", is_flag=True, help="Do not ask first; needed where nobody can answer.")


class DollarsType(click.ParamType[int]):
    """Dollars and whole cents, as cents."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The cents; more than nothing."""
        try:
            cents = value if isinstance(value, int) else parse_dollars(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if cents < 1:
            self.fail(f"{value} is no amount to pay; give at least 0.01", param, ctx)
        return cents


DOLLARS = DollarsType()


@dataclass(frozen=True)
class CrowdContext:
    """One store, one marketplace and the services between them."""

    store: "Store"
    services: "ConnectedCrowd"
    clock: "Clock"
    who: str

    @property
    def crowd(self) -> "Crowd":
        """The marketplace."""
        return self.services.crowd

    def account_cents(self) -> int:
        """What the account has; refused where it is not the account that our HITs were posted with."""
        from round_manager.crowd.calls import check_account

        cents = self.crowd.balance()
        check_account(self.store, self.crowd, now=self.clock.now())
        return cents


@contextmanager
def open_crowd_context(settings: Settings) -> Iterator[CrowdContext]:
    """The context; the marketplace is asked nothing yet."""
    from common.clock import SystemClock
    from plugin.cli.crowd_retries import AnnouncedRetries
    from plugin.crowd import SECONDS_TO_WAIT, crowd_of, crowd_services
    from round_manager.database.store import open_store

    retries = AnnouncedRetries(budget=SECONDS_TO_WAIT, silent=not _may_announce())
    crowd, clock = crowd_of(settings, retries), SystemClock()
    with open_store(settings.database) as store:
        yield CrowdContext(store, crowd_services(settings, store, crowd, clock), clock, operator_name())


def ask(question: str, *, yes: bool) -> None:
    """Goes on only with a person's yes, given now or by --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise PluginError("nobody is here to say yes; add --yes, or --dry-run to see what would happen")
    click.confirm(question, abort=True, err=True)


def announce(text: RenderableType) -> None:
    """Tells something before it happens, on standard error, so that what is shown at the end stays one document."""
    if _may_announce():
        console(stderr=True).print(text)


def _may_announce() -> bool:
    return not wants_json() or sys.stdin.isatty()


def leave(*, problem: str = "", wrong: str = "") -> None:
    """Ends with exit code 3 where trying again helps, 2 where something was refused for good."""
    told = problem or wrong
    if not told:
        return
    as_json = json.dumps({"error": told, "problems": [told]}, ensure_ascii=False)
    click.echo(as_json if wants_json() else f"outfox: {told}", err=True)
    raise click.exceptions.Exit(AGAIN if problem else WRONG)


def leave_paid(paid: "PaymentResult", uncovered: int = 0) -> None:
    """Ends with the exit code that payments ask for; `uncovered` is work whose reward no budget covers."""
    wrong = [f"the marketplace refused {paid.refused}"] if paid.refused else []
    wrong += [f"{paid.held} held"] if paid.held else []
    told = [f"{' and '.join(wrong)}; `outfox crowd status` tells why"] if wrong else []
    raise_it = "`outfox round budget TASK DOLLARS` raises it"
    told += [f"the budget does not cover {uncovered} more, which nobody planned for; {raise_it}"] if uncovered else []
    leave(problem=paid.problem, wrong="; ".join(told))
