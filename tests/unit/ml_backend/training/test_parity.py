"""What training exports to serve a version, and what it does when an export is not as good."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from transformers import AutoModel, DebertaV2Config, DistilBertConfig, RobertaConfig

from ml_backend.artefact import verify
from ml_backend.errors import ModelParityFailed, RuntimeNotAvailable, TrainingCancelled
from ml_backend.evaluation import evaluate
from ml_backend.manifest import trained_only
from ml_backend.targets.loading import load_target
from ml_backend.targets.target import LabelPrediction, Prediction, SpanPrediction
from ml_backend.training import TrainingResult, parity, train
from ml_backend.training.data import TrainingData
from ml_backend.training.parity import (
    Form,
    agree,
    agreement,
    export_fp32,
    highest_share,
    lowest_loss,
    predict_held_out,
)
from ml_backend.training.start import ProgressMonitor
from templates import SeedRow, find_pack
from tests.unit.ml_backend.conftest import (
    MakePack,
    ProgressLog,
    label_row,
    nli_rows,
    qa_rows,
    quick,
    sentiment_rows,
    visible,
)

ROWS: dict[str, list[SeedRow]] = {"sentiment": sentiment_rows(12, 8), "nli": nli_rows(12), "qa": qa_rows(12, 8)}
Limits = Callable[..., None]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Sets how far the forms of a network must agree with it, in points."""

    def limits(*, int8: float, fp32: float = 99.9, lost: float = 100.0) -> None:
        monkeypatch.setattr(parity, "MIN_AGREEMENT", {"int8": int8, "fp32": fp32})
        monkeypatch.setattr(parity, "MAX_LOSS", lost)

    return limits


def trained(make_pack: MakePack, folder: Path, task: str = "sentiment", **more: Any) -> TrainingResult:
    return train(make_pack(task), folder, rows=ROWS[task], settings=quick(), **more)


@pytest.mark.parametrize(("precision", "least"), [("int8", 0.0), ("fp32", 101.0)])
@pytest.mark.parametrize("task", ["nli", "qa"])
def test_the_serving_record_describes_the_stored_files(
    make_pack: MakePack, tmp_path: Path, limits: Limits, task: str, precision: str, least: float
) -> None:
    limits(int8=least)
    made = trained(make_pack, tmp_path, task)
    serving = trained_only(verify(made.directory)).serving
    assert serving is not None
    assert (serving.runtime, serving.precision) == ("onnx", precision)
    spec = make_pack(task).spec
    data = TrainingData.of(ROWS[task], spec)
    served, reference = (
        predict_held_out(load_target(made.directory, runtime), data, ProgressMonitor(None, None), "")
        for runtime in ("onnx", "torch")
    )
    assert serving.agreement == agreement(reference, served, data)
    assert (serving.rows, serving.headline, serving.torch_headline) == (
        len(data.held_out),
        served.points,
        reference.points,
    )
    told = {name: value for name, value in made.metrics.items() if name != "epoch"}
    assert told == evaluate(load_target(made.directory), data.held_out, spec), "figures are those of what serves"


def test_int8_serves_if_it_agrees(make_pack: MakePack, tmp_path: Path, limits: Limits) -> None:
    limits(int8=0.0)
    made = trained(make_pack, tmp_path)
    assert made.manifest.serving is not None
    assert made.manifest.serving.why is None
    assert (made.directory / "model.onnx").stat().st_size < (made.directory / "model.safetensors").stat().st_size / 2
    assert "ONNX Runtime in int8, which agrees" in (made.directory / "README.md").read_text(encoding="utf-8")


def test_int8_that_disagrees_is_replaced_by_fp32_with_a_reason(
    make_pack: MakePack, tmp_path: Path, limits: Limits
) -> None:
    limits(int8=101.0)
    made = trained(make_pack, tmp_path)
    assert made.manifest.serving is not None
    assert made.manifest.serving.precision == "fp32"
    assert "int8 agrees with PyTorch on" in str(made.manifest.serving.why)
    assert "not int8, because" in (made.directory / "README.md").read_text(encoding="utf-8")


