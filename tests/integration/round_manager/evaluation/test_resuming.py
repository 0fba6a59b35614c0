"""An evaluation whose process is killed continues where it stopped."""

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from ml_backend.evaluation.answers import ROWS_PER_CALL, ROWS_PER_PART
from ml_backend.targets.sources import ModelSource
from round_manager.evaluation.data_sets import seed_data_set
from round_manager.evaluation.work import Candidate
from round_manager.services.evaluations import EvaluationOrder, evaluate_models
from templates import SeedRow, find_pack
from tests.fakes.target import FakeTarget
from tests.processes import ForkedProcess

ROWS = 3 * ROWS_PER_PART
CALLS_BEFORE_THE_KILL = 2 * ROWS_PER_PART // ROWS_PER_CALL + 1


def order(folder: Path) -> EvaluationOrder:
    spec = find_pack("sentiment").spec
    labels = spec.label_names
    rows = [
        SeedRow(
            f"r{number}", "held_out", {"text": f"{labels[number % 3]} {number}"}, labels[number % 2], None, None, {}
        )
        for number in range(ROWS)
    ]
    source = ModelSource("version", "nowhere", "m1", spec.kind, spec.model_input, labels)
    model = Candidate("m1", "one", "version", source)
    data = [seed_data_set("seed", rows, spec)]
    return EvaluationOrder("sentiment", [model], data, ("performance",), str(folder / "archives"), folder / "cache")


def evaluate_until_killed(pipe: Connection, folder: str) -> None:
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == CALLS_BEFORE_THE_KILL:
            os.kill(os.getpid(), signal.SIGKILL)

    target = FakeTarget(find_pack("sentiment").spec, before=count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelSource, "open", lambda self: target)
        evaluate_models(order(Path(folder)))


def test_a_killed_evaluation_asks_only_what_it_had_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = ForkedProcess(evaluate_until_killed, str(tmp_path), environment={})
    assert killed.join() == -signal.SIGKILL
    target, fresh = FakeTarget(find_pack("sentiment").spec), FakeTarget(find_pack("sentiment").spec)
    monkeypatch.setattr("round_manager.evaluation.work._opened", lambda source: target)
    resumed = evaluate_models(order(tmp_path))
    assert len(target.asked) == ROWS_PER_PART
    monkeypatch.setattr("round_manager.evaluation.work._opened", lambda source: fresh)
    assert evaluate_models(order(tmp_path / "other")).rows == resumed.rows
    assert len(fresh.asked) == ROWS
    again = evaluate_models(order(tmp_path))
    assert (again.rows, again.measured, len(target.asked)) == (resumed.rows, 0, ROWS_PER_PART)
