"""The bare forward pass of the served artefact: only the network, on rows that are already tokenized."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ml_backend.encoding import TextEncoder, TokenArray, read_tokenizer
from templates.spec import TaskSpec

Arrays = Mapping[str, TokenArray]
Pass = Callable[[Arrays], object]


class Bare:
    """One forward pass after another, one thread each, timed; a long passage takes several."""

    def __init__(self, directory: Path, spec: TaskSpec, rows: Sequence[Mapping[str, str]]) -> None:
        self.what, self._forward, names = _onnx(directory) or _torch(directory, spec)
        encoder = TextEncoder(read_tokenizer(directory), spec.model.max_length, 0, with_types=True)
        self._rows = [
            [{name: arrays[name] for name in names} for arrays in _arrays(encoder, spec, row)] for row in rows
        ]
        self.times: list[float] = []

    def run(self, seconds: float) -> None:
        """Run for a number of seconds."""
        end = time.monotonic() + seconds
        place = 0
        while time.monotonic() < end:
            row = self._rows[place % len(self._rows)]
            began = time.perf_counter()
            for arrays in row:
                self._forward(arrays)
            self.times.append(time.perf_counter() - began)
            place += 1

    @property
    def p50_ms(self) -> float:
        """Return the median in milliseconds."""
        return sorted(self.times)[len(self.times) // 2] * 1_000


def _arrays(encoder: TextEncoder, spec: TaskSpec, row: Mapping[str, str]) -> Iterator[Arrays]:
    texts = tuple(row[name] for name in spec.model_input)
    if spec.kind != "qa":
        yield encoder.arrays(encoder.texts([texts]))
        return
    question, passage = texts
    for window in encoder.windows(question, passage, spec.model.doc_stride).windows:
        yield encoder.arrays([window.tokens])


def _onnx(directory: Path) -> tuple[str, Pass, list[str]] | None:
    files = sorted(directory.glob("*.onnx"), key=lambda file: file.stat().st_size)
    if not files:
        return None
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(files[0]), options, providers=["CPUExecutionProvider"])
    return files[0].name, lambda arrays: session.run(None, arrays), [one.name for one in session.get_inputs()]


def _torch(directory: Path, spec: TaskSpec) -> tuple[str, Pass, list[str]]:
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

    torch.set_num_threads(1)
    loader = AutoModelForQuestionAnswering if spec.kind == "qa" else AutoModelForSequenceClassification
    network = loader.from_pretrained(directory, local_files_only=True).eval()

    def forward(arrays: Arrays) -> object:
        with torch.inference_mode():
            return network(**{name: torch.from_numpy(value) for name, value in arrays.items()})

    return "model.safetensors", forward, ["input_ids", "attention_mask", "token_type_ids"]
