"""Memory of a process that only answers, and prices."""

import json
from pathlib import Path

import numpy as np
import pytest

from ml_backend.errors import MemoryNotMeasured
from ml_backend.evaluation.resources import MIB, memory, price
from ml_backend.targets.footprint import own_peak_bytes, version_peak_bytes
from ml_backend.targets.sources import ModelSource
from ml_backend.targets.target import Capabilities
from templates import find_pack
from tests.fakes.target import FakeTarget
from tests.unit.ml_backend.conftest import Versions

pytestmark = pytest.mark.xdist_group("onnx")

ROWS = [{"text": f"A bright day, number {number}."} for number in range(20)]


def source_of(directory: Path) -> ModelSource:
    spec = find_pack("sentiment").spec
    return ModelSource("version", str(directory), directory.name, spec.kind, spec.model_input, spec.label_names)


def test_the_peak_is_that_of_a_fresh_process_and_not_of_this_one(versions: Versions) -> None:
    directory = versions["sentiment", "int8"]
    ballast = np.ones(600 * MIB, dtype=np.uint8)
    assert own_peak_bytes() > ballast.nbytes
    (found,) = memory(source_of(directory), ROWS).values
    assert (found.metric, found.n) == ("memory_mb", len(ROWS))
    assert 20 < found.value < 500
    peak = version_peak_bytes(directory)
    assert peak is not None
    assert abs(peak / MIB - found.value) < 100


def test_a_process_that_fails_is_an_error_and_no_figure(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    (tmp_path / "config.json").write_text(json.dumps({}))
    source = ModelSource("onnx", str(tmp_path), "onnx-1", "classification", ("text",), ("a", "b"))
    with pytest.raises(MemoryNotMeasured) as failed:
        memory(source, ROWS)
    assert failed.value.retry


def test_the_price_of_a_thousand_rows_follows_from_that_of_a_call() -> None:
    target = FakeTarget(find_pack("sentiment").spec)
    unknown = price(target, 10)
    assert (unknown.values, bool(unknown.note)) == ([], True)
    target.capabilities = Capabilities(fields=("text",), cost_per_call=250)
    (found,) = price(target, 10).values
    assert (found.metric, found.value) == ("price_per_1000", 0.25)
