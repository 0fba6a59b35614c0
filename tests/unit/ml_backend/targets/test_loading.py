"""A version answers its probes again wherever it is loaded, and is refused where its answers have changed."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ml_backend.errors import ModelFileCorrupt, ModelParityFailed
from ml_backend.targets.loading import (
    MAX_PROBES,
    PROBES_FILE,
    check_probes,
    choose_probes,
    read_probes,
    warm_up,
    write_probes,
)
from ml_backend.targets.target import Capabilities, LabelPrediction, Prediction, Probe, Row, SpanPrediction

ROWS = [{"text": f"Text {number}.", "other": "not read"} for number in range(40)]


class DigitTarget:
    """A target that answers each text with its last digit, except for the first `wrong` texts."""

    version = "m000000000000"

    def __init__(self, probes: Sequence[Probe] = (), wrong: int = 0, warm_up: tuple[int, ...] = ()) -> None:
        self.capabilities = Capabilities(fields=("text",), probes=tuple(probes), warm_up=warm_up)
        self.calls: list[Row] = []
        self._wrong = wrong

    def predict(self, rows: Sequence[Row]) -> list[Prediction]:
        self.calls += rows
        return [self._prediction(row["text"]) for row in rows]

    def _prediction(self, text: str) -> LabelPrediction:
        digits = "".join(filter(str.isdigit, text))
        label = "wrong" if int(digits or 0) < self._wrong else digits[-1:]
        return LabelPrediction(label, {label: 1.0})


@pytest.fixture
def version(tmp_path: Path) -> Path:
    write_probes(tmp_path, choose_probes(ROWS, DigitTarget().predict(ROWS), ["text"]))
    return tmp_path


def test_probes_are_few_evenly_spaced_and_hold_only_what_the_model_reads(version: Path) -> None:
    probes = json.loads((version / PROBES_FILE).read_text())["probes"]
    assert len(probes) == MAX_PROBES
    assert probes[0] == {"fields": {"text": "Text 0."}, "said": "0"}
    assert probes[-1]["fields"] == {"text": "Text 30."}


def test_unchanged_answers_pass_and_so_does_a_version_without_probes(version: Path, tmp_path: Path) -> None:
    check_probes(DigitTarget(read_probes(version)))
    check_probes(DigitTarget(read_probes(tmp_path / "older"), wrong=40))


def test_two_answers_may_differ_but_not_three(version: Path) -> None:
    probes = read_probes(version)
    check_probes(DigitTarget(probes, wrong=3))  # texts 0 and 2 are probes
    with pytest.raises(ModelParityFailed):
        check_probes(DigitTarget(probes, wrong=5))


def test_spans_are_compared_by_their_text() -> None:
    (probe,) = choose_probes([{"q": "?"}], [SpanPrediction("ninety", 4, 10, 0.5)], ["q"])
    assert probe.answer == "ninety"


def test_the_target_decides_how_many_warm_up_calls_it_gets() -> None:
    cold, warm = DigitTarget(), DigitTarget(warm_up=(1, 60))
    warm_up(cold)
    warm_up(warm)
    assert (len(cold.calls), [len(row["text"].split()) for row in warm.calls]) == (0, [2, 120])


@pytest.mark.parametrize("content", ['{"probes": [1]}', '{"probes": []}', '{"probes": {"a": 1}}', "[]", "{"])
def test_a_corrupt_file_is_refused(version: Path, content: str) -> None:
    (version / PROBES_FILE).write_text(content)
    with pytest.raises(ModelFileCorrupt):
        read_probes(version)
