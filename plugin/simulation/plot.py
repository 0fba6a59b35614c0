"""The plot of a simulation: how often the model was fooled, and how right each model is, round after round."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.text import count
from plugin.simulation.results import Results
from round_manager.rates import Rate

SIZE = (11.0, 5.0)
DOTS_PER_INCH = 130
# Of the room for one round or one set of rows, the bars take so much.
BARS = 0.8
TOP = 108
FOOLED_COLOURS = ("#b9cde0", "#6f9cc6")
# From the oldest model to the newest.
OLDEST, NEWEST = (0.85, 0.80, 0.72), (0.80, 0.33, 0.10)
GREY = "#444444"


def draw(results: Results, file: Path) -> None:
    """A PNG with both, and with the 95 % intervals; drawn without a screen."""
    figure = Figure(figsize=SIZE, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    title = f"{results.task}: {count(len(results.rounds), 'round')} with a simulated crowd, 95 % intervals"
    figure.suptitle(title, fontweight="bold")
    counts = [one.metrics.counts for one in results.rounds]
    fooled = {"MER: fooled": [one.mer for one in counts], "vMER: fooled, and verified": [one.vmer for one in counts]}
    _bars(left, fooled, FOOLED_COLOURS)
    names = [f"round {one.number}\n{one.metrics.counts.collected:,} collected" for one in results.rounds]
    _dress(left, "How often the model was fooled", "% of what was collected", names)
    versions = results.versions
    models = {
        results.story(version): [results.accuracy(version, dataset) for dataset in results.datasets]
        for version in versions
    }
    _bars(right, models, _shades(len(versions)))
    rows = [results.accuracy(versions[0], dataset).of for dataset in results.datasets] if versions else []
    names = [f"{dataset}\n{count(of, 'row')}" for dataset, of in zip(results.datasets, rows, strict=True)]
    _dress(right, "How right each model is", "% of rows that no model learned from", names)
    figure.savefig(file, dpi=DOTS_PER_INCH)


def _bars(axes: Axes, groups: dict[str, list[Rate]], colours: Sequence[str | tuple[float, float, float]]) -> None:
    """For each name one bar in each group, with its interval and its figure."""
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


def _shades(number: int) -> list[tuple[float, float, float]]:
    """So many colours, the later the stronger."""
    steps = [at / max(1, number - 1) for at in range(number)]
    return [_mixed(step) for step in steps]


def _mixed(share: float) -> tuple[float, float, float]:
    red, green, blue = (old + (new - old) * share for old, new in zip(OLDEST, NEWEST, strict=True))
    return red, green, blue


def _dress(axes: Axes, title: str, unit: str, names: Sequence[str]) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.set_ylim(0, TOP)
    axes.set_yticks(range(0, 101, 20))
    axes.set_xticks(range(len(names)), list(names))
    axes.set_axisbelow(True)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=1, frameon=False, fontsize=9)
