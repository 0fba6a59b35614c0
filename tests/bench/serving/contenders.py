"""The servers that ours is compared with, each in a separate process: `contenders.py NAME PORT TASK FOLDER`.

The folder is that of the version.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from templates import Pack, find_pack
from tests.bench.serving.sdk import Answer, sdk_app

# As in the SDK's own container: one process, eight threads.
SDK_THREADS = 8


def sdk(port: int, pack: Pack, folder: Path) -> None:
    """The official SDK's request path around a transformers pipeline, its thread count tuned."""
    answer = _span_pipeline(pack, folder) if pack.spec.kind == "qa" else _label_pipeline(pack, folder)
    row = next(row.fields for row in pack.seed if row.split == "held_out")
    threads = _tune(lambda: answer(row))
    print(f"torch runs the pipeline fastest with {threads} thread(s)", file=sys.stderr)
    _gunicorn(lambda: sdk_app(answer, Path(tempfile.mkdtemp())), port)


def _label_pipeline(pack: Pack, folder: Path) -> Answer:
    from transformers import pipeline

    loaded = pipeline("text-classification", model=str(folder), tokenizer=str(folder), device="cpu")
    first, *second = pack.spec.model_input

    def answer(row: Mapping[str, str]) -> Mapping[str, Any]:
        said: Mapping[str, Any] = (
            loaded({"text": row[first], "text_pair": row[second[0]]}) if second else loaded([row[first]])[0]
        )
        return said

    return answer


def _span_pipeline(pack: Pack, folder: Path) -> Answer:
    """Answer questions as a user writes it: transformers 5 has no pipeline for them."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    length, stride = pack.spec.model.max_length, pack.spec.model.doc_stride

    def answer(row: Mapping[str, str]) -> Mapping[str, Any]:
        windows = tokenizer(
            row["question"], row["passage"], truncation="only_second", max_length=length, stride=stride, padding=True,
            return_overflowing_tokens=True, return_offsets_mapping=True, return_tensors="pt",
        )  # fmt: skip
        offsets = windows.pop("offset_mapping")
        windows.pop("overflow_to_sample_mapping")
        is_passage = torch.tensor([[part == 1 for part in one.sequence_ids] for one in windows.encodings])
        with torch.inference_mode():
            scores = network(**windows)
        starts, ends = (one.masked_fill(~is_passage, -1e9) for one in (scores.start_logits, scores.end_logits))
        spans = starts[:, :, None] + ends[:, None, :]
        # Spans of at most 30 tokens.
        spans = spans.masked_fill(~torch.ones(spans.shape[1:], dtype=torch.bool).triu().tril(29), -1e9)
        shares = spans.flatten().softmax(0)
        best = int(shares.argmax())
        window, place = divmod(best, spans.shape[1] ** 2)
        first, last = divmod(place, spans.shape[1])
        begin, end = int(offsets[window, first, 0]), int(offsets[window, last, 1])
        return {"label": row["passage"][begin:end], "score": float(shares[best])}

    return answer


def plain(port: int, pack: Pack, folder: Path) -> None:
    """Plain torch behind Flask, one thread for each pass."""
    import torch
    from flask import Flask, jsonify, request

    from ml_backend.targets.loading import load_target

    torch.set_num_threads(1)
    predictor = load_target(folder, runtime="torch")
    app = Flask("plain")

    @app.post("/tasks/<task>/predict")
    def predict(task: str) -> Any:
        data: Any = request.json
        written = {one["from_name"]: one["value"]["text"][0] for one in data["params"]["context"]["result"]}
        (answer,) = predictor.predict([{**data["tasks"][0]["data"], **written}])
        value = {"text": [f"The model says {answer.text} ({answer.confidence:.0%})."]}
        result = {"from_name": "feedback", "to_name": "prompt", "type": "textarea", "value": value}
        one = {"model_version": predictor.version, "score": answer.confidence, "result": [result]}
        return jsonify({"results": [one], "model_version": predictor.version})

    @app.get("/health")
    def health() -> Any:
        return jsonify({"status": "UP"})

    _gunicorn(lambda: app, port)


def _tune(call: Callable[[], object]) -> int:
    """Set torch to the number of threads with which a call is fastest."""
    import torch

    fastest: dict[int, float] = {}
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        torch.set_num_threads(threads)
        times = []
        for _ in range(30):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        fastest[threads] = sorted(times)[len(times) // 2]
    best = min(fastest, key=fastest.__getitem__)
    torch.set_num_threads(best)
    return best


def _gunicorn(make: Callable[[], Any], port: int) -> None:
    from gunicorn.app.base import BaseApplication

    class Application(BaseApplication):  # type: ignore[misc]
        def load_config(self) -> None:
            settings = {"bind": f"127.0.0.1:{port}", "workers": 1, "threads": SDK_THREADS, "timeout": 0}
            for name, value in {**settings, "worker_class": "gthread", "control_socket_disable": True}.items():
                self.cfg.set(name, value)

        def load(self) -> Any:
            return make()

    Application().run()


if __name__ == "__main__":
    name, port, task, folder = sys.argv[1:]
    {"sdk": sdk, "plain": plain}[name](int(port), find_pack(task), Path(folder))
