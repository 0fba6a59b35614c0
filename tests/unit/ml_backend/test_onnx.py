"""Serving with ONNX Runtime: what it needs, what it promises, and which files it refuses."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from ml_backend import onnx_runtime
from ml_backend.artefact import write_version
from ml_backend.errors import ModelError
from ml_backend.network import open_network, open_tokenizer, save_network
from ml_backend.onnx_file import check_onnx
from ml_backend.predictor import load_predictor
from ml_backend.training import servable, train
from tests.unit.ml_backend.conftest import MakePack, nli_rows, qa_rows, quick, sentiment_rows
from tests.unit.ml_backend.test_artefact import content, edit

# In one process of a parallel run, so that its versions are made once.
pytestmark = pytest.mark.xdist_group("onnx")

ROWS = {"sentiment": sentiment_rows(12), "nli": nli_rows(12), "qa": qa_rows(12, before="Boats came in summer. " * 30)}
Store = Callable[[bytes], Path]
Change = Callable[[Any], object]


@pytest.fixture(scope="module")
def versions(make_pack: MakePack, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """A version of each task in int8 and in fp32, whatever they agree on."""
    found = {}
    root = tmp_path_factory.mktemp("versions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servable, "MOST_LOST", 100.0)
        for precision, least in (("int8", 0.0), ("fp32", 101.0)):
            patch.setattr(servable, "LEAST_AGREEMENT", {"int8": least, "fp32": 99.9})
            for task, rows in ROWS.items():
                made = train(make_pack(task, doc_stride=16), root, mode="head", rows=rows, settings=quick())
                assert made.manifest.serving is not None
                assert (made.manifest.serving.runtime, made.manifest.serving.precision) == ("onnx", precision)
                found[task, precision] = made.directory
    return found


PROGRAM = """
import sys
from pathlib import Path
from ml_backend.predictor import load_predictor
predictor = load_predictor(Path(sys.argv[1]))
print(len(predictor.predict([{name: "What a day." for name in sys.argv[2].split(",")}] * 3)))
heavy = ("torch", "transformers", "sklearn", "pandas", "scipy", "huggingface_hub")
print(",".join(name for name in heavy if name in sys.modules))
pages = int(Path("/proc/self/statm").read_text().split()[1])
print(pages * 4096 // 10**6)
"""


@pytest.mark.parametrize(("task", "fields"), [("sentiment", "text"), ("qa", "passage,question")])
def test_a_version_is_served_without_torch_and_transformers_in_little_memory(
    versions: dict[tuple[str, str], Path], task: str, fields: str
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(versions[task, "int8"]), fields]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    answers, heavy, megabytes = ran.stdout.split("\n")[:3]
    assert (answers, heavy, ran.stderr) == ("3", "", "")
    assert int(megabytes) < 200, "what the runtime itself takes, with a network of next to nothing"


@pytest.mark.parametrize("task", ["sentiment", "nli", "qa"])
def test_an_int8_answer_is_the_same_alone_and_among_others(versions: dict[tuple[str, str], Path], task: str) -> None:
    predictor = load_predictor(versions[task, "int8"])
    rows = [row.fields for row in ROWS[task]]
    together = predictor.predict(rows)
    assert together == [predictor.predict([row])[0] for row in rows]
    assert together == predictor.predict(rows[::-1])[::-1]


@pytest.mark.parametrize("task", ["sentiment", "nli", "qa"])
def test_an_fp32_answer_hangs_on_its_neighbours_in_the_last_digits_only(
    versions: dict[tuple[str, str], Path], task: str
) -> None:
    predictor = load_predictor(versions[task, "fp32"])
    rows = [row.fields for row in ROWS[task]]
    for row, answer in zip(rows, predictor.predict(rows), strict=True):
        (alone,) = predictor.predict([row])
        assert alone.confidence == pytest.approx(answer.confidence, abs=1e-5)


def test_threads_share_a_predictor(versions: dict[tuple[str, str], Path]) -> None:
    predictor = load_predictor(versions["sentiment", "int8"])
    rows = [{"text": f"Row {number} " + "more " * (number % 13)} for number in range(60)]
    expected = predictor.predict(rows)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda row: predictor.predict([row])[0], rows)) == expected


@pytest.mark.parametrize("task", ["sentiment", "nli", "qa"])
def test_torch_can_be_asked_for_and_is_what_fp32_says(versions: dict[tuple[str, str], Path], task: str) -> None:
    directory = versions[task, "fp32"]
    rows = [row.fields for row in ROWS[task]]
    served, reference = (load_predictor(directory, runtime) for runtime in ("auto", "torch"))
    assert served.version == reference.version == directory.name
    for ours, theirs in zip(served.predict(rows), reference.predict(rows), strict=True):
        assert ours.confidence == pytest.approx(theirs.confidence, abs=1e-4)


def test_a_runtime_that_does_not_exist_is_an_error_that_names_those_that_do(
    versions: dict[tuple[str, str], Path],
) -> None:
    with pytest.raises(ModelError, match="use auto, onnx, torch"):
        load_predictor(versions["sentiment", "int8"], "tensorflow")


def test_threads_are_measured_once_in_a_process(
    versions: dict[tuple[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[object] = []

    def seconds(network: object, _: object) -> float:
        measured.append(network)
        return 1.0

    monkeypatch.setattr(onnx_runtime, "_threads_by_precision", {})
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(onnx_runtime, "_seconds", seconds)
    for _ in range(3):
        load_predictor(versions["sentiment", "int8"])
    assert len(measured) == 2, "with one thread, and with all"


@pytest.mark.parametrize(("several", "threads"), [(0.59, 2), (0.61, 1), (2.0, 1)])
def test_more_threads_are_taken_only_where_they_save_much(
    versions: dict[tuple[str, str], Path], monkeypatch: pytest.MonkeyPatch, several: float, threads: int
) -> None:
    seconds = iter([several, 1.0])
    monkeypatch.setattr(onnx_runtime, "_threads_by_precision", {})
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(onnx_runtime, "_seconds", lambda *_: next(seconds))
    load_predictor(versions["sentiment", "int8"])
    assert onnx_runtime._threads_by_precision == {True: threads}


@pytest.fixture
def store(tiny_base: Path, tmp_path: Path) -> Store:
    """Stores a whole version whose model.onnx is what somebody hostile made it."""
    network = open_network(tiny_base, "classification", ["positive", "negative"]).network
    tokenizer = open_tokenizer(tiny_base)
    serving = {"runtime": "onnx", "precision": "int8", "agreement": 100.0, "rows": 2, "headline": 50.0}

    def store(data: bytes) -> Path:
        def save(folder: Path) -> None:
            save_network(folder, network, tokenizer)
            (folder / "model.onnx").write_bytes(data)

        return write_version(tmp_path, content(serving={**serving, "torch_headline": 50.0}), save)[0]

    return store


def refused(directory: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_predictor(directory)
    message = str(caught.value)
    assert "\n" not in message
    return message


def graph(
    *, inputs: tuple[str, ...] = ("input_ids", "attention_mask"), output: str = "logits", width: int = 2
) -> onnx.ModelProto:
    """A network of one number for each label, and the parts that a test spoils."""
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
    assert len(load_predictor(store(graph().SerializeToString())).predict([{"text": "x"}])) == 1


@pytest.mark.parametrize("data", [b"", b"\x00" * 50, b"hello there", b"\x08\x08" * 40, b"\xff" * 1000])
def test_bytes_that_are_no_network_are_refused(store: Store, data: bytes) -> None:
    assert "model.onnx" in refused(store(data))


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_a_torn_file_is_refused(versions: dict[tuple[str, str], Path], store: Store, keep: float) -> None:
    data = (versions["sentiment", "int8"] / "model.onnx").read_bytes()
    assert "model.onnx" in refused(store(data[: int(len(data) * keep)]))


def outside(tensor: Any) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../etc/passwd")


def hidden_in_a_branch(model: Any) -> None:
    """Puts a tensor from outside into a branch of an If."""
    tensor = helper.make_tensor("far", TensorProto.FLOAT, [1], [1.0])
    outside(tensor)
    given = helper.make_tensor_value_info("far", TensorProto.FLOAT, [1])
    branch = helper.make_graph([helper.make_node("Constant", [], ["far"], value=tensor)], "branch", [], [given])
    model.graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch))


def with_function(model: Any) -> None:
    function = helper.make_function("evil", "Own", ["a"], ["b"], [], [helper.make_opsetid("", 17)])
    model.functions.append(function)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: outside(model.graph.initializer[0]), "weights from another file"),
        (hidden_in_a_branch, "weights from another file"),
        (lambda model: setattr(model.graph.node[2], "domain", "com.evil"), "operators of `com.evil`"),
        (lambda model: model.opset_import.append(helper.make_opsetid("com.evil", 1)), "operators of `com.evil`"),
        (with_function, "operators of `evil`"),
        (lambda model: model.graph.node.append(helper.make_node("Loop", ["a", "b"], ["c"])), "has a loop"),
        (lambda model: setattr(model.graph.node[2], "op_type", "NoSuchThing"), "cannot be opened"),
        (lambda model: model.graph.initializer[0].dims.append(1000), "cannot be opened"),
        (lambda model: model.ClearField("metadata_props"), "pad_id"),
        (lambda model: helper.set_model_props(model, {"pad_id": "-1"}), "pad_id"),
        (lambda model: helper.set_model_props(model, {"pad_id": "9" * 50}), "pad_id"),
    ],
)
def test_a_network_with_anything_hostile_in_it_is_refused(store: Store, change: Change, message: str) -> None:
    model = graph()
    change(model)
    assert message in refused(store(model.SerializeToString()))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"inputs": ("ids", "attention_mask")}, "reads attention_mask, ids"),
        ({"inputs": ("input_ids",)}, "reads input_ids, not"),
        ({"inputs": ("input_ids", "attention_mask", "secret")}, "secret"),
        ({"output": "answers"}, "does not give logits"),
        ({"width": 3}, "gives 1 x 3 scores where 1 x 2 are needed"),
        ({"width": 1}, "gives 1 x 1 scores where 1 x 2 are needed"),
    ],
)
def test_a_network_that_does_not_fit_the_task_is_refused(store: Store, parts: Any, message: str) -> None:
    assert message in refused(store(graph(**parts).SerializeToString()))


def test_scales_that_hang_on_the_batch_are_seen_in_the_file_itself(versions: dict[tuple[str, str], Path]) -> None:
    assert check_onnx(versions["sentiment", "int8"] / "model.onnx").alone
    assert not check_onnx(versions["sentiment", "fp32"] / "model.onnx").alone


def test_a_manifest_that_promises_a_file_which_is_not_there_is_refused(store: Store) -> None:
    directory = store(graph().SerializeToString())
    edit(directory, lambda manifest: manifest["files"].pop("model.onnx"))
    assert "has no model.onnx" in refused(directory)


def test_a_version_from_before_there_was_a_choice_is_served_by_torch(tiny_base: Path, tmp_path: Path) -> None:
    network = open_network(tiny_base, "classification", ["positive", "negative"]).network
    tokenizer = open_tokenizer(tiny_base)
    directory, manifest = write_version(tmp_path, content(), lambda folder: save_network(folder, network, tokenizer))
    edit(directory, lambda told: told.pop("serving"))
    assert load_predictor(directory).version == manifest.version
    with pytest.raises(ModelError, match=r"has no model\.onnx .*; use runtime auto, or train it again"):
        load_predictor(directory, "onnx")
