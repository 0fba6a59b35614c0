"""Serving with ONNX Runtime: what it needs, what it guarantees, and which files it refuses."""

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from ml_backend.artefact import write_version
from ml_backend.errors import ModelError, ModelFileCorrupt, ModelFileUnsafe, RuntimeNotAvailable
from ml_backend.model_files import check_onnx
from ml_backend.targets import onnx_runtime
from ml_backend.targets.loading import load_target
from ml_backend.targets.torch_runtime import open_network, open_tokenizer, save_network
from tests.unit.ml_backend.conftest import EXPORT_ROWS as ROWS
from tests.unit.ml_backend.conftest import Versions
from tests.unit.ml_backend.test_artefact import content, edit

# In one process of a parallel run, so that the versions are trained once.
pytestmark = pytest.mark.xdist_group("onnx")

Store = Callable[[bytes], Path]
Change = Callable[[Any], object]


PROGRAM = """
import sys
from pathlib import Path
from ml_backend.targets.loading import load_target
target = load_target(Path(sys.argv[1]))
print(len(target.predict([{name: "What a day." for name in sys.argv[2].split(",")}] * 3)))
heavy = ("torch", "transformers", "sklearn", "pandas", "scipy", "huggingface_hub")
print(",".join(name for name in heavy if name in sys.modules))
pages = int(Path("/proc/self/statm").read_text().split()[1])
print(pages * 4096 // 10**6)
"""


@pytest.mark.parametrize(("task", "fields"), [("sentiment", "text"), ("qa", "passage,question")])
def test_serving_imports_neither_torch_nor_transformers_and_needs_little_memory(
    versions: Versions, task: str, fields: str
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(versions[task, "int8"]), fields]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[4])
    answers, heavy, megabytes = ran.stdout.split("\n")[:3]
    assert (answers, heavy, ran.stderr) == ("3", "", "")
    assert int(megabytes) < 200, "the runtime itself, with a tiny network"


@pytest.mark.parametrize("task", ["sentiment", "nli", "qa"])
def test_an_int8_prediction_does_not_depend_on_other_rows(versions: Versions, task: str) -> None:
    target = load_target(versions[task, "int8"])
    rows = [row.fields for row in ROWS[task]]
    together = target.predict(rows)
    assert together == [target.predict([row])[0] for row in rows]
    assert together == target.predict(rows[::-1])[::-1]


@pytest.mark.parametrize("task", ["sentiment", "nli", "qa"])
def test_an_fp32_prediction_depends_on_other_rows_in_the_last_digits_only(versions: Versions, task: str) -> None:
    target = load_target(versions[task, "fp32"])
    rows = [row.fields for row in ROWS[task]]
    for row, answer in zip(rows, target.predict(rows), strict=True):
        (alone,) = target.predict([row])
        assert alone.confidence == pytest.approx(answer.confidence, abs=1e-5)


def test_threads_can_share_a_target(versions: Versions) -> None:
    target = load_target(versions["sentiment", "int8"])
    rows = [{"text": f"Row {number} " + "more " * (number % 13)} for number in range(60)]
    expected = target.predict(rows)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda row: target.predict([row])[0], rows)) == expected


@pytest.mark.parametrize("task", ["sentiment", "nli", "qa"])
def test_torch_can_be_requested_and_agrees_with_fp32(versions: Versions, task: str) -> None:
    directory = versions[task, "fp32"]
    rows = [row.fields for row in ROWS[task]]
    served, reference = (load_target(directory, runtime) for runtime in ("auto", "torch"))
    assert served.version == reference.version == directory.name
    for ours, theirs in zip(served.predict(rows), reference.predict(rows), strict=True):
        assert ours.confidence == pytest.approx(theirs.confidence, abs=1e-4)


def test_an_unknown_runtime_is_an_error(
    versions: Versions,
) -> None:
    with pytest.raises(RuntimeNotAvailable):
        load_target(versions["sentiment", "int8"], "tensorflow")


def _two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine seem to have two processors, which a process may use."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_threads_are_measured_once_in_a_process(versions: Versions, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[object] = []

    def seconds(network: object, *_: object) -> float:
        measured.append(network)
        return 1.0

    monkeypatch.setattr(onnx_runtime, "_threads_by_precision", {})
    _two_processors(monkeypatch)
    monkeypatch.setattr(onnx_runtime, "_seconds", seconds)
    for _ in range(3):
        load_target(versions["sentiment", "int8"])
    assert len(measured) == 2, "with one thread, and with all"


@pytest.mark.parametrize(("several", "threads"), [(0.59, 2), (0.61, 1), (2.0, 1)])
def test_more_threads_are_used_only_where_they_save_much_time(
    versions: Versions, monkeypatch: pytest.MonkeyPatch, several: float, threads: int
) -> None:
    # One thread is measured by the time it runs: on a busy machine, it also waits for a core.
    seconds = {time.perf_counter: several, time.thread_time: 1.0}
    monkeypatch.setattr(onnx_runtime, "_threads_by_precision", {})
    _two_processors(monkeypatch)
    monkeypatch.setattr(onnx_runtime, "_seconds", lambda _network, _sample, clock: seconds[clock])
    load_target(versions["sentiment", "int8"])
    assert onnx_runtime._threads_by_precision == {True: threads}


@pytest.fixture(scope="module")
def save_tiny(tiny_base: Path) -> Callable[[Path], None]:
    """Writes a tiny classifier."""
    network = open_network(tiny_base, "classification", ["positive", "negative"]).network
    tokenizer = open_tokenizer(tiny_base)
    return lambda folder: save_network(folder, network, tokenizer)


