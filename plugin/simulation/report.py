"""The report of a simulation: report.json for programs, report.md for people, and a plot in report.png."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.text import count, dollars
from plugin.simulation.results import Results, RoundResult
from round_manager.rates import Rate

CROWD = "simulated crowd"
WARNING = (
    "All work in these rounds was done by a simulated crowd: programs that fill in sentence patterns written for "
    "Outfox, and simulated validators that know what the patterns mean, with an error rate. The software around them "
    "is the real one. The figures show that it works; they say nothing about people, or about how well models do with "
    "them. Wages are based on the time that a person is assumed to need; the programs need none."
)
ROUNDS_NOTE = (
    "MER (model error rate): share of collected examples that fooled the model; vMER: share that fooled it and was "
    "verified by validators; 95 % intervals in brackets. Costs include the marketplace's fees; no real money is "
    "involved. The wage is a median, based on assumed times."
)
ACCURACY = "Accuracy on rows that no model was trained on"
ACCURACY_NOTE = (
    "Most examples of a round are there because they fooled its target, so by construction that model is nearly always "
    "wrong about them."
)
JSON_FILE = "report.json"
TEXT_FILE = "report.md"
PLOT_FILE = "report.png"
SIZE = (11.0, 5.0)
DOTS_PER_INCH = 130
# The share of a group's width that its bars take.
BARS = 0.8
TOP = 108
FOOLED_COLOURS = ("#b9cde0", "#6f9cc6")
# From the oldest model to the newest.
OLDEST, NEWEST = (0.85, 0.80, 0.72), (0.80, 0.33, 0.10)
GREY = "#444444"


@dataclass(frozen=True)
class ReportTable:
    """A table of the report, as text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return the table in Markdown."""
        head, *rows = (f"| {' | '.join(row)} |" for row in (self.columns, *self.rows))
        return "\n".join([head, f"|{'---|' * len(self.columns)}", *rows])


def title_of(results: Results) -> str:
    """Return the title: the task, the rounds and the crowd."""
    return f"{results.task}: {count(len(results.rounds), 'round')} with a {CROWD}"


def write_report(results: Results, folder: Path) -> list[Path]:
    """Write the three files to the folder, replacing an earlier report; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / name for name in (JSON_FILE, TEXT_FILE, PLOT_FILE)]
    files[0].write_text(json.dumps(report_json(results), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    files[1].write_text(report_text(results), encoding="utf-8")
    _draw(results, files[2])
    return files


def report_json(results: Results) -> dict[str, Any]:
    """Return the report as JSON-compatible data."""
    return {
        "crowd": CROWD,
        "warning": WARNING,
        "task": results.task,
        "rounds": [_round(one) for one in results.rounds],
        "accuracy": [
            {"version": one.version, "dataset": one.dataset, **one.right.as_data()} for one in results.accuracies
        ],
    }


def report_text(results: Results) -> str:
    """Return the report in Markdown."""
    blocks = [
        f"# {title_of(results)}",
        WARNING,
        "## Rounds",
        rounds_table(results).markdown(),
        ROUNDS_NOTE,
        f"## {ACCURACY}",
        accuracy_table(results).markdown(),
        ACCURACY_NOTE,
        "## Training after each round",
        "\n".join(f"- after round {one.number}: {one.training}" for one in results.rounds),
        f"![The same figures as a plot]({PLOT_FILE})\n",
    ]
    return "\n\n".join(blocks)


def rounds_table(results: Results) -> ReportTable:
    """Return the table of rounds."""
    columns = (
        "round",
        "collected",
        "fooled",
        "MER",
        "vMER",
        "attempts per fool",
        "cost",
        "per verified",
        "wage per hour",
    )
    return ReportTable(columns, [_round_row(one) for one in results.rounds])


def accuracy_table(results: Results) -> ReportTable:
    """Return the table of models, oldest first, with a column for each set of rows."""
    rows = [
        [results.description(version), *(_figure(results.accuracy(version, dataset)) for dataset in results.datasets)]
        for version in results.versions
    ]
    sizes = [results.accuracy(version, dataset).of for version in results.versions[:1] for dataset in results.datasets]
    heads = [f"{dataset} ({count(of, 'row')})" for dataset, of in zip(results.datasets, sizes, strict=True)]
    return ReportTable(("model", *heads), rows)


def _round_row(one: RoundResult) -> list[str]:
    counts = one.metrics.counts
    tries, each = counts.tries_per_fool, counts.cents_per_verified
    return [
        str(one.number),
        str(counts.collected),
        str(counts.fooled),
        _figure(counts.mer),
        _figure(counts.vmer),
        "" if tries is None else f"{tries:.1f}",
        dollars(counts.cost.cents),
        "" if each is None else dollars(each),
        "" if one.hourly_cents is None else dollars(one.hourly_cents),
    ]


def _round(one: RoundResult) -> dict[str, Any]:
    metrics, counts = one.metrics, one.metrics.counts
    return {
        "round": one.number,
        "versions": list(one.versions),
        "collected": counts.collected,
        "fooled": counts.fooled,
        "verified_fooling": counts.verified_fooling,
        "mer": counts.mer.as_data(),
        "vmer": counts.vmer.as_data(),
        "tries_per_fool": counts.tries_per_fool,
        "votes": metrics.votes,
        "alpha": metrics.alpha,
        "cost_cents": counts.cost.cents,
        "workers_cents": one.workers_cents,
        "cents_per_verified": counts.cents_per_verified,
        "assumed_hourly_cents": one.hourly_cents,
        "training": one.training,
    }


def _figure(rate: Rate) -> str:
    return "" if rate.share is None else f"{rate.share:.1%} ({100 * rate.low:.0f} to {100 * rate.high:.0f})"


def _draw(results: Results, file: Path) -> None:
    """Draw both tables with their 95 % intervals as a PNG."""
    figure = Figure(figsize=SIZE, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    title = f"{results.task}: {count(len(results.rounds), 'round')} with a simulated crowd, 95 % intervals"
    figure.suptitle(title, fontweight="bold")
    counts = [one.metrics.counts for one in results.rounds]
    fooled = {"MER: fooled": [one.mer for one in counts], "vMER: fooled, and verified": [one.vmer for one in counts]}
    _bars(left, fooled, FOOLED_COLOURS)
    names = [f"round {one.number}\n{one.metrics.counts.collected:,} collected" for one in results.rounds]
    _label(left, "How often the model was fooled", "% of collected examples", names)
    versions = results.versions
    models = {
        results.description(version): [results.accuracy(version, dataset) for dataset in results.datasets]
        for version in versions
    }
    _bars(right, models, _shades(len(versions)))
    rows = [results.accuracy(versions[0], dataset).of for dataset in results.datasets] if versions else []
    names = [f"{dataset}\n{count(of, 'row')}" for dataset, of in zip(results.datasets, rows, strict=True)]
    _label(right, "Accuracy of each model", "% of rows that no model was trained on", names)
    figure.savefig(file, dpi=DOTS_PER_INCH)


def _bars(axes: Axes, groups: dict[str, list[Rate]], colours: Sequence[str | tuple[float, ...]]) -> None:
    """Draw one bar per name in each group, with its interval and its value."""
    wide = BARS / max(1, len(groups))
    for at, (name, rates) in enumerate(groups.items()):
        places = [group + wide * (at - (len(groups) - 1) / 2) for group in range(len(rates))]
        shares = [100 * (rate.share or 0.0) for rate in rates]
        below = [max(0.0, share - 100 * rate.low) for share, rate in zip(shares, rates, strict=True)]
        above = [max(0.0, 100 * rate.high - share) for share, rate in zip(shares, rates, strict=True)]
        axes.bar(places, shares, wide * 0.94, color=colours[at], label=name)
        axes.errorbar(places, shares, yerr=[below, above], fmt="none", ecolor=GREY, elinewidth=1, capsize=3)
        for place, share, up in zip(places, shares, above, strict=True):
            axes.annotate(f"{share:.0f}", (place, share + up), (0, 3), textcoords="offset points", ha="center", size=8)


def _shades(number: int) -> list[tuple[float, ...]]:
    """Return this many colours, from light to strong."""
    steps = [at / max(1, number - 1) for at in range(number)]
    return [tuple(old + (new - old) * step for old, new in zip(OLDEST, NEWEST, strict=True)) for step in steps]


def _label(axes: Axes, title: str, unit: str, names: Sequence[str]) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.set_ylim(0, TOP)
    axes.set_yticks(range(0, 101, 20))
    axes.set_xticks(range(len(names)), list(names))
    axes.set_axisbelow(True)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=1, frameon=False, fontsize=9)