def test_int8_that_loses_points_is_replaced_even_if_it_agrees(
    make_pack: MakePack, tmp_path: Path, limits: Limits
) -> None:
    limits(int8=0.0, lost=-101.0)
    made = trained(make_pack, tmp_path)
    assert made.manifest.serving is not None
    assert made.manifest.serving.runtime == "torch", "the limit is the same for both"
    assert "int8 drops from" in str(made.manifest.serving.why)


def refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("operator aten::strange is not\nsupported")


def test_a_network_that_cannot_be_exported_is_served_by_torch(
    make_pack: MakePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.onnx, "export", refuse)
    made = trained(make_pack, tmp_path)
    serving = made.manifest.serving
    assert serving is not None
    assert (serving.runtime, serving.precision, serving.agreement) == ("torch", "fp32", 100.0)
    assert serving.headline == serving.torch_headline
    assert "aten::strange is not supported" in str(serving.why)
    assert "aten::strange" in caplog.text
    assert "PyTorch, because" in (made.directory / "README.md").read_text(encoding="utf-8")
    assert not (made.directory / "model.onnx").exists()
    assert len(load_target(made.directory).predict([{"text": "x"}])) == 1
    with pytest.raises(RuntimeNotAvailable, match="aten::strange"):
        load_target(made.directory, "onnx")


