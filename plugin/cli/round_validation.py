"""`outfox round decide`, `flags` and `aggregate`: what people's votes make of examples, and what the owner says."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
from rich.console import Group, RenderableType

from common.text import count
from plugin.cli.crowd_texts import MOST_SHOWN, more_than
from plugin.cli.output import json_option, show, table
from plugin.cli.parameters import WHOLE_NUMBER
from plugin.operator import operator_name
from plugin.settings import Settings
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.database.store import Store
    from round_manager.models import Round
    from round_manager.validation.flags import Flagged, FlaggedGold, FlagVote

ROUND = click.option(
    "--round", "number", type=WHOLE_NUMBER, metavar="N", help="Which round. Default: the last that was opened."
)
WHY = click.option("--why", default="", metavar="TEXT", help="Why; it is kept with the decision.")


def begun_rounds(store: "Store", task: str, number: int | None) -> "list[Round]":
    """The task's rounds that were opened, or the one of that number; a draft has nothing to show yet."""
    from round_manager.errors import RoundError
    from round_manager.models import RoundStatus
    from round_manager.tasks.rounds import find_round, list_rounds
    from round_manager.tasks.tasks import find_task

    with store.read() as session:
        owner = find_task(session, task)
        found = [find_round(session, owner, number)] if number else list_rounds(session, owner)
    begun = [one for one in found if one.status is not RoundStatus.DRAFT]
    if not begun:
        which = f"round {number}" if number else "every round"
        raise RoundError(f"{which} of {task} is a draft; `outfox round open {task}` opens the next one")
    return begun


class ExampleType(click.ParamType[UUID]):
    """An example by its id."""

    name = "example"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> UUID:
        """The id, or where ids are shown."""
        try:
            return UUID(str(value))
        except ValueError:
            task = ctx.params.get("task", "TASK") if ctx else "TASK"
            cure = f"`outfox round flags {task}` shows those that wait for you"
            self.fail(f"'{value}' is no id of an example; {cure}", param, ctx)


EXAMPLE = ExampleType()


@click.command()
@click.argument("task")
@ROUND
@json_option
@click.pass_obj
def flags(app: Application, task: str, number: int | None) -> None:
    """List what validators flagged, with their reasons and votes: it waits for your decision.

    What was flagged when it was decided already stays decided until you withdraw it.

    Example: outfox round decide sentiment EXAMPLE --withdraw --why "names a real person"
    """
    settings = app.settings
    from round_manager.database.store import open_store
    from round_manager.validation.flags import flagged, flagged_gold

    with open_store(settings.database) as store:
        round = begun_rounds(store, task, number)[-1]
        with store.read() as session:
            found, gold = list(flagged(session, round)), flagged_gold(session, round)
    data = {
        "round": round.number,
        "flagged": [_flagged_data(one) for one in found],
        "gold": [asdict(one) for one in gold],
    }
    parts = [*(_flagged_table(task, found) if found else ()), *(_gold_table(task, gold) if gold else ())]
    show(data, Group(*parts) if parts else f"nothing in round {round.number} of {task} waits for you")


@click.command()
@click.argument("task")
@click.argument("example", type=EXAMPLE, required=False)
@click.option("--keep", "wish", flag_value="keep", help="Nothing is wrong with EXAMPLE: its votes decide.")
@click.option("--withdraw", "wish", flag_value="withdraw", help="EXAMPLE is not used, whatever people voted.")
@ROUND
@WHY
@json_option
@click.pass_obj
def decide(app: Application, task: str, example: UUID | None, wish: str | None, number: int | None, why: str) -> None:
    """Decide a flagged EXAMPLE; without one, let the votes decide all that they can.

    Verified fooling examples owe their authors the bonus; `outfox crowd pay` pays it. Safe to run again.
    """
    settings = app.settings
    if (example is None) != (wish is None):
        raise click.UsageError("name an EXAMPLE together with --keep or --withdraw, or give neither")
    if example is not None and not why.strip():
        raise click.UsageError("say --why; it is kept with the decision")
    if example is None or wish is None:
        _decide_by_votes(settings, task, number)
    else:
        _decide_one(settings, task, example, wish, why)


