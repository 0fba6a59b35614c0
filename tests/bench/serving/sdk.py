"""The request path of the official label-studio-ml SDK, rebuilt, for the benchmark to compare with.

The package index has only release 1.0.9 of 2022: it installs, but cannot be imported (it needs packages that it does
not name), and it speaks an older protocol. This does for each request what the current SDK, which is published as
source, does: Flask with its webhooks around every request, a model object that is built anew and reads the labelling
config with the SDK's own LabelInterface, a cache in SQLite behind an lru_cache, the SDK's own PredictionValue inside a
pydantic response, and jsonify. What a careful user would add is added: the pipeline is loaded once.
"""

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from flask import Flask, jsonify, request
from label_studio_sdk.label_interface.interface import LabelInterface
from label_studio_sdk.label_interface.objects import PredictionValue
from pydantic import BaseModel

Answer = Callable[[Mapping[str, str]], Mapping[str, Any]]

_log = logging.getLogger("sdk")


class Cache:
    """Values of a project in SQLite, with a cache of recent reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        with self._lock, sqlite3.connect(self._path) as connection:
            connection.execute("CREATE TABLE cache (project TEXT, key TEXT, value TEXT, PRIMARY KEY (project, key))")
        self.read = lru_cache(maxsize=100)(self._read)

    def _read(self, project: str, key: str) -> str | None:
        with self._lock, sqlite3.connect(self._path) as connection:
            query = "SELECT value FROM cache WHERE project = ? AND key = ?"
            found = connection.execute(query, (project, key)).fetchone()
        return str(found[0]) if found else None

    def write(self, project: str, key: str, value: str) -> None:
        with self._lock, sqlite3.connect(self._path) as connection:
            connection.execute("REPLACE INTO cache VALUES (?, ?, ?)", (project, key, value))
        self.read.cache_clear()


class ModelResponse(BaseModel):
    """The return value of a model's predict."""

    model_config = {"protected_namespaces": ()}
    model_version: str | None = None
    predictions: list[list[PredictionValue] | PredictionValue]


class SdkModel:
    """A model as users of the SDK write it: created for every request, around a shared pipeline."""

    def __init__(self, answer: Answer, cache: Cache, project: str, label_config: str) -> None:
        self._answer = answer
        self._cache = cache
        self._project = project
        self.label_interface = LabelInterface(config=label_config)
        if cache.read(project, "label_config") != label_config:
            cache.write(project, "label_config", label_config)
            cache.write(project, "parsed_label_config", json.dumps(label_config))
        if cache.read(project, "model_version") is None:
            cache.write(project, "model_version", "0.0.1")

    def predict(self, tasks: list[dict[str, Any]], context: dict[str, Any] | None) -> ModelResponse:
        written = {one["from_name"]: "\n".join(one["value"]["text"]) for one in (context or {}).get("result", [])}
        said = self._answer({**tasks[0]["data"], **written})
        from_name, to_name, _ = self.label_interface.get_first_tag_occurence("TextArea", "Text", _is_feedback)
        value = {"text": [f"The model says {said['label']} ({said['score']:.0%})."]}
        result = {"from_name": from_name, "to_name": to_name, "type": "textarea", "value": value}
        prediction = PredictionValue(score=said["score"], result=[result])
        return ModelResponse(model_version=self._cache.read(self._project, "model_version"), predictions=[prediction])


def _is_feedback(name: str) -> bool:
    return name == "feedback"


def sdk_app(answer: Answer, folder: Path) -> Flask:
    """The SDK's web application around a function that answers a row with a `label` and a `score`."""
    app = Flask("sdk")
    cache = Cache(folder / "cache.db")

    @app.before_request
    def log_request() -> None:
        _log.debug("Request headers: %s", request.headers)
        _log.debug("Request body: %s", request.get_data())

    @app.after_request
    def log_response(response: Any) -> Any:
        _log.debug("Response status: %s", response.status)
        _log.debug("Response body: %s", response.get_data())
        return response

    @app.post("/tasks/<task>/predict")
    def predict(task: str) -> Any:
        data: Any = request.json
        project = str(data.get("project")).split(".", 1)[0]
        params = data.get("params", {})
        model = SdkModel(answer, cache, project, data.get("label_config"))
        response = model.predict(data.get("tasks"), params.get("context"))
        for one in response.predictions:
            for prediction in one if isinstance(one, list) else [one]:
                prediction.model_version = prediction.model_version or response.model_version
        return jsonify({"results": response.model_dump()["predictions"]})

    @app.get("/health")
    def health() -> Any:
        return jsonify({"status": "UP"})

    return app
