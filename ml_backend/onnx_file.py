"""model.onnx: the network as ONNX Runtime reads it, looked at before it is given to anybody."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ml_backend.errors import ModelError

PAD_ID = "pad_id"

# ONNX's own operators and those that ONNX Runtime brings; another domain would need code from elsewhere.
_DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})
# No encoder needs a loop, and one without an end would hold a server for ever.
_LOOPS = frozenset({"Loop", "Scan"})
# Scales that are taken from whatever is in the batch.
_DYNAMIC_SCALES = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})


@dataclass(frozen=True)
class OnnxFile:
    """A file that is safe to run: what goes in and out, whether its scales hang on the batch, what fills short rows."""

    path: Path
    inputs: frozenset[str]
    outputs: frozenset[str]
    alone: bool
    pad_id: int


def check_onnx(path: Path) -> OnnxFile:
    """Refuse a file that points to other files, needs operators of others, loops, or is no ONNX at all."""
    model = _read(path)
    operators = set()
    for message in _messages(model):
        if isinstance(message, onnx.TensorProto):
            if message.external_data or message.data_location == onnx.TensorProto.EXTERNAL:
                raise ModelError(f"{path} takes weights from another file; export it with all of them inside")
        elif isinstance(message, onnx.NodeProto | onnx.FunctionProto | onnx.OperatorSetIdProto):
            if message.domain not in _DOMAINS:
                raise ModelError(f"{path} needs operators of `{message.domain[:100]}`; export it with ONNX's own only")
            if isinstance(message, onnx.NodeProto):
                operators.add(message.op_type)
    if operators & _LOOPS:
        raise ModelError(f"{path} has a loop, which no encoder needs; export the model again")
    inputs, outputs = (frozenset(one.name for one in part) for part in (model.graph.input, model.graph.output))
    return OnnxFile(path, inputs, outputs, bool(operators & _DYNAMIC_SCALES), _pad_id(path, model))


def _read(path: Path) -> onnx.ModelProto:
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(path.read_bytes())
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}; restore the folder or train again") from error
    except DecodeError as error:
        raise ModelError(f"{path} is not a whole ONNX file; restore the folder or train again") from error
    return model


def _messages(message: Any) -> Iterator[Any]:
    """The message and all inside of it, wherever the format allows one; the weights themselves are not looked at."""
    yield message
    if isinstance(message, onnx.TensorProto):
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                yield from _messages(one)


def _pad_id(path: Path, model: onnx.ModelProto) -> int:
    told = {entry.key: entry.value for entry in model.metadata_props}.get(PAD_ID, "")
    if not (told.isascii() and told.isdigit() and len(told) < 10):
        raise ModelError(f"{path} does not tell what fills up short rows ({PAD_ID}); train the model again")
    return int(told)
