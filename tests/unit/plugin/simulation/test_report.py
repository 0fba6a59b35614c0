import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from plugin.cli.demo import report_text
from plugin.simulation.report import CROWD, WARNING, write_report
from plugin.simulation.results import Accuracy, Results, RoundResult
from round_manager.rates import Rate
from round_manager.validation.costs import Cost
from round_manager.validation.metrics import Counts, RoundMetrics


def _round(number: int, version: str, fooled: int) -> RoundResult:
    counts = Counts(collected=40, fooled=fooled, verified_fooling=fooled - 4, tries=80, cost=Cost(0, 4_321))
    metrics = RoundMetrics(number, counts, votes=90, alpha=0.8, differing=0)
    return RoundResult(metrics, (version,), 1_765, 3_600, "seed: from 80.0 to 81.0 points on 240 rows")


def _results() -> Results:
    versions, datasets = ("m1", "m2", "m3"), ("seed", "round 1", "round 2")
    accuracies = [
        Accuracy(version, dataset, Rate(place + 4, 10))
        for place, version in enumerate(versions)
        for dataset in datasets
    ]
    return Results("sentiment", (_round(1, "m1", 30), _round(2, "m2", 20)), tuple(accuracies))


def test_the_report_has_every_figure_with_its_interval(tmp_path: Path) -> None:
    files = write_report(_results(), tmp_path / "report")

    assert [file.name for file in files] == ["report.json", "report.md", "report.png"]
    data = json.loads(files[0].read_text(encoding="utf-8"))
    first, second = data["rounds"]
    assert (first["mer"]["share"], second["mer"]["share"]) == (0.75, 0.5)
    assert first["vmer"]["low"] < first["vmer"]["share"] == 0.65 < first["vmer"]["high"]
    assert (first["cost_cents"], first["workers_cents"], first["assumed_hourly_cents"]) == (4_321, 3_600, 1_765)
    assert len(data["accuracy"]) == 9


def test_the_text_shows_the_same_figures(tmp_path: Path) -> None:
    text = write_report(_results(), tmp_path)[1].read_text(encoding="utf-8")

    assert "| 1 | 40 | 30 | 75.0% (" in text
    assert "$43.21" in text
    assert "$17.65" in text
    assert "| m3, the newest | 60.0% (" in text


@pytest.mark.parametrize("width", [80, 160])
def test_the_report_fits_a_terminal_of_any_width(width: int, tmp_path: Path) -> None:
    screen = StringIO()
    files = write_report(_results(), tmp_path)
    Console(file=screen, width=width, highlight=False).print(report_text(_results(), files))

    shown = screen.getvalue()
    assert all(figure in shown for figure in ("75.0%", "$43.21", "$17.65", "m3, the newest", "round 2 (10 rows)"))
    assert CROWD in shown
    assert max(map(len, shown.splitlines())) <= width


def test_every_form_of_the_report_says_that_the_crowd_is_simulated(tmp_path: Path) -> None:
    data, text, plot = write_report(_results(), tmp_path)

    assert json.loads(data.read_text(encoding="utf-8"))["crowd"] == CROWD
    assert CROWD in text.read_text(encoding="utf-8").splitlines()[0]
    assert WARNING in text.read_text(encoding="utf-8")
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_new_report_replaces_the_old_one(tmp_path: Path) -> None:
    write_report(_results(), tmp_path)
    only_one = Results("sentiment", (_round(1, "m1", 30),), _results().accuracies[:6])

    data, _, _ = write_report(only_one, tmp_path)
    assert len(json.loads(data.read_text(encoding="utf-8"))["rounds"]) == 1
    assert len(list(tmp_path.iterdir())) == 3
