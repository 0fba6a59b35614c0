"""Networks that ONNX Runtime runs, without importing PyTorch or transformers."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]

from common.errors import one_line
from ml_backend.encoding import OUTPUTS, Kind, Scores, TextEncoder, TokenArray, read_tokenizer
from ml_backend.errors import ModelFileCorrupt
from ml_backend.manifest import ONNX
from ml_backend.model_files import OnnxFile, check_onnx

WARM_UP = "A sentence of quite ordinary length, so that a first pass through the network tells how long others take."
# Extra threads are taken from concurrent requests, so they must save at least this share of a pass.
WORTH_MORE_THREADS = 0.4
SECONDS_TO_MEASURE = 0.06

_NEEDED = {"input_ids", "attention_mask"}
_TYPES = "token_type_ids"

_threads_by_precision: dict[bool, int] = {}
_measuring = Lock()


class OnnxNetwork:
    """A Network in ONNX Runtime.

    Dynamic int8 takes its scales from the whole batch, so its rows run one at a time: the same text always gets the
    same answer. Without such scales, rows may share a batch.
    """

    def __init__(self, session: Any, outputs: tuple[str, ...], *, one_row_at_a_time: bool) -> None:
        self.one_row_at_a_time = one_row_at_a_time
        self._run = partial(session.run, list(outputs))

    def run(self, inputs: Mapping[str, TokenArray]) -> tuple[Scores, ...]:
        try:
            return tuple(self._run(inputs))
        except Exception as error:
            # ONNX Runtime's errors have no common base class.
            raise ModelFileCorrupt(
                f"{ONNX} cannot be run ({one_line(error)}); export or train the model again"
            ) from error


def open_onnx(
    directory: Path, kind: Kind, labels: int, max_length: int, pad_id: int | None = None
) -> tuple[OnnxNetwork, TextEncoder]:
    """Return the network and the encoder of a folder, after a check of the file and one trial pass.

    Versions that were trained here name their padding id in the file; for others, pass it.
    """
    file = check_onnx(directory / ONNX, pad_id)
    if not _NEEDED <= file.inputs <= {*_NEEDED, _TYPES}:
        names = ", ".join(sorted(file.inputs)) or "nothing"
        raise ModelFileCorrupt(f"{file.path} reads {names[:200]}, not input_ids and attention_mask; train it again")
    if file.outputs != set(OUTPUTS[kind]):
        raise ModelFileCorrupt(f"{file.path} does not return {', '.join(OUTPUTS[kind])}; train the model again")
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
            raise ModelFileCorrupt(f"{file.path} returns {shape} scores where {wanted} are needed; train it again")


def _network(file: OnnxFile, kind: Kind, threads: int) -> OnnxNetwork:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # A spinning thread would take a core from another request.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Failures are raised; the runtime need not log them as well.
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(file.path), options, providers=_providers(file))
    except Exception as error:
        # ONNX Runtime's errors have no common base class.
        raise ModelFileCorrupt(f"{file.path} cannot be opened ({one_line(error)}); train the model again") from error
    return OnnxNetwork(session, OUTPUTS[kind], one_row_at_a_time=file.one_row_at_a_time)


def _providers(file: OnnxFile) -> list[str]:
    # Dynamic int8 has no GPU kernels; data would only be copied back and forth.
    cuda = "CUDAExecutionProvider"
    usable = not file.one_row_at_a_time and cuda in onnxruntime.get_available_providers()
    return [cuda, "CPUExecutionProvider"] if usable else ["CPUExecutionProvider"]


def _threads(file: OnnxFile, kind: Kind, sample: Mapping[str, TokenArray]) -> int:
    """Return the number of threads for a pass, measured once per process for int8 and once for fp32."""
    with _measuring:
        if file.one_row_at_a_time not in _threads_by_precision:
            cores = _most_threads()
            if cores > 1:
                # One after the other: two networks at once would set the peak memory of a server.
                several = _seconds(_network(file, kind, cores), sample, time.perf_counter)
                # The time that one thread needs, not the time that it waits for a core: on a busy machine, several
                # threads would sometimes seem faster.
                single = _seconds(_network(file, kind, 1), sample, time.thread_time)
                cores = cores if several <= (1 - WORTH_MORE_THREADS) * single else 1
            _threads_by_precision[file.one_row_at_a_time] = cores
        return _threads_by_precision[file.one_row_at_a_time]


def _most_threads() -> int:
    """Return the number of processors, or what OMP_NUM_THREADS allows: processes that share a machine set it."""
    cores, limit = len(os.sched_getaffinity(0)), os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdecimal() and int(limit) else cores


def _seconds(network: OnnxNetwork, sample: Mapping[str, TokenArray], clock: Callable[[], float]) -> float:
    """Return the shortest time of a pass by the clock."""
    network.run(sample)
    best, until = float("inf"), time.perf_counter() + SECONDS_TO_MEASURE
    while time.perf_counter() < until:
        began = clock()
        network.run(sample)
        best = min(best, clock() - began)
    return best
