"""The contract of the Target protocol, run on every implementation."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from ml_backend.artefact import list_versions, verify
from ml_backend.errors import (
    ModelFileCorrupt,
    ModelInputInvalid,
    ModelMismatch,
    ModelParityFailed,
    TargetKindUnknown,
)
from ml_backend.manifest import FILE, MANIFESTS, Manifest, read_manifest, trained_only, version_of
from ml_backend.registry.local import LocalRegistry
from ml_backend.registry.model_pool import ModelLoader, prepare
from ml_backend.registry.rotation import rotate
from ml_backend.targets.footprint import version_peak_bytes
from ml_backend.targets.loading import LOADERS, check_probes, check_ready, load_target
from ml_backend.targets.onnx_runtime import OnnxNetwork
from ml_backend.targets.target import LabelPrediction, Row, SpanPrediction, Target
from templates import find_pack
from tests.fakes.target import FakeTarget
from tests.unit.ml_backend.conftest import EXPORT_ROWS, Versions

# In one process of a parallel run, so that the versions are trained once.
pytestmark = pytest.mark.xdist_group("onnx")

Implementation = Callable[[Versions, str], Target]

IMPLEMENTATIONS: dict[str, Implementation] = {
    "trained, ONNX int8": lambda versions, task: load_target(versions[task, "int8"], "onnx"),
    "trained, ONNX fp32": lambda versions, task: load_target(versions[task, "fp32"], "onnx"),
    "trained, PyTorch": lambda versions, task: load_target(versions[task, "fp32"], "torch"),
    "fake": lambda versions, task: FakeTarget(find_pack(task).spec),
}


@pytest.fixture(scope="module", params=["sentiment", "nli", "qa"])
def task(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=list(IMPLEMENTATIONS))
def target(request: pytest.FixtureRequest, versions: Versions, task: str) -> Target:
    return IMPLEMENTATIONS[request.param](versions, task)


@pytest.fixture
def rows(task: str) -> list[Row]:
    return [row.fields for row in EXPORT_ROWS[task]]


def test_there_is_one_prediction_of_the_right_kind_for_each_row(target: Target, task: str, rows: list[Row]) -> None:
    kind = SpanPrediction if task == "qa" else LabelPrediction
    assert target.predict([]) == []
    assert [type(one) for one in target.predict(rows)] == [kind] * len(rows)


def test_a_prediction_stays_within_the_task(target: Target, task: str, rows: list[Row]) -> None:
    labels = set(find_pack(task).spec.label_names)
    for row, prediction in zip(rows, target.predict(rows), strict=True):
        assert 0 < prediction.confidence <= 1
        if isinstance(prediction, SpanPrediction):
            assert row["passage"][prediction.start : prediction.end] == prediction.text
        else:
            assert set(prediction.probabilities) == labels
            assert sum(prediction.probabilities.values()) == pytest.approx(1)


def test_predictions_repeat_and_keep_the_order_of_the_rows(target: Target, rows: list[Row]) -> None:
    first, again = target.predict(rows), target.predict(rows[::-1])[::-1]
    assert [one.text for one in first] == [one.text for one in again]
    assert [one.confidence for one in first] == pytest.approx([one.confidence for one in again], abs=1e-5)


def test_threads_may_share_a_target(target: Target, rows: list[Row]) -> None:
    expected = [one.text for one in target.predict(rows)]
    with ThreadPoolExecutor(4) as pool:
        assert [one.text for one in pool.map(lambda row: target.predict([row])[0], rows)] == expected


def test_the_version_and_capabilities_never_change(target: Target, rows: list[Row]) -> None:
    before = target.version, target.capabilities
    target.predict(rows[:1])
    assert (target.version, target.capabilities) == before
    assert target.version


def test_capabilities_describe_the_calls_that_a_caller_may_make(target: Target, task: str) -> None:
    capabilities = target.capabilities
    assert capabilities.fields == find_pack(task).spec.model_input
    assert capabilities.batch_size >= 1
    assert capabilities.concurrency is None or capabilities.concurrency >= 1
    assert capabilities.deadline is None or capabilities.deadline > 0
    assert all(set(probe.fields) == set(capabilities.fields) for probe in capabilities.probes)
    assert capabilities.cost_per_call is None or capabilities.cost_per_call > 0


def test_a_fresh_target_passes_its_own_readiness_check(target: Target) -> None:
    check_ready(target)


def test_a_row_without_a_field_of_a_trained_target_is_an_error(versions: Versions, task: str) -> None:
    with pytest.raises(ModelInputInvalid):
        load_target(versions[task, "int8"]).predict([{"other": "text"}])


def test_a_trained_target_knows_its_probes_and_runs_here_for_free(versions: Versions, task: str) -> None:
    capabilities = load_target(versions[task, "int8"]).capabilities
    assert capabilities.probes
    assert capabilities.concurrency is None
    assert capabilities.cost_per_call is None


def test_a_target_of_an_unknown_kind_is_refused(versions: Versions, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("unknown")
    (folder / FILE).write_text('{"target": "crystal ball"}')
    with pytest.raises(TargetKindUnknown):
        load_target(folder)


class RemoteManifest(Manifest):
    """The manifest of a kind of target that has no files: it runs elsewhere, behind an address."""

    letter: ClassVar[str] = "r"

    target: Literal["remote"]
    address: str


@pytest.fixture
def remote_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a version without files, of a kind that only this test knows."""
    spec = find_pack("sentiment").spec
    monkeypatch.setitem(MANIFESTS, "remote", RemoteManifest)
    monkeypatch.setitem(LOADERS, "remote", lambda _, manifest, runtime: FakeTarget(spec, manifest.version))
    content = {
        "format": 1,
        "target": "remote",
        "task": spec.name,
        "kind": spec.kind,
        "labels": list(spec.label_names),
        "model_input": list(spec.model_input),
        "parent": None,
        "address": "https://models.example.org/v1",
        "files": {},
        "code_version": "test",
        "created_at": "2027-03-01T12:00:00+00:00",
    }
    version = version_of(content, "r")
    folder = tmp_path / version
    folder.mkdir()
    (folder / FILE).write_text(json.dumps({**content, "version": version}))
    return folder


