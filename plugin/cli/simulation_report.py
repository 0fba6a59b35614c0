"""The report of a simulation, as a terminal shows it."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group

from plugin.cli.output import table
from plugin.simulation.report import (
    ACCURACY,
    ACCURACY_NOTE,
    ROUNDS_NOTE,
    WARNING,
    accuracy_table,
    rounds_table,
    title_of,
)
from plugin.simulation.results import Results


def shown_report(results: Results, files: Sequence[Path]) -> Group:
    """Both tables, what they mean and what they are worth, as wide as the terminal."""
    rounds, accuracy = rounds_table(results), accuracy_table(results)
    return Group(
        "",
        title_of(results),
        "",
        table(rounds.columns, rounds.rows),
        "",
        ROUNDS_NOTE,
        "",
        ACCURACY,
        "",
        table(accuracy.columns, accuracy.rows),
        "",
        ACCURACY_NOTE,
        "",
        WARNING,
        "",
        "The report, with a plot, is in:",
        *(f"  {file}" for file in files),
    )
