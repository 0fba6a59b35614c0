"""What may lie in a model's folder: safetensors, ONNX and plain text; nothing that could run code when it is read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from ml_backend.errors import ModelError

# Formats that are unpickled, or otherwise run code, by somebody's loader.
PICKLES = (".bin", ".ckpt", ".dill", ".joblib", ".npy", ".npz", ".pickle", ".pkl", ".pt", ".pt2", ".pth", ".ptl")
PROGRAMS = (".h5", ".hdf5", ".keras", ".mar", ".msgpack", ".pb", ".py", ".pyc", ".pyd", ".so")
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
MAX_JSON_BYTES = 200_000_000
MOST_LAYERS = 1_000


def check_model_folder(directory: Path) -> tuple[Path, ...]:
    """The weight files of a folder that is safe to give to transformers, or a ModelError."""
    if not directory.is_dir():
        raise ModelError(f"there is no model directory {directory}; check model.base")
    refuse_code(directory)
    return check_parts(directory)


def refuse_code(directory: Path) -> None:
    """Refuse a folder that holds a file which could carry code, under whatever name."""
    for path in sorted(directory.rglob("*")):
        if not path.is_file():
            continue
        if path.suffix.lower() in (*PICKLES, *PROGRAMS) or _looks_pickled(path):
            cure = "save the model as safetensors and remove that file"
            raise ModelError(f"{path} could run code when it is opened; {cure}")


def check_parts(directory: Path) -> tuple[Path, ...]:
    """The weight files of a folder whose config, tokenizer and weights are all there and whole."""
    config = read_json_object(directory / "config.json")
    settings = [config]
    if (directory / "tokenizer_config.json").is_file():
        settings.append(read_json_object(directory / "tokenizer_config.json"))
    if any("auto_map" in part or "custom_pipelines" in part for part in settings):
        raise ModelError(f"{directory} asks for code of its own (auto_map); use a model that transformers knows")
    for name in ("num_hidden_layers", "n_layers", "num_layers"):
        if isinstance(config.get(name), int) and config[name] > MOST_LAYERS:
            raise ModelError(f"{directory / 'config.json'} wants {config[name]} layers; that is no real model")
    if not any((directory / name).is_file() for name in TOKENIZERS):
        raise ModelError(f"{directory} has no tokenizer.json; save the tokenizer beside the model")
    weights = tuple(_weight_files(directory))
    for path in weights:
        _check_safetensors(path)
    return weights


def read_json_object(path: Path, most_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """The JSON object in a file that somebody else may have written."""
    try:
        if path.stat().st_size > most_bytes:
            raise ModelError(f"{path} is too large to be right; restore the file")
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing; point at a whole model directory") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON; restore the file") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object; restore the file")
    return value


def _looks_pickled(path: Path) -> bool:
    # A safetensors file begins with its header's length, which may look like anything; it is checked as a whole.
    if path.suffix == ".safetensors":
        return False
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    return head == b"PK\x03\x04" or (head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"))


def _weight_files(directory: Path) -> Iterator[Path]:
    index = directory / "model.safetensors.index.json"
    if (directory / "model.safetensors").is_file():
        yield directory / "model.safetensors"
    elif index.is_file():
        parts = read_json_object(index).get("weight_map")
        names = list(parts.values()) if isinstance(parts, dict) else []
        if not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
            raise ModelError(f"{index} names no weight files of this folder; restore the file")
        yield from (directory / name for name in sorted(set(names)))
    else:
        raise ModelError(f"{directory} has no model.safetensors; save the model with safe_serialization")


def _check_safetensors(path: Path) -> None:
    """Opening reads the header and compares every tensor's place and shape with the file's length."""
    try:
        with safe_open(path, framework="numpy") as file:
            empty = not list(file.keys())
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing; point at a whole model directory") from error
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is not a whole safetensors file ({error}); copy or save it again") from error
    if empty:
        raise ModelError(f"{path} holds no weights; copy or save it again")
