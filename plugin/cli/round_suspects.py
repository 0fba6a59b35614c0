"""`outfox round suspects`: evidence about validators, for a person to judge."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count
from plugin.cli.output import data_command, limited_table, show
from plugin.cli.round_validation import ROUND
from plugin.wiring import Application

if TYPE_CHECKING:
    from collections.abc import Iterator

    from round_manager.validation.suspects import Suspects


@click.command()
@click.argument("task")
@ROUND
@data_command
def suspects(app: Application, task: str, number: int | None) -> None:
    """List validators who are right on gold only, pairs who judge each other too often, and pairs who share an address.

    The lists are evidence, not a verdict: nobody is blocked or paid less because of them. The first two are corrected
    for the number of people and pairs, and docs/validation.md explains each figure.

    Example: outfox round suspects sentiment --round 2 --json
    """
    from round_manager.services.validation import list_suspects

    with app.services() as services:
        found = list_suspects(services, task, number=number)
    show(_data(task, found), Group(*_texts(task, found)))


def _data(task: str, found: "Suspects") -> dict[str, Any]:
    return {
        "task": task,
        "round": found.number,
        "validators": found.validators,
        "compared_pairs": found.compared_pairs,
        "gold_only": [
            {**asdict(one), "gold": one.gold.as_data(), "agreed": one.agreed.as_data()} for one in found.gold_only
        ],
        "pairs": [{**asdict(one), "agreed": one.agreed.as_data()} for one in found.pairs],
        "sharing": [{**asdict(one), "agreed": one.agreed.as_data()} for one in found.sharing],
    }


def _texts(task: str, found: "Suspects") -> "Iterator[RenderableType]":
    people, pairs = count(found.validators, "validator"), count(found.compared_pairs, "pair")
    if found.gold_only:
        yield "right on gold, but not on other examples:"
        yield limited_table(
            ("validator", "right on gold", "agrees with decisions", "expected at least", "at most"),
            [
                [one.validator, str(one.gold), str(one.agreed), f"{one.expected:.1%}", f"{one.high:.1%}"]
                for one in found.gold_only
            ],
        )
    if found.pairs:
        yield "judge each other more often than chance:"
        yield limited_table(
            ("one", "other", "pages", "expected", "p", "agrees with the author", "shared addresses"),
            [
                [one.one, one.other, one.meetings, f"{one.expected:.1f}", f"{one.p_value:.1g}", str(one.agreed),
                 one.shared_addresses]
                for one in found.pairs
            ],
        )  # fmt: skip
    if found.sharing:
        yield "used the same addresses in the last 30 days, as people in one household or office do:"
        yield limited_table(
            ("one", "other", "shared addresses", "pages", "expected", "agrees with the author"),
            [
                [one.one, one.other, one.addresses, one.meetings, f"{one.expected:.1f}", str(one.agreed)]
                for one in found.sharing
            ],
        )
    if not found.gold_only and not found.pairs and not found.sharing:
        yield f"round {found.number} of {task}: nothing unusual among {people} and {pairs}"
    else:
        yield f"compared: {people}, {pairs}; look at their examples and votes before you decide anything"