@pytest.fixture
def store(save_tiny: Callable[[Path], None], tmp_path: Path) -> Store:
    """Stores a complete version with the given bytes as model.onnx."""
    serving = {"runtime": "onnx", "precision": "int8", "agreement": 100.0, "rows": 2, "headline": 50.0}

    def store(data: bytes) -> Path:
        def save(folder: Path) -> None:
            save_tiny(folder)
            (folder / "model.onnx").write_bytes(data)

        return write_version(tmp_path, content(serving={**serving, "torch_headline": 50.0}), save)[0]

    return store


def refused(directory: Path) -> type[ModelError]:
    with pytest.raises(ModelError) as caught:
        load_target(directory)
    assert "\n" not in str(caught.value)
    return type(caught.value)


def graph(
    *, inputs: tuple[str, ...] = ("input_ids", "attention_mask"), output: str = "logits", width: int = 2
) -> onnx.ModelProto:
    """A network of one number for each label, with parts that a test changes."""
    shapes = [helper.make_tensor_value_info(name, TensorProto.INT64, ["rows", "tokens"]) for name in inputs]
    weights = helper.make_tensor("weights", TensorProto.FLOAT, [1, width], [0.5] * width)
    nodes = [
        helper.make_node("Cast", [inputs[0]], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["numbers"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("MatMul", ["mean", "weights"], [output]),
    ]
    given = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["rows", "width"])
    whole = helper.make_graph(nodes, "network", shapes, [given], [weights])
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"pad_id": "0"})
    return model


def test_a_plain_graph_is_served(store: Store) -> None:
    assert len(load_target(store(graph().SerializeToString())).predict([{"text": "x"}])) == 1


@pytest.mark.parametrize("data", [b"", b"\x00" * 50, b"hello there", b"\x08\x08" * 40, b"\xff" * 1000])
def test_bytes_that_are_not_a_network_are_refused(store: Store, data: bytes) -> None:
    assert refused(store(data)) is ModelFileCorrupt


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(versions: Versions, store: Store, keep: float) -> None:
    data = (versions["sentiment", "int8"] / "model.onnx").read_bytes()
    assert refused(store(data[: int(len(data) * keep)])) is ModelFileCorrupt


def make_external(tensor: Any) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../etc/passwd")


def hide_in_a_branch(model: Any) -> None:
    """Hide an external tensor in a branch of an If."""
    tensor = helper.make_tensor("far", TensorProto.FLOAT, [1], [1.0])
    make_external(tensor)
    given = helper.make_tensor_value_info("far", TensorProto.FLOAT, [1])
    branch = helper.make_graph([helper.make_node("Constant", [], ["far"], value=tensor)], "branch", [], [given])
    model.graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch))


def add_function(model: Any) -> None:
    function = helper.make_function("evil", "Own", ["a"], ["b"], [], [helper.make_opsetid("", 17)])
    model.functions.append(function)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda model: make_external(model.graph.initializer[0]), ModelFileUnsafe),
        (hide_in_a_branch, ModelFileUnsafe),
        (lambda model: setattr(model.graph.node[2], "domain", "com.evil"), ModelFileUnsafe),
        (lambda model: model.opset_import.append(helper.make_opsetid("com.evil", 1)), ModelFileUnsafe),
        (add_function, ModelFileUnsafe),
        (lambda model: model.graph.node.append(helper.make_node("Loop", ["a", "b"], ["c"])), ModelFileUnsafe),
        (lambda model: setattr(model.graph.node[2], "op_type", "NoSuchThing"), ModelFileCorrupt),
        (lambda model: model.graph.initializer[0].dims.append(1000), ModelFileCorrupt),
        (lambda model: model.ClearField("metadata_props"), ModelFileCorrupt),
        (lambda model: helper.set_model_props(model, {"pad_id": "-1"}), ModelFileCorrupt),
        (lambda model: helper.set_model_props(model, {"pad_id": "9" * 50}), ModelFileCorrupt),
    ],
)
def test_a_hostile_network_is_refused(store: Store, change: Change, error: type[ModelError]) -> None:
    model = graph()
    change(model)
    assert refused(store(model.SerializeToString())) is error


@pytest.mark.parametrize(
    "parts",
    [
        {"inputs": ("ids", "attention_mask")},
        {"inputs": ("input_ids",)},
        {"inputs": ("input_ids", "attention_mask", "secret")},
        {"output": "answers"},
        {"width": 3},
        {"width": 1},
    ],
)
def test_a_network_that_does_not_fit_the_task_is_refused(store: Store, parts: Any) -> None:
    assert refused(store(graph(**parts).SerializeToString())) is ModelFileCorrupt


def test_dynamic_scales_are_detected_in_the_file(versions: Versions) -> None:
    assert check_onnx(versions["sentiment", "int8"] / "model.onnx").one_row_at_a_time
    assert not check_onnx(versions["sentiment", "fp32"] / "model.onnx").one_row_at_a_time


def test_a_manifest_that_names_a_missing_file_is_refused(store: Store) -> None:
    directory = store(graph().SerializeToString())
    edit(directory, lambda manifest: manifest["files"].pop("model.onnx"))
    assert refused(directory) is ModelFileCorrupt


def test_a_version_from_before_exports_is_served_by_torch(tiny_base: Path, tmp_path: Path) -> None:
    network = open_network(tiny_base, "classification", ["positive", "negative"]).network
    tokenizer = open_tokenizer(tiny_base)
    directory, manifest = write_version(tmp_path, content(), lambda folder: save_network(folder, network, tokenizer))
    edit(directory, lambda manifest: manifest.pop("serving"))
    assert load_target(directory).version == manifest.version
    with pytest.raises(RuntimeNotAvailable):
        load_target(directory, "onnx")