@click.command()
@click.argument("task")
@ROUND
@click.option(
    "--least", type=click.FloatRange(0.5, 1), default=0.9, show_default=True, help="How sure the model has to be."
)
@click.option("--settle", "settling", is_flag=True, help="Give its labels to examples that people did not agree on.")
@WHY
@json_option
@click.pass_obj
def aggregate(app: Application, task: str, number: int | None, least: float, settling: bool, why: str) -> None:
    """Hold the votes' gold labels against those of the Dawid-Skene model, which weighs validators by all their votes.

    With --settle, disputed examples without a gold label get the model's: verified where it is the author's.
    """
    settings = app.settings
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.validation import aggregation

    if settling and not why.strip():
        raise click.UsageError("say --why; it is kept with each decision")
    with open_store(settings.database) as store:
        round = begun_rounds(store, task, number)[-1]
        with store.read() as session:
            found = aggregation.compare(session, round, least=least)
        done = None
        if settling:
            terms: dict[str, Any] = {"who": operator_name(), "why": why, "now": SystemClock().now()}
            done = aggregation.settle(store, round, least=least, **terms)
    data = {"task": task, "round": round.number, **asdict(found), "settled": asdict(done) if done else None}
    told = f"round {round.number}: {count(found.examples, 'example')} with votes; Dawid-Skene gives {found.same:,} the"
    text = f"{told} same gold label as the votes' policy and {found.differing:,} another"
    has = "has" if found.could_settle == 1 else "have"
    could = f"{found.could_settle:,} that people did not agree on {has} a label of probability {least:g} or more"
    if done:
        verified = count(done.verified, "is", "are")
        could = f"{verified} verified by it now, and {done.disputed:,} disputed with a gold label"
        could += _uncovered(done.uncovered)
    show(data, f"{text}; {could}")


def _decide_by_votes(settings: Settings, task: str, number: int | None) -> None:
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.validation.decisions import decide_round
    from round_manager.validation.flags import count_flagged, count_late

    with open_store(settings.database) as store:
        round = begun_rounds(store, task, number)[-1]
        found = decide_round(store, round, now=SystemClock().now())
        with store.read() as session:
            waiting, late = count_flagged(session, round), count_late(session, round)
    text = (
        f"round {round.number} of {task}: {found.verified:,} verified, {found.disputed:,} disputed,"
        f" {count(found.want_more, 'wants', 'want')} more votes; {count(found.bonuses, 'bonus', 'bonuses')} newly owed"
    )
    owner = f"; {count(waiting + late, 'flagged example')} for you: `outfox round flags {task}`"
    data = {"task": task, "round": round.number, **asdict(found), "flagged": waiting, "flagged_late": late}
    show(data, text + _uncovered(found.uncovered) + (owner if waiting + late else ""))


def _uncovered(bonuses: int) -> str:
    if not bonuses:
        return ""
    return f"; the budget does not cover {count(bonuses, 'bonus', 'bonuses')}: `outfox round budget` raises it"


def _decide_one(settings: Settings, task: str, example: UUID, wish: str, why: str) -> None:
    from common.clock import SystemClock
    from round_manager.database.store import open_store
    from round_manager.tasks.tasks import find_task
    from round_manager.validation.flags import find_example, keep, withdraw

    with open_store(settings.database) as store, store.write() as session:
        found = find_example(session, find_task(session, task), example)
        become = keep if wish == "keep" else withdraw
        become(session, found, who=operator_name(), why=why, now=SystemClock().now())
        status = found.status.value
    show({"task": task, "example": str(example), "status": status}, f"example {example} is {status}")


def _flagged_table(task: str, found: "list[Flagged]") -> list[RenderableType]:
    columns = ("example", "is", "text", "author says", "votes", "flags")
    rows = [[one.example, f"{one.status.value}, round {one.round}", *_flagged_row(one)] for one in found[:MOST_SHOWN]]
    cure = f"`outfox round decide {task} EXAMPLE --keep` or `--withdraw`, with --why, decides one"
    if not all(one.waits for one in found):
        cure += "; what is verified or disputed stays so unless you withdraw it, and --keep takes it from this list"
    return [table(columns, rows), *filter(None, [more_than(found)]), cure]


def _gold_table(task: str, gold: "list[FlaggedGold]") -> list[RenderableType]:
    columns = ("row of the seed", "text", "is", "flags")
    rows = [
        [one.row, " / ".join(map(str, one.fields.values())), one.target, "; ".join(map(_reason, one.flags))]
        for one in gold[:MOST_SHOWN]
    ]
    cure = (
        f"these are shown with a known answer; mend or remove a row, and `outfox task create {task}` takes the change"
    )
    return [table(columns, rows), *filter(None, [more_than(gold)]), cure]


def _flagged_data(one: "Flagged") -> dict[str, Any]:
    return {**asdict(one), "example": str(one.example), "submitted_at": one.submitted_at.isoformat()}


def _flagged_row(one: "Flagged") -> list[str]:
    said = [vote.label or vote.answer or "" for vote in one.votes if vote.flag is None]
    counted = ", ".join(f"{said.count(label)} {label}" for label in dict.fromkeys(said))
    reasons = "; ".join(_reason(vote) for vote in one.votes if vote.flag is not None)
    return [" / ".join(one.fields.values()), one.target, counted or "none", reasons]


def _reason(vote: "FlagVote") -> str:
    return f"{vote.flag} ({vote.comment})" if vote.comment else str(vote.flag)