def test_an_export_with_other_predictions_is_not_served(
    make_pack: MakePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(network: Any, *more: Any) -> None:
        with torch.no_grad():
            network.classifier.weight.neg_()
            export_fp32(network, *more)
            network.classifier.weight.neg_()

    monkeypatch.setattr(parity, "export_fp32", wrong)
    made = trained(make_pack, tmp_path)
    assert made.manifest.serving is not None
    assert made.manifest.serving.runtime == "torch"
    assert "fp32 agrees with PyTorch on" in str(made.manifest.serving.why)


def test_no_path_is_in_a_reason(make_pack: MakePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(network: Any, encoder: Any, kind: Any, path: Path) -> None:
        path.write_bytes(b"torn")

    monkeypatch.setattr(parity, "export_fp32", torn)
    made = trained(make_pack, tmp_path)
    assert made.manifest.serving is not None
    assert "not a complete ONNX file" in str(made.manifest.serving.why)
    assert "/tmp" not in str(made.manifest.serving.why)


def test_training_prints_and_logs_nothing(
    make_pack: MakePack, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before = list(root.handlers), list(root.filters), root.level
    trained(make_pack, tmp_path)
    assert (root.handlers, root.filters, root.level) == before
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("stage", ["has not seen", "int8", "fp32"])
def test_a_training_that_is_cancelled_while_it_checks_writes_nothing(
    make_pack: MakePack, tmp_path: Path, limits: Limits, stage: str
) -> None:
    limits(int8=101.0)
    seen = ProgressLog()
    with pytest.raises(TrainingCancelled):
        trained(make_pack, tmp_path, progress=seen, cancel=lambda: any(stage in one for one in seen.stages))
    assert visible(tmp_path) == []


@pytest.mark.parametrize("kind", ["distilbert", "roberta", "deberta"])
def test_encoders_of_other_kinds_are_exported_too(
    make_pack: MakePack, tiny_base: Path, tmp_path: Path, limits: Limits, kind: str
) -> None:
    limits(int8=101.0)
    base = other_base(kind, tiny_base, tmp_path / kind)
    made = train(make_pack("sentiment", base=base), tmp_path / "models", rows=ROWS["sentiment"], settings=quick())
    assert made.manifest.serving is not None
    assert (made.manifest.serving.runtime, made.manifest.serving.agreement) == ("onnx", 100.0)
    served, reference = (load_target(made.directory, runtime) for runtime in ("onnx", "torch"))
    rows = [{"text": "One " + "and another " * number} for number in range(40)]
    for ours, theirs in zip(served.predict(rows), reference.predict(rows), strict=True):
        assert ours.confidence == pytest.approx(theirs.confidence, abs=1e-4)


def other_base(kind: str, tiny_base: Path, directory: Path) -> Path:
    """A tiny network of another kind, whose tokenizer gives no types."""
    sizes = {"vocab_size": 30_522, "max_position_embeddings": 140, "pad_token_id": 0}
    bert = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    own: dict[str, tuple[Any, dict[str, Any]]] = {
        "distilbert": (DistilBertConfig, {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
        "roberta": (RobertaConfig, bert),
        "deberta": (DebertaV2Config, {**bert, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    }
    config, more = own[kind]
    auto: Any = AutoModel
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        auto.from_config(config(**sizes, **more)).save_pretrained(directory)
    shutil.copyfile(tiny_base / "tokenizer.json", directory / "tokenizer.json")
    settings = json.loads((tiny_base / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "attention_mask"]}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return directory


def label(name: str, share: float = 1.0) -> LabelPrediction:
    return LabelPrediction(name, {name: share})


def span(text: str) -> SpanPrediction:
    return SpanPrediction(text, 0, len(text), 0.5)


def test_equal_labels_agree_whatever_their_confidence() -> None:
    row, spec = label_row(0, "positive", text="x"), find_pack("sentiment").spec
    assert agree(label("positive", 0.9), label("positive", 0.4), row, spec)
    assert not agree(label("negative"), label("neutral"), row, spec), "two wrong labels are two answers"


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("the green boat", "Green boat.", True),
        ("old green boat", "green boat", True),
        ("green boat", "harbour master", False),
        ("wrong thing", "another matter", False),
        # They overlap enough to pass for each other, but only one of them is right enough not to be fooled.
        ("boat of Anna Keel", "Anna Keel herself", False),
    ],
)
def test_spans_agree_if_every_verdict_is_the_same(one: str, two: str, *, same: bool) -> None:
    row = SeedRow("0", "held_out", {"question": "?", "passage": "p"}, None, "green boat of", 0, {})
    assert agree(span(one), span(two), row, find_pack("qa").spec) is same
    assert agree(span(two), span(one), row, find_pack("qa").spec) is same


def test_answers_of_different_kinds_never_agree() -> None:
    answers: list[Prediction] = [label("positive"), span("positive")]
    assert not agree(answers[0], answers[1], label_row(0, "positive", text="x"), find_pack("sentiment").spec)


def test_few_rows_leave_more_room_for_chance_than_many() -> None:
    assert highest_share(96.0, 100) > 98.0 > highest_share(96.0, 1_000)
    assert highest_share(100.0, 50) == pytest.approx(100.0)


def test_a_loss_counts_only_beyond_what_chance_explains() -> None:
    right = [1.0] * 100
    assert lowest_loss(right, right) == 0.0
    assert lowest_loss(right, [0.0] * 2 + [1.0] * 98) < 1.0
    assert lowest_loss(right, [0.0] * 12 + [1.0] * 88) > 1.0


def test_int8_keeps_sensitive_products_in_fp32_if_it_disagrees_without_them(
    make_pack: MakePack, tmp_path: Path, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(int8=0.0)
    check = parity._check

    def refuse_pure_int8(job: Any, form: Form, reference: Any) -> Any:
        if form == Form("int8"):
            raise ModelParityFailed("int8 disagrees")
        return check(job, form, reference)

    monkeypatch.setattr(parity, "_check", refuse_pure_int8)
    made = trained(make_pack, tmp_path)
    serving = made.manifest.serving
    assert serving is not None
    assert (serving.runtime, serving.precision, serving.fp32_products, serving.why) == ("onnx", "int8", 2, None)
    assert "2 products in fp32" in (made.directory / "README.md").read_text(encoding="utf-8")
    file = onnx.load_model(made.directory / "model.onnx")
    constant = {one.name for one in file.graph.initializer}
    kept = [node for node in file.graph.node if node.op_type == "MatMul" and node.input[1] in constant]
    assert len(kept) == 2