def test_a_version_without_files_is_verified_published_pinned_and_loaded(remote_version: Path, tmp_path: Path) -> None:
    version = verify(remote_version).version
    assert version.startswith("r")
    registry = LocalRegistry(tmp_path / "models")
    assert registry.publish(remote_version) == version
    assert registry.versions("sentiment") == [version]
    pins = rotate(registry, "sentiment", [version], load=load_target)
    assert pins.versions == (version,)
    target = prepare(registry, ModelLoader({"sentiment": find_pack("sentiment")}), "sentiment", version)
    assert (target.version, target.capabilities.warm_up) == (version, ())
    assert version_peak_bytes(registry.fetch("sentiment", version)) is None


def test_a_changed_version_without_files_is_refused(remote_version: Path) -> None:
    file = remote_version / FILE
    file.write_text(file.read_text().replace("/v1", "/v2"))
    with pytest.raises(ModelFileCorrupt):
        load_target(remote_version)


def test_only_a_trained_version_counts_as_trained(remote_version: Path, tmp_path: Path) -> None:
    LocalRegistry(tmp_path / "models").publish(remote_version)
    assert list_versions(tmp_path / "models") == []
    with pytest.raises(ModelMismatch):
        trained_only(read_manifest(remote_version))


def test_a_manifest_without_a_kind_is_of_a_trained_model(versions: Versions) -> None:
    folder = versions["sentiment", "int8"]
    assert "target" not in json.loads((folder / FILE).read_text())
    assert read_manifest(folder).target == "trained"


@pytest.mark.parametrize("task", ["sentiment"])
def test_a_version_whose_int8_form_answers_differently_here_is_run_by_pytorch(
    versions: Versions, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version on a processor whose integer arithmetic saturates."""
    run = OnnxNetwork.run
    monkeypatch.setattr(OnnxNetwork, "run", lambda self, inputs: tuple(-one for one in run(self, inputs)))
    folder = versions[task, "int8"]
    with pytest.raises(ModelParityFailed):
        check_probes(load_target(folder, "onnx"))
    target = load_target(folder)
    check_probes(target)
    row = dict.fromkeys(target.capabilities.fields, "A fine evening.")
    assert target.predict([row]) == load_target(folder, "torch").predict([row])
