import json
import pickle
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging as transformers_logging

from common.errors import Hint
from ml_backend import checkpoint
from ml_backend.checkpoint import check_weights, embedded_encoder, open_checkpoint
from ml_backend.errors import ModelError, ModelFileCorrupt, ModelFileUnsafe, ModelNotFound
from ml_backend.hashing import file_sha256
from ml_backend.targets.torch_runtime import open_network, open_tokenizer


@pytest.fixture
def copied(tiny_base: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may change."""
    return Path(shutil.copytree(tiny_base, tmp_path / "copied"))


def refused(directory: Path) -> ModelError:
    """The error of opening the directory; its message must be one line."""
    with pytest.raises(ModelError) as caught:
        open_network(open_checkpoint(str(directory)).directory, "classification", ["a", "b"])
    assert "\n" not in str(caught.value)
    return caught.value


def change(file: Path, **values: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_local_directory_opens(tiny_base: Path) -> None:
    found = open_checkpoint(str(tiny_base))
    opened = open_network(found.directory, "classification", ["a", "b"])
    assert found.name == "tiny", "a card must not disclose paths"
    assert opened.new_weights == {"classifier.weight", "classifier.bias"}
    assert open_tokenizer(found.directory).is_fast


def test_the_embedded_encoder_opens_by_name() -> None:
    assert open_checkpoint("embedded").sha256.startswith("53aa5117")


@pytest.mark.parametrize(
    "name",
    ["pytorch_model.bin", "model.pt", "old/model.ckpt", "weights.PTH", "data.pkl", "tf.h5", "flax.msgpack", "a.npy"],
)
def test_a_directory_with_a_file_that_could_run_code_is_refused(copied: Path, name: str) -> None:
    (copied / name).parent.mkdir(exist_ok=True)
    (copied / name).write_bytes(b"anything")
    assert type(refused(copied)) is ModelFileUnsafe


def test_a_pickle_under_a_harmless_name_is_refused_and_not_opened(copied: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "exploded",)

    (copied / "notes.txt").write_bytes(pickle.dumps(Bomb()))
    assert type(refused(copied)) is ModelFileUnsafe
    assert not (tmp_path / "exploded").exists()


def test_code_in_the_directory_is_refused(copied: Path) -> None:
    (copied / "modeling_own.py").write_text("raise SystemExit")
    assert type(refused(copied)) is ModelFileUnsafe


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_model_that_asks_for_remote_code_is_refused(copied: Path, file: str) -> None:
    change(copied / file, auto_map={"AutoModel": "modeling_own.Own"})
    assert type(refused(copied)) is ModelFileUnsafe


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_an_incomplete_directory_is_refused(copied: Path, missing: str) -> None:
    (copied / missing).unlink()
    assert type(refused(copied)) is ModelFileCorrupt


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_weights_are_refused_before_transformers_sees_them(copied: Path, keep: int) -> None:
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    assert type(refused(copied)) is ModelFileCorrupt


def test_weights_with_a_hostile_header_are_refused(copied: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    (copied / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert type(refused(copied)) is ModelFileCorrupt


def test_weights_of_another_shape_are_refused(copied: Path) -> None:
    tensors = load_file(copied / "model.safetensors")
    name = "embeddings.LayerNorm.weight"
    tensors[name] = np.ones(7, dtype=np.float32)
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    assert name in str(refused(copied))


def test_weights_without_a_layer_are_refused(copied: Path) -> None:
    tensors = load_file(copied / "model.safetensors")
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    assert "encoder.layer.1.output.dense.weight" in str(refused(copied))


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, ""])
def test_a_config_that_is_not_a_json_object_is_refused(copied: Path, content: str) -> None:
    (copied / "config.json").write_text(content)
    assert type(refused(copied)) is ModelFileCorrupt


def test_a_config_with_absurd_numbers_is_refused(copied: Path) -> None:
    change(copied / "config.json", num_hidden_layers=10**9)
    assert type(refused(copied)) is ModelFileCorrupt


def test_a_model_of_an_unknown_architecture_is_refused(copied: Path) -> None:
    change(copied / "config.json", model_type="something_new")
    assert type(refused(copied)) is ModelFileCorrupt


def test_an_index_that_points_out_of_the_directory_is_refused(copied: Path) -> None:
    (copied / "model.safetensors").unlink()
    (copied / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "../elsewhere.safetensors"}}))
    assert type(refused(copied)) is ModelFileCorrupt


@pytest.mark.parametrize("base", ["someone/some-model", "some-model"])
def test_a_hub_model_that_cannot_be_fetched_is_not_found(base: str) -> None:
    with pytest.raises(ModelNotFound):
        open_checkpoint(base)


@pytest.mark.parametrize("base", ["/no/such/directory", "./no", "a/b/c", "not an id"])
def test_a_missing_directory_is_not_found(base: str) -> None:
    with pytest.raises(ModelNotFound):
        open_checkpoint(base)


def test_opening_a_model_prints_nothing_and_restores_the_settings_of_transformers(
    tiny_base: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    open_network(tiny_base, "qa")
    assert capfd.readouterr() == ("", "")
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == before


def test_half_precision_weights_are_opened_as_fp32(tiny_base: Path, tmp_path: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(tiny_base, num_labels=2)
    model.half().save_pretrained(tmp_path / "half")
    shutil.copyfile(tiny_base / "tokenizer.json", tmp_path / "half" / "tokenizer.json")
    opened = open_network(tmp_path / "half", "classification", ["a", "b"])
    assert {str(parameter.dtype) for parameter in opened.network.parameters()} == {"torch.float32"}


def test_the_embedded_encoder_has_the_pinned_weights() -> None:
    assert (embedded_encoder() / "config.json").is_file()


def test_weights_of_another_hash_are_refused(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"something else")
    with pytest.raises(ModelFileCorrupt) as caught:
        check_weights(weights, checkpoint.EMBEDDED_SHA256)
    assert caught.value.hint == Hint("reinstall_embedded_encoder")


def test_weights_replaced_after_the_first_check_are_noticed(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"right")
    expected = file_sha256(weights)
    check_weights(weights, expected)
    weights.write_bytes(b"wrong")
    with pytest.raises(ModelFileCorrupt):
        check_weights(weights, expected)


def test_unchanged_weights_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"right")
    read: list[Path] = []

    def hashed(path: Path) -> str:
        read.append(path)
        return "hash"

    monkeypatch.setattr(checkpoint, "file_sha256", hashed)
    for _ in range(3):
        check_weights(weights, "hash")
    assert read == [weights]


def test_a_missing_encoder_has_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "EMBEDDED_PACKAGE", "no_such_package_here")
    with pytest.raises(ModelNotFound) as caught:
        embedded_encoder()
    assert caught.value.hint == Hint("reinstall_embedded_encoder")
