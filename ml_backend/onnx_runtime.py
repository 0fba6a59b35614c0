"""Networks that ONNX Runtime runs, without PyTorch and without transformers."""

import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]

from common.errors import one_line
from ml_backend.encoding import TextEncoder, read_tokenizer
from ml_backend.errors import ModelError
from ml_backend.manifest import ONNX
from ml_backend.onnx_file import OnnxFile, check_onnx
from ml_backend.runtime import OUTPUTS, Kind, Scores, TokenArray

WARM_UP = "A sentence of quite ordinary length, so that a first pass through the network tells how long others take."
# More threads are taken from requests that run at the same time: they must save this share of a pass.
WORTH_MORE_THREADS = 0.4
SECONDS_TO_MEASURE = 0.06

_NEEDED = {"input_ids", "attention_mask"}
_TYPES = "token_type_ids"

_threads_by_precision: dict[bool, int] = {}
_measuring = Lock()


class OnnxNetwork:
    """A Network in ONNX Runtime.

    Dynamic int8 takes its scales from the whole batch, so its rows are run one at a time, always: the same text gets
    the same answer however it is asked. Without such scales rows may share a batch.
    """

    def __init__(self, session: Any, outputs: tuple[str, ...], *, alone: bool) -> None:
        self.alone = alone
        self._run = partial(session.run, list(outputs))

    def run(self, inputs: Mapping[str, TokenArray]) -> tuple[Scores, ...]:
        try:
            return tuple(self._run(inputs))
        except Exception as error:
            # ONNX Runtime's errors have no class in common.
            raise ModelError(f"{ONNX} cannot be run ({one_line(error)}); export or train the model again") from error


def open_onnx(directory: Path, kind: Kind, labels: int, max_length: int) -> tuple[OnnxNetwork, TextEncoder]:
    """The network and the encoder in a version's folder, after the file was checked and has answered once."""
    file = check_onnx(directory / ONNX)
    if not _NEEDED <= file.inputs <= {*_NEEDED, _TYPES}:
        names = ", ".join(sorted(file.inputs)) or "nothing"
        raise ModelError(f"{file.path} reads {names[:200]}, not input_ids and attention_mask; train the model again")
    if file.outputs != set(OUTPUTS[kind]):
        raise ModelError(f"{file.path} does not give {', '.join(OUTPUTS[kind])}; train the model again")
    encoder = TextEncoder(read_tokenizer(directory), max_length, file.pad_id, with_types=_TYPES in file.inputs)
    sample = encoder.arrays(encoder.texts([(WARM_UP,)]))
    network = _network(file, kind, _threads(file, kind, sample))
    _check_outputs(file, network.run(sample), (1, labels) if kind == "classification" else sample["input_ids"].shape)
    return network, encoder


def _check_outputs(file: OnnxFile, given: tuple[Scores, ...], expected: tuple[int, ...]) -> None:
    for one in given:
        if not isinstance(one, np.ndarray) or one.dtype != np.float32 or one.shape != expected:
            shape = " x ".join(map(str, getattr(one, "shape", ()))) or type(one).__name__
            wanted = " x ".join(map(str, expected))
            raise ModelError(f"{file.path} gives {shape} scores where {wanted} are needed; train the model again")


def _network(file: OnnxFile, kind: Kind, threads: int) -> OnnxNetwork:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # A thread that spins while it waits takes a core from another request.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # What goes wrong is raised, and told once.
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(file.path), options, providers=_providers(file))
    except Exception as error:
        # ONNX Runtime's errors have no class in common.
        raise ModelError(f"{file.path} cannot be opened ({one_line(error)}); train the model again") from error
    return OnnxNetwork(session, OUTPUTS[kind], alone=file.alone)


def _providers(file: OnnxFile) -> list[str]:
    # Dynamic int8 has no kernels on GPUs: it would only be carried to and fro.
    cuda = "CUDAExecutionProvider"
    usable = not file.alone and cuda in onnxruntime.get_available_providers()
    return [cuda, "CPUExecutionProvider"] if usable else ["CPUExecutionProvider"]


def _threads(file: OnnxFile, kind: Kind, sample: Mapping[str, TokenArray]) -> int:
    """How many threads a pass is given: measured once in a process for int8, once for fp32."""
    with _measuring:
        if file.alone not in _threads_by_precision:
            cores = len(os.sched_getaffinity(0))
            if cores > 1:
                # One after the other: two networks at once would be the most memory that a server ever takes.
                several, single = (_seconds(_network(file, kind, threads), sample) for threads in (cores, 1))
                cores = cores if several <= (1 - WORTH_MORE_THREADS) * single else 1
            _threads_by_precision[file.alone] = cores
        return _threads_by_precision[file.alone]


def _seconds(network: OnnxNetwork, sample: Mapping[str, TokenArray]) -> float:
    network.run(sample)
    best, until = float("inf"), time.perf_counter() + SECONDS_TO_MEASURE
    while (began := time.perf_counter()) < until:
        network.run(sample)
        best = min(best, time.perf_counter() - began)
    return best
