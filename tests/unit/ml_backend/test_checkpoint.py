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

from ml_backend.checkpoint import open_checkpoint
from ml_backend.errors import ModelError
from ml_backend.network import open_network, open_tokenizer


@pytest.fixture
def spoilt(tiny_base: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may spoil."""
    return Path(shutil.copytree(tiny_base, tmp_path / "spoilt"))


def refused(directory: Path) -> str:
    """What is said when the directory is opened, which must fail in one line."""
    with pytest.raises(ModelError) as caught:
        open_network(open_checkpoint(str(directory)).directory, "classification", ["a", "b"])
    message = str(caught.value)
    assert "\n" not in message
    return message


def change(file: Path, **values: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_local_directory_opens(tiny_base: Path) -> None:
    checkpoint = open_checkpoint(str(tiny_base))
    opened = open_network(checkpoint.directory, "classification", ["a", "b"])
    assert checkpoint.name == "tiny", "a card must not tell where on which machine the model lay"
    assert opened.fresh == {"classifier.weight", "classifier.bias"}
    assert open_tokenizer(checkpoint.directory).is_fast


def test_the_embedded_encoder_opens_by_name() -> None:
    assert open_checkpoint("embedded").sha256.startswith("53aa5117")


@pytest.mark.parametrize(
    "name",
    ["pytorch_model.bin", "model.pt", "old/model.ckpt", "weights.PTH", "data.pkl", "tf.h5", "flax.msgpack", "a.npy"],
)
def test_a_directory_with_a_file_that_can_carry_code_is_refused(spoilt: Path, name: str) -> None:
    (spoilt / name).parent.mkdir(exist_ok=True)
    (spoilt / name).write_bytes(b"anything")
    assert Path(name).name in refused(spoilt)


def test_a_pickle_under_a_harmless_name_is_refused_and_not_opened(spoilt: Path, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "exploded",)

    (spoilt / "notes.txt").write_bytes(pickle.dumps(Bomb()))
    assert "notes.txt" in refused(spoilt)
    assert not (tmp_path / "exploded").exists()


def test_code_in_the_directory_is_refused(spoilt: Path) -> None:
    (spoilt / "modeling_own.py").write_text("raise SystemExit")
    assert "modeling_own.py" in refused(spoilt)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_model_that_asks_for_remote_code_is_refused(spoilt: Path, file: str) -> None:
    change(spoilt / file, auto_map={"AutoModel": "modeling_own.Own"})
    assert "auto_map" in refused(spoilt)


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_directory_that_is_not_whole_is_refused(spoilt: Path, missing: str) -> None:
    (spoilt / missing).unlink()
    assert missing in refused(spoilt)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_weights_are_refused_before_transformers_sees_them(spoilt: Path, keep: int) -> None:
    weights = spoilt / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    assert "not a whole safetensors file" in refused(spoilt)


def test_weights_with_a_hostile_header_are_refused(spoilt: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    (spoilt / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert "not a whole safetensors file" in refused(spoilt)


def test_weights_of_another_shape_are_refused(spoilt: Path) -> None:
    tensors = load_file(spoilt / "model.safetensors")
    name = "embeddings.LayerNorm.weight"
    tensors[name] = np.ones(7, dtype=np.float32)
    save_file(tensors, spoilt / "model.safetensors", metadata={"format": "pt"})
    assert name in refused(spoilt)


def test_weights_that_lack_a_layer_are_refused_instead_of_made_up(spoilt: Path) -> None:
    tensors = load_file(spoilt / "model.safetensors")
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, spoilt / "model.safetensors", metadata={"format": "pt"})
    assert "encoder.layer.1.output.dense.weight" in refused(spoilt)


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, ""])
def test_a_config_that_is_no_json_object_is_refused(spoilt: Path, content: str) -> None:
    (spoilt / "config.json").write_text(content)
    assert "config.json" in refused(spoilt)


def test_a_config_with_absurd_numbers_is_refused(spoilt: Path) -> None:
    change(spoilt / "config.json", num_hidden_layers=10**9)
    assert "layers" in refused(spoilt)


def test_a_model_of_an_unknown_architecture_is_refused(spoilt: Path) -> None:
    change(spoilt / "config.json", model_type="something_new")
    assert "cannot be opened" in refused(spoilt)


def test_an_index_that_points_out_of_the_directory_is_refused(spoilt: Path) -> None:
    (spoilt / "model.safetensors").unlink()
    (spoilt / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "../elsewhere.safetensors"}}))
    assert "index.json" in refused(spoilt)


@pytest.mark.parametrize("base", ["somebody/some-model", "some-model"])
def test_a_hub_model_without_a_network_says_what_to_do(base: str) -> None:
    with pytest.raises(ModelError, match="local directory"):
        open_checkpoint(base)


@pytest.mark.parametrize("base", ["/no/such/directory", "./no", "a/b/c", "not an id"])
def test_a_directory_that_is_not_there_is_an_error(base: str) -> None:
    with pytest.raises(ModelError, match="no model directory"):
        open_checkpoint(base)


def test_opening_a_model_prints_nothing_and_leaves_transformers_as_it_was(
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
