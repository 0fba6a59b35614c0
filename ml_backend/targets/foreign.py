"""Models that were not trained here: a Hugging Face folder with safetensors, or a folder with an ONNX file.

Files are checked before a library opens them: no pickle, no symbolic link, no code. Texts reach these models as they
are, because they were not trained on normalized ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from common.text import printable
from ml_backend.encoding import FILE as TOKENIZER
from ml_backend.encoding import Kind, Network, TextEncoder
from ml_backend.errors import ModelFileCorrupt, ModelMismatch, ModelNotFound
from ml_backend.hashing import file_sha256, json_sha256
from ml_backend.manifest import ONNX
from ml_backend.model_files import check_model_folder, read_json_object, refuse_code, refuse_links
from ml_backend.targets.label_mapping import LabelMapping, map_labels
from ml_backend.targets.target import Target
from ml_backend.targets.trained import TrainedClassifier, TrainedSpanFinder
from ml_backend.text import unchanged, unchanged_aligned

CONFIG, TOKENIZER_CONFIG = "config.json", "tokenizer_config.json"
# Longer texts are truncated where neither the tokenizer nor the network names a limit.
MAX_LENGTH = 512
DOC_STRIDE = 128
# Of a classifier; settings that announce more are refused.
MOST_LABELS = 1_000
# What determines the answers of a model, besides its weights.
_DECISIVE = (".json", ".txt", ".model", ".safetensors", ".onnx")
_NOT_DECISIVE = ("README.txt", "generation_config.json", "trainer_state.json", "all_results.json", "eval_results.json")

ForeignKind = Literal["huggingface", "onnx"]


@dataclass(frozen=True)
class ForeignModel:
    """A checked folder: its kind, the hash of what determines its answers, and the names of its outputs."""

    kind: ForeignKind
    directory: Path
    sha256: str
    output_names: tuple[str, ...]

    def mapping(self, labels: Sequence[str], given: Mapping[str, str] | None = None) -> LabelMapping:
        """Return the task's label for each output."""
        return map_labels(self.output_names, labels, given)


def inspect_folder(directory: Path, *, links_allowed: bool = False) -> ForeignModel:
    """Check a folder without loading the model; raise ModelError if it is not safe to open or not complete.

    Folders of the hub's cache consist of links.
    """
    if not directory.is_dir():
        raise ModelNotFound(f"model directory {directory} does not exist; check the path")
    if not links_allowed:
        refuse_links(directory)
    if (directory / ONNX).is_file() and not list(directory.glob("*.safetensors")):
        refuse_code(directory)
        for name in (TOKENIZER, CONFIG):
            if not (directory / name).is_file():
                raise ModelFileCorrupt(f"{directory} has no {name}; export it together with {ONNX}")
        kind: ForeignKind = "onnx"
    else:
        check_model_folder(directory)
        kind = "huggingface"
    return ForeignModel(kind, directory, _content_sha256(directory), _output_names(directory))


def open_foreign(
    kind: ForeignKind, directory: Path, version: str, task_kind: Kind, fields: Sequence[str], labels: Sequence[str]
) -> Target:
    """Return the target of a checked folder; `labels` are the task's, in the order of the model's outputs."""
    network: Network
    if kind == "onnx":
        from ml_backend.targets.onnx_runtime import open_onnx

        limit = _max_length(directory)
        network, encoder = open_onnx(directory, task_kind, len(labels), limit, _pad_id(directory))
    else:
        network, encoder = _open_torch(directory, task_kind)
    if task_kind == "qa":
        stride = min(DOC_STRIDE, encoder.max_length // 4)
        return TrainedSpanFinder(version, network, encoder, fields, stride, read=unchanged_aligned)
    return TrainedClassifier(version, network, encoder, labels, fields, read=unchanged)


def _open_torch(directory: Path, task_kind: Kind) -> tuple[Network, TextEncoder]:
    # PyTorch takes seconds to import.
    from ml_backend.targets.torch_runtime import (
        TorchNetwork,
        on_best_device,
        open_network,
        open_tokenizer,
        text_encoder,
    )

    opened = open_network(directory, task_kind)
    if opened.new_weights:
        raise ModelMismatch(
            f"{directory} has no output layer for {task_kind} (missing: {min(opened.new_weights)}); "
            "use a model that was fine-tuned for the task"
        )
    encoder = text_encoder(open_tokenizer(directory), opened.network, _max_length(directory))
    return TorchNetwork(on_best_device(opened.network), task_kind), encoder


def _max_length(directory: Path) -> int:
    config = read_json_object(directory / CONFIG)
    path = directory / TOKENIZER_CONFIG
    tokenizer = read_json_object(path) if path.is_file() else {}
    positions, pad = config.get("max_position_embeddings"), config.get("pad_token_id")
    if isinstance(positions, int) and config.get("model_type") in _OFFSET_POSITIONS and isinstance(pad, int):
        positions -= pad + 1
    limits = [one for one in (positions, tokenizer.get("model_max_length")) if isinstance(one, int) and one > 0]
    return min(MAX_LENGTH, *limits)


# Their first position comes after the padding id.
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "longformer", "mpnet", "xlm-roberta-xl", "data2vec-text")


def _pad_id(directory: Path) -> int:
    pad = read_json_object(directory / CONFIG).get("pad_token_id", 0)
    if not isinstance(pad, int) or pad < 0:
        raise ModelFileCorrupt(f"{directory / CONFIG} has no pad_token_id; export the model again")
    return pad


def _output_names(directory: Path) -> tuple[str, ...]:
    config = read_json_object(directory / CONFIG)
    named = config.get("id2label")
    count = config.get("num_labels", config.get("_num_labels", 2))
    # The file is a stranger's: nothing is built that it only announces.
    if max(len(named) if isinstance(named, dict) else 0, count if isinstance(count, int) else 0) > MOST_LABELS:
        raise ModelFileCorrupt(f"{CONFIG} has over {MOST_LABELS:,} labels; use a model with those of the task")
    if isinstance(named, dict) and named and all(str(place) in named for place in range(len(named))):
        return tuple(printable(str(named[str(place)])) for place in range(len(named)))
    return tuple(f"LABEL_{place}" for place in range(count if isinstance(count, int) else 2))


def _content_sha256(directory: Path) -> str:
    files = [
        path
        for path in sorted(directory.iterdir())
        if path.is_file() and path.suffix in _DECISIVE and path.name not in _NOT_DECISIVE
    ]
    return json_sha256({path.name: file_sha256(path) for path in files})
