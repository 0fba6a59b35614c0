"""The plot of a simulation: how often the model was fooled, and how right each model is, round after round."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plugin.simulation.results import Results
from round_manager.rates import Rate

SIZE = (10.0, 4.5)
DOTS_PER_INCH = 120
GAP = 0.08
# Points at the very ends are seen whole.
LIMITS = (-3, 103)


def draw(results: Results, file: Path) -> None:
    """A PNG with both, and with the 95 % intervals; drawn without a screen."""
    figure = Figure(figsize=SIZE, layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(f"{results.task}, simulated crowd")
    numbers = [one.number for one in results.rounds]
    counts = [one.metrics.counts for one in results.rounds]
    _line(left, numbers, [one.mer for one in counts], "MER", -GAP / 2)
    _line(left, numbers, [one.vmer for one in counts], "vMER", GAP / 2)
    _dress(left, "Fooled, of all that was collected", numbers, [f"round {number}" for number in numbers])
    places = list(range(len(results.versions)))
    for at, dataset in enumerate(results.datasets):
        rates = [results.accuracy(version, dataset) for version in results.versions]
        _line(right, places, rates, f"on {dataset}", GAP * (at - (len(results.datasets) - 1) / 2))
    _dress(right, "Right on held-out rows", places, [_name(results, version) for version in results.versions])
    figure.savefig(file, dpi=DOTS_PER_INCH)


def _name(results: Results, version: str) -> str:
    """The version, and which rounds were played against it."""
    played = [str(one.number) for one in results.rounds if version in one.versions]
    told = f"answered in round {', '.join(played)}" if played else "the newest"
    return f"{version}\n{told}"


def _line(axes: Axes, places: Sequence[int], rates: Sequence[Rate], name: str, shift: float) -> None:
    shares = [100 * (rate.share or 0.0) for rate in rates]
    below = [share - 100 * rate.low for share, rate in zip(shares, rates, strict=True)]
    above = [100 * rate.high - share for share, rate in zip(shares, rates, strict=True)]
    errors = [[max(0.0, one) for one in below], [max(0.0, one) for one in above]]
    axes.errorbar([place + shift for place in places], shares, yerr=errors, marker="o", capsize=3, label=name)


def _dress(axes: Axes, title: str, places: Sequence[int], names: Sequence[str]) -> None:
    axes.set_title(title)
    axes.set_ylabel("%")
    axes.set_ylim(*LIMITS)
    axes.set_xticks(list(places), list(names))
    axes.grid(axis="y", alpha=0.3)
    axes.legend()
