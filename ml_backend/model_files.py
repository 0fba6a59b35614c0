"""Checks of model files before anything opens them: safetensors, ONNX and plain text, nothing that could run code."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from ml_backend.errors import ModelFileCorrupt, ModelFileUnsafe, ModelNotFound

if TYPE_CHECKING:
    import onnx

# Formats that some loader unpickles or runs.
PICKLES = (".bin", ".ckpt", ".dill", ".joblib", ".npy", ".npz", ".pickle", ".pkl", ".pt", ".pt2", ".pth", ".ptl")
PROGRAMS = (".h5", ".hdf5", ".keras", ".mar", ".msgpack", ".pb", ".py", ".pyc", ".pyd", ".so")
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
MAX_JSON_BYTES = 200_000_000
MAX_LAYERS = 1_000

PAD_ID = "pad_id"
# ONNX's own operators and those of ONNX Runtime; another domain would need code from elsewhere.
_DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})
# No encoder needs a loop, and an endless one would block a server.
_LOOPS = frozenset({"Loop", "Scan"})
# Operators that take their scales from the values in the batch.
_DYNAMIC_SCALES = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file that is safe to run: its inputs and outputs, its padding id, and whether rows may share a batch."""

    path: Path
    inputs: frozenset[str]
    outputs: frozenset[str]
    one_row_at_a_time: bool
    pad_id: int


def check_model_folder(directory: Path) -> tuple[Path, ...]:
    """Return the weight files of a folder that is safe to pass to transformers; raise ModelError otherwise."""
    if not directory.is_dir():
        raise ModelNotFound(f"model directory {directory} does not exist; check model.base")
    refuse_code(directory)
    return check_parts(directory)


def refuse_code(directory: Path) -> None:
    """Raise ModelFileUnsafe where a file in the folder could run code, whatever its name."""
    for path in sorted(directory.rglob("*")):
        if not path.is_file():
            continue
        if path.suffix.lower() in (*PICKLES, *PROGRAMS) or _looks_pickled(path):
            raise ModelFileUnsafe(
                f"{path} could run code when it is opened; save the model as safetensors and remove that file"
            )


def check_parts(directory: Path) -> tuple[Path, ...]:
    """Return the weight files of a folder whose config, tokenizer and weights are complete."""
    config = read_json_object(directory / "config.json")
    settings = [config]
    if (directory / "tokenizer_config.json").is_file():
        settings.append(read_json_object(directory / "tokenizer_config.json"))
    if any("auto_map" in part or "custom_pipelines" in part for part in settings):
        raise ModelFileUnsafe(f"{directory} requires its own code (auto_map); use a model that transformers supports")
    for name in ("num_hidden_layers", "n_layers", "num_layers"):
        if isinstance(config.get(name), int) and config[name] > MAX_LAYERS:
            raise ModelFileCorrupt(f"{directory / 'config.json'} asks for {config[name]} layers (limit: {MAX_LAYERS})")
    if not any((directory / name).is_file() for name in TOKENIZERS):
        raise ModelFileCorrupt(f"{directory} has no tokenizer.json; save the tokenizer next to the model")
    weights = tuple(_weight_files(directory))
    for path in weights:
        _check_safetensors(path)
    return weights


