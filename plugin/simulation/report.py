"""The report of a simulation: report.json for programs, report.md for people, report.png to look at."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mturk.dollars import dollars
from plugin.simulation.plot import draw
from plugin.simulation.results import Results, RoundResult
from round_manager.rates import Rate

CROWD = "simulated crowd"
WARNING = (
    "All work in these rounds was done by a simulated crowd: programs that fill sentence patterns written for Outfox, "
    "and validators that know what the patterns mean, with an error rate. The software around them is the real one. "
    "The figures show that it works, and nothing about people, nor about how well models do with them. Wages go by the "
    "time that a person is assumed to need; the programs need none."
)
JSON_FILE = "report.json"
TEXT_FILE = "report.md"
PLOT_FILE = "report.png"


def write_report(results: Results, folder: Path) -> list[Path]:
    """The three files in the folder, in place of those of an earlier report."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / name for name in (JSON_FILE, TEXT_FILE, PLOT_FILE)]
    files[0].write_text(json.dumps(report_json(results), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    files[1].write_text(report_text(results), encoding="utf-8")
    draw(results, files[2])
    return files


def report_json(results: Results) -> dict[str, Any]:
    """Everything in the report."""
    return {
        "crowd": CROWD,
        "warning": WARNING,
        "task": results.task,
        "rounds": [_round(one) for one in results.rounds],
        "accuracy": [
            {"version": one.version, "dataset": one.dataset, **_rate(one.right)} for one in results.accuracies
        ],
    }


def report_text(results: Results) -> str:
    """The report in Markdown."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    yield f"# {results.task}: {len(results.rounds)} rounds with a {CROWD}"
    yield ""
    yield WARNING
    yield ""
    yield "## Rounds"
    yield ""
    yield "| round | model | collected | fooled | MER | vMER | tries per fool | cost | per verified | wage per hour |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for one in results.rounds:
        yield _round_row(one)
    yield ""
    yield "MER: fooled of collected; vMER: fooled and verified by others, of collected; in brackets 95 % intervals."
    yield "Costs include the marketplace's fees; none of it is real money. The wage is a median, by assumed time."
    yield ""
    yield "## Accuracy on rows that no model has learned from"
    yield ""
    yield f"| model | {' | '.join(results.datasets)} |"
    yield f"|---|{'---|' * len(results.datasets)}"
    for version in results.versions:
        cells = [str(results.accuracy(version, dataset)) for dataset in results.datasets]
        yield f"| {version} | {' | '.join(cells)} |"
    yield ""
    yield "Most of a round's examples are there because they fooled the model that it was played against, so that model"
    yield "is nearly always wrong about them, by construction."
    yield ""
    yield "## Training after each round"
    yield ""
    for one in results.rounds:
        yield f"- after round {one.number}: {one.training}"
    yield ""
    yield f"![The same as a plot]({PLOT_FILE})"


def _round_row(one: RoundResult) -> str:
    counts = one.metrics.counts
    tries, each = counts.tries_per_fool, counts.cents_per_verified
    cells = [
        one.number,
        ", ".join(one.versions),
        counts.collected,
        counts.fooled,
        _short(counts.mer),
        _short(counts.vmer),
        "" if tries is None else f"{tries:.1f}",
        dollars(counts.cost.cents),
        "" if each is None else dollars(each),
        "" if one.hourly_cents is None else dollars(one.hourly_cents),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _round(one: RoundResult) -> dict[str, Any]:
    metrics, counts = one.metrics, one.metrics.counts
    return {
        "round": one.number,
        "versions": list(one.versions),
        "collected": counts.collected,
        "fooled": counts.fooled,
        "verified_fooling": counts.verified_fooling,
        "mer": _rate(counts.mer),
        "vmer": _rate(counts.vmer),
        "tries_per_fool": counts.tries_per_fool,
        "votes": metrics.votes,
        "alpha": metrics.alpha,
        "cost_cents": counts.cost.cents,
        "workers_cents": one.workers_cents,
        "cents_per_verified": counts.cents_per_verified,
        "assumed_hourly_cents": one.hourly_cents,
        "training": one.training,
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"share": rate.share, "low": rate.low, "high": rate.high, "count": rate.count, "of": rate.of}


def _short(rate: Rate) -> str:
    return "" if rate.share is None else f"{rate.share:.1%} ({rate.low:.1%} to {rate.high:.1%})"
