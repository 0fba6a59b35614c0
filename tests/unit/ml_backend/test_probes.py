"""A version is asked again what it was asked when it was made, and refused where it does not know it any more."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ml_backend.answers import Answer, LabelAnswer, SpanAnswer
from ml_backend.errors import ModelError
from ml_backend.predictor import Row
from ml_backend.probes import FILE, MOST, check_probes, choose_probes, write_probes

ROWS = [{"text": f"Text {number}.", "other": "not read"} for number in range(40)]


class Says:
    """A predictor that answers each text with its last digit, but for the texts that it gets wrong."""

    version = "m000000000000"

    def __init__(self, wrong: int = 0) -> None:
        self._wrong = wrong

    def predict(self, rows: Sequence[Row]) -> list[Answer]:
        return [self._answer(row["text"]) for row in rows]

    def _answer(self, text: str) -> LabelAnswer:
        number = int(text.split()[1].rstrip("."))
        label = "wrong" if number < self._wrong else str(number % 10)
        return LabelAnswer(label, {label: 1.0})


@pytest.fixture
def version(tmp_path: Path) -> Path:
    write_probes(tmp_path, choose_probes(ROWS, Says().predict(ROWS), ["text"]))
    return tmp_path


def test_probes_are_few_from_all_over_and_hold_only_what_the_model_reads(version: Path) -> None:
    probes = json.loads((version / FILE).read_text())["probes"]
    assert len(probes) == MOST
    assert probes[0] == {"fields": {"text": "Text 0."}, "said": "0"}
    assert probes[-1]["fields"] == {"text": "Text 30."}


def test_a_version_that_says_what_it_said_passes_and_so_does_one_without_probes(version: Path, tmp_path: Path) -> None:
    check_probes(version, Says())
    check_probes(tmp_path / "older", Says(wrong=40))


def test_two_answers_may_fall_the_other_way_but_not_three(version: Path) -> None:
    check_probes(version, Says(wrong=3))  # texts 0 and 2 are probes
    with pytest.raises(ModelError, match=r"fails its parity check here: it answers 3 of 16 probes otherwise"):
        check_probes(version, Says(wrong=5))


def test_spans_are_compared_by_their_text() -> None:
    (probe,) = choose_probes([{"q": "?"}], [SpanAnswer("ninety", 4, 10, 0.5)], ["q"])
    assert probe.said == "ninety"


@pytest.mark.parametrize("content", ['{"probes": [1]}', '{"probes": []}', '{"probes": {"a": 1}}', "[]", "{"])
def test_a_spoiled_file_is_told_in_one_line(version: Path, content: str) -> None:
    (version / FILE).write_text(content)
    with pytest.raises(ModelError):
        check_probes(version, Says())