def read_json_object(path: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Return the JSON object in an untrusted file; raise ModelFileCorrupt if there is none."""
    try:
        if path.stat().st_size > max_bytes:
            raise ModelFileCorrupt(f"{path} is larger than {max_bytes:,} bytes; restore the file")
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelFileCorrupt(f"{path} is missing; use a complete model directory") from error
    except OSError as error:
        raise ModelFileCorrupt(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFileCorrupt(f"{path} is not JSON; restore the file") from error
    if not isinstance(value, dict):
        raise ModelFileCorrupt(f"{path} is not a JSON object; restore the file")
    return value


def refuse_links(directory: Path) -> None:
    """Raise ModelFileUnsafe where the folder contains a symbolic link, which could show any file of this machine."""
    for path in (directory, *sorted(directory.rglob("*"))):
        if path.is_symlink():
            raise ModelFileUnsafe(f"{path} is a symbolic link; copy the file that it points to into the folder")


def check_onnx(path: Path, pad_id: int | None = None) -> OnnxFile:
    """Return a description of an ONNX file; raise ModelError if it refers to other files or code, or loops.

    Files that were exported here name their padding id; for others, pass it.
    """
    import onnx

    model = _read_onnx(path)
    operators = set()
    for message in _messages(model):
        if isinstance(message, onnx.TensorProto):
            if message.external_data or message.data_location == onnx.TensorProto.EXTERNAL:
                raise ModelFileUnsafe(f"{path} loads weights from another file; export it with all weights inside")
        elif isinstance(message, onnx.NodeProto | onnx.FunctionProto | onnx.OperatorSetIdProto):
            if message.domain not in _DOMAINS:
                raise ModelFileUnsafe(
                    f"{path} needs operators of `{message.domain[:100]}`; export it with standard ONNX operators only"
                )
            if isinstance(message, onnx.NodeProto):
                operators.add(message.op_type)
    if operators & _LOOPS:
        raise ModelFileUnsafe(f"{path} contains a loop, which no encoder needs; export the model again")
    inputs, outputs = (frozenset(one.name for one in part) for part in (model.graph.input, model.graph.output))
    pad = _pad_id(path, model) if pad_id is None else pad_id
    return OnnxFile(path, inputs, outputs, bool(operators & _DYNAMIC_SCALES), pad)


def _looks_pickled(path: Path) -> bool:
    # A safetensors file starts with the length of its header, which may look like anything; it is checked separately.
    if path.suffix == ".safetensors":
        return False
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise ModelFileCorrupt(f"cannot read {path}: {error.strerror}") from error
    return head == b"PK\x03\x04" or (head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"))


def _weight_files(directory: Path) -> Iterator[Path]:
    index = directory / "model.safetensors.index.json"
    if (directory / "model.safetensors").is_file():
        yield directory / "model.safetensors"
    elif index.is_file():
        parts = read_json_object(index).get("weight_map")
        names = list(parts.values()) if isinstance(parts, dict) else []
        if not names or not all(isinstance(name, str) and _is_file_name(name) for name in names):
            raise ModelFileCorrupt(f"{index} does not name weight files of this folder; restore the file")
        yield from (directory / name for name in sorted(set(names)))
    else:
        raise ModelFileCorrupt(f"{directory} has no model.safetensors; save the model with safe_serialization")


def _is_file_name(name: str) -> bool:
    return Path(name).name == name and name.isprintable()


def _check_safetensors(path: Path) -> None:
    """Read the header, which compares the position and shape of every tensor with the length of the file."""
    try:
        with safe_open(path, framework="numpy") as file:
            empty = not list(file.keys())
    except FileNotFoundError as error:
        raise ModelFileCorrupt(f"{path} is missing; use a complete model directory") from error
    except (SafetensorError, OSError) as error:
        raise ModelFileCorrupt(f"{path} is not a complete safetensors file ({error}); copy or save it again") from error
    if empty:
        raise ModelFileCorrupt(f"{path} holds no weights; copy or save it again")


def _read_onnx(path: Path) -> "onnx.ModelProto":
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(path.read_bytes())
    except OSError as error:
        raise ModelFileCorrupt(f"cannot read {path}: {error.strerror}; restore the folder or train again") from error
    except DecodeError as error:
        raise ModelFileCorrupt(f"{path} is not a complete ONNX file; restore the folder or train again") from error
    return model


def _messages(message: Any) -> Iterator[Any]:
    """Yield the message and every message nested in it, without looking at the weights themselves."""
    import onnx

    yield message
    if isinstance(message, onnx.TensorProto):
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                yield from _messages(one)


def _pad_id(path: Path, model: "onnx.ModelProto") -> int:
    value = {entry.key: entry.value for entry in model.metadata_props}.get(PAD_ID, "")
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ModelFileCorrupt(f"{path} does not name its padding id ({PAD_ID}); train the model again")
    return int(value)
