"""The report of a simulation: report.json for programs, report.md for people, report.png to look at."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.money import dollars
from common.text import count
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
ROUNDS_NOTE = (
    "MER: fooled of collected; vMER: fooled and verified by others, of collected; in brackets 95 % intervals. Costs "
    "include the marketplace's fees; none of it is real money. The wage is a median, by assumed time."
)
ACCURACY = "Accuracy on rows that no model has learned from"
ACCURACY_NOTE = (
    "Most of a round's examples are there because they fooled the model that it was played against, so that model is "
    "nearly always wrong about them, by construction."
)
JSON_FILE = "report.json"
TEXT_FILE = "report.md"
PLOT_FILE = "report.png"


@dataclass(frozen=True)
class ReportTable:
    """A table of the report, in words."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> Iterator[str]:
        """Its lines."""
        yield f"| {' | '.join(self.columns)} |"
        yield f"|{'---|' * len(self.columns)}"
        yield from (f"| {' | '.join(row)} |" for row in self.rows)


def title_of(results: Results) -> str:
    """What the report is about, and by whom it was played."""
    return f"{results.task}: {count(len(results.rounds), 'round')} with a {CROWD}"


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


def rounds_table(results: Results) -> ReportTable:
    """One row for each round."""
    columns = ("round", "collected", "fooled", "MER", "vMER", "tries per fool", "cost", "per verified", "wage per hour")
    return ReportTable(columns, [_round_row(one) for one in results.rounds])


def accuracy_table(results: Results) -> ReportTable:
    """One row for each model, the oldest first, with a column for each set of rows."""
    rows = [
        [results.story(version), *(_figure(results.accuracy(version, dataset)) for dataset in results.datasets)]
        for version in results.versions
    ]
    sizes = [results.accuracy(version, dataset).of for version in results.versions[:1] for dataset in results.datasets]
    heads = [f"{dataset} ({count(of, 'row')})" for dataset, of in zip(results.datasets, sizes, strict=True)]
    return ReportTable(("model", *heads), rows)


def _lines(results: Results) -> Iterator[str]:
    yield f"# {title_of(results)}"
    yield ""
    yield WARNING
    yield ""
    yield "## Rounds"
    yield ""
    yield from rounds_table(results).markdown()
    yield ""
    yield ROUNDS_NOTE
    yield ""
    yield f"## {ACCURACY}"
    yield ""
    yield from accuracy_table(results).markdown()
    yield ""
    yield ACCURACY_NOTE
    yield ""
    yield "## Training after each round"
    yield ""
    yield from (f"- after round {one.number}: {one.training}" for one in results.rounds)
    yield ""
    yield f"![The same as a plot]({PLOT_FILE})"


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


def _figure(rate: Rate) -> str:
    return "" if rate.share is None else f"{rate.share:.1%} ({100 * rate.low:.0f} to {100 * rate.high:.0f})"
