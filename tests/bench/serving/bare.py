"""The bare forward pass of the served artefact: only the network, on rows that are already tokenized."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

Pass = Callable[[dict[str, Any]], object]


class Bare:
    """One forward pass after another, one thread each, timed."""

    def __init__(self, directory: Path, texts: Sequence[str], max_length: int) -> None:
        tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length)
        encoded = tokenizer.encode_batch(list(texts))
        self._rows = [
            {
                "input_ids": np.array([one.ids], dtype=np.int64),
                "attention_mask": np.array([one.attention_mask], dtype=np.int64),
                "token_type_ids": np.array([one.type_ids], dtype=np.int64),
            }
            for one in encoded
        ]
        self.what, self._forward = _onnx(directory) or _torch(directory)
        self.times: list[float] = []

    def run(self, seconds: float) -> None:
        """Run for a number of seconds."""
        end = time.monotonic() + seconds
        place = 0
        while time.monotonic() < end:
            row = self._rows[place % len(self._rows)]
            began = time.perf_counter()
            self._forward(row)
            self.times.append(time.perf_counter() - began)
            place += 1

    @property
    def p50_ms(self) -> float:
        """Return the median in milliseconds."""
        return sorted(self.times)[len(self.times) // 2] * 1_000


def _onnx(directory: Path) -> tuple[str, Pass] | None:
    files = sorted(directory.glob("*.onnx"), key=lambda file: file.stat().st_size)
    if not files:
        return None
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(files[0]), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return files[0].name, lambda row: session.run(None, {name: row[name] for name in names})


def _torch(directory: Path) -> tuple[str, Pass]:
    import torch
    from transformers import AutoModelForSequenceClassification

    torch.set_num_threads(1)
    network = AutoModelForSequenceClassification.from_pretrained(directory, local_files_only=True).eval()

    def forward(row: dict[str, Any]) -> object:
        with torch.inference_mode():
            return network(**{name: torch.from_numpy(value) for name, value in row.items()})

    return "model.safetensors", forward
