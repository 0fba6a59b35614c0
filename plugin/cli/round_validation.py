"""`outfox round decide`, `flags` and `aggregate`: count votes, decide flagged examples, and settle disputed ones."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click
from rich.console import Group, RenderableType

from common.errors import Hint
from common.text import count
from plugin.cli.output import data_command, limited_table, show
from plugin.cli.parameters import WHY, round_option
from plugin.hints import command_for, with_command
from plugin.wiring import Application

if TYPE_CHECKING:
    from round_manager.validation.flags import Flagged, FlaggedGold, FlagVote

ROUND = round_option("the newest opened round")


@click.command()
@click.argument("task")
@ROUND
@data_command
def flags(app: Application, task: str, number: int | None) -> None:
    """List examples that validators flagged, with their reasons and votes; they wait for your decision.

    An example that was flagged after it was decided stays decided unless you withdraw it.

    Example: outfox round decide sentiment EXAMPLE --withdraw --why "names a real person"
    """
    from round_manager.services.validation import list_flags

    with app.services() as services:
        found = list_flags(services, task, number=number)
    data = {
        "round": found.number,
        "flagged": [_flagged_data(one) for one in found.examples],
        "gold": [asdict(one) for one in found.gold],
    }
    parts = [
        *(_flagged_table(task, found.examples) if found.examples else ()),
        *(_gold_table(task, found.gold) if found.gold else ()),
    ]
    show(data, Group(*parts) if parts else f"round {found.number} of {task} has no open flags")


@click.command()
@click.argument("task")
@click.argument("example", type=click.UUID, required=False)
@click.option("--keep", "wish", flag_value="keep", help="Dismiss the flags on EXAMPLE: its votes decide.")
@click.option("--withdraw", "wish", flag_value="withdraw", help="Do not use EXAMPLE, whatever its votes.")
@ROUND
@WHY
@data_command
def decide(app: Application, task: str, example: UUID | None, wish: str | None, number: int | None, why: str) -> None:
    """Decide a flagged EXAMPLE, by its id in `outfox round flags`; without one, count the new votes of all examples.

    Authors of verified fooling examples are owed a bonus, which `outfox crowd pay` sends. Safe to repeat.
    """
    if (example is None) != (wish is None):
        raise click.UsageError("give an EXAMPLE together with --keep or --withdraw, or neither")
    if example is not None and not why.strip():
        raise click.UsageError("--why is required; it goes into the audit log")
    if example is None or wish is None:
        _count_votes(app, task, number)
    else:
        _decide_one(app, task, example, wish, why)


@click.command()
@click.argument("task")
@ROUND
@click.option("--least", type=click.FloatRange(0.5, 1), default=0.9, help="The lowest probability to accept.")
@click.option("--settle", "settling", is_flag=True, help="Give its labels to disputed examples.")
@WHY
@data_command
def aggregate(app: Application, task: str, number: int | None, least: float, settling: bool, why: str) -> None:
    """Compare the policy's gold labels with those of the Dawid-Skene model, which weighs validators by all their votes.

    With --settle, disputed examples without a gold label get the model's label; they are verified if it is the
    author's.
    """
    from round_manager.services.validation import compare_labels, settle_examples

    if settling and not why.strip():
        raise click.UsageError("--why is required; it goes into the audit log")
    with app.services() as services:
        if settling:
            done = settle_examples(services, app.actor, task, number=number, min_probability=least, reason=why)
        else:
            done = compare_labels(services, task, number=number, min_probability=least)
    found, settled = done.comparison, done.settlement
    data = {"task": task, "round": done.number, **asdict(found), "settled": asdict(settled) if settled else None}
    text = (
        f"round {done.number}: {count(found.examples, 'example')} with votes; Dawid-Skene and the policy agree on the"
    )
    text += f" gold label of {found.same:,} and differ on {found.differing:,}"
    rest = f"{count(found.could_settle, 'disputed example has', 'disputed examples have')} a label of probability"
    rest += f" {least:g} or more"
    if settled:
        rest = f"{settled.verified:,} now verified, and {settled.disputed:,} disputed with a gold label"
        rest += _uncovered(task, settled.uncovered)
    show(data, f"{text}; {rest}")


def _count_votes(app: Application, task: str, number: int | None) -> None:
    from round_manager.services.validation import count_votes

    with app.services() as services:
        done = count_votes(services, task, number=number)
    found, open_flags = done.decisions, done.flagged + done.flagged_late
    text = (
        f"round {done.number} of {task}: {found.verified:,} verified, {found.disputed:,} disputed,"
        f" {count(found.want_more, 'needs', 'need')} more votes; {count(found.bonuses, 'bonus', 'bonuses')} newly owed"
    )
    text += _uncovered(task, found.uncovered)
    if open_flags:
        owner = f"{text}; {count(open_flags, 'flagged example waits', 'flagged examples wait')} for your decision"
        text = with_command(owner, Hint("list_flags", task=task))
    flagged = {"flagged": done.flagged, "flagged_late": done.flagged_late}
    show({"task": task, "round": done.number, **asdict(found), **flagged}, text)


def _uncovered(task: str, bonuses: int) -> str:
    if not bonuses:
        return ""
    text = f"; the budget does not cover {count(bonuses, 'bonus', 'bonuses')}"
    return with_command(text, Hint("set_round_budget", task=task))


def _decide_one(app: Application, task: str, example: UUID, wish: str, why: str) -> None:
    from round_manager.services.validation import keep_example, withdraw_example

    decide_example = keep_example if wish == "keep" else withdraw_example
    with app.services() as services:
        done = decide_example(services, app.actor, task, example, reason=why)
    status = done.status.value
    show({"task": task, "example": str(example), "status": status}, f"example {example} is {status}")


def _flagged_table(task: str, found: "Sequence[Flagged]") -> list[RenderableType]:
    columns = ("example", "is", "text", "author's label", "votes", "flags")
    rows = [[one.example, f"{one.status.value}, round {one.round}", *_flagged_row(one)] for one in found]
    how = f"decide one with `outfox round decide {task} EXAMPLE --keep` or `--withdraw`, and --why"
    if not all(one.waits for one in found):
        how += (
            "; verified and disputed examples keep their status unless you withdraw them, and --keep removes the flag"
        )
    return [limited_table(columns, rows), how]


def _gold_table(task: str, gold: "Sequence[FlaggedGold]") -> list[RenderableType]:
    columns = ("row of the gold file", "text", "is", "flags")
    rows = [
        [one.row, " / ".join(map(str, one.fields.values())), one.target, "; ".join(map(_reason, one.flags))]
        for one in gold
    ]
    how = "these are gold items with a known answer; correct or remove the row in your file, then upload it with"
    upload = command_for(Hint("upload_gold", task=task))
    return [limited_table(columns, rows), f"{how} `{upload} --replace`"]


def _flagged_data(one: "Flagged") -> dict[str, Any]:
    return {**asdict(one), "example": str(one.example), "submitted_at": one.submitted_at.isoformat()}


def _flagged_row(one: "Flagged") -> list[str]:
    said = [vote.label or vote.answer or "" for vote in one.votes if vote.flag is None]
    counted = ", ".join(f"{said.count(label)} {label}" for label in dict.fromkeys(said))
    reasons = "; ".join(_reason(vote) for vote in one.votes if vote.flag is not None)
    return [" / ".join(one.fields.values()), one.target, counted or "none", reasons]


def _reason(vote: "FlagVote") -> str:
    return f"{vote.flag} ({vote.comment})" if vote.comment else str(vote.flag)
