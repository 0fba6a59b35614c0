"""The servers that ours is compared with, each in a separate process: `contenders.py NAME PORT MODELS VERSION`."""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

TASK = "sentiment"
# As in the SDK's own container: one process, eight threads.
SDK_THREADS = 8


def sdk(port: int, models: Path, version: str) -> None:
    """The official SDK's request path around a transformers pipeline, its thread count tuned."""
    from transformers import pipeline

    from tests.bench.serving.sdk import sdk_app

    directory = str(models / TASK / version)
    loaded = pipeline("text-classification", model=directory, tokenizer=directory, device="cpu")
    threads = _tune(lambda: loaded(["A sentence of ordinary length, to be judged by the model."]))
    print(f"torch runs the pipeline fastest with {threads} thread(s)", file=sys.stderr)
    _gunicorn(lambda: sdk_app(loaded, Path(tempfile.mkdtemp())), port)


def plain(port: int, models: Path, version: str) -> None:
    """Plain torch behind Flask, one thread for each pass."""
    import torch
    from flask import Flask, jsonify, request

    from ml_backend.targets.loading import load_target

    torch.set_num_threads(1)
    predictor = load_target(models / TASK / version, runtime="torch")
    app = Flask("plain")

    @app.post("/tasks/<task>/predict")
    def predict(task: str) -> Any:
        data: Any = request.json
        text = data["params"]["context"]["result"][0]["value"]["text"][0]
        (answer,) = predictor.predict([{"text": text}])
        value = {"text": [f"The model says {answer} ({answer.confidence:.0%})."]}
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
    name, port, models, version = sys.argv[1:]
    {"sdk": sdk, "plain": plain}[name](int(port), Path(models), version)
