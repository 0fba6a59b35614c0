"""A minimal ML backend for Label Studio; it numbers its verdicts, so that tests can recognise a stale one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class CountingBackend:
    """The backend's URL, its interactive calls in order, and their paths."""

    url: str = ""
    to_name: str = ""
    asked: list[list[dict[str, Any]]] = field(default_factory=list)
    asked_at: list[str] = field(default_factory=list)

    def predict(self, context: dict[str, Any] | None, tasks: int, path: str) -> list[dict[str, Any]]:
        """Return one verdict for an interactive call, and none for a bulk call."""
        if context is None:
            return [{"result": [], "score": 0.0} for _ in range(tasks)]
        self.asked.append(context["result"])
        self.asked_at.append(path)
        text = {"text": [f"Verdict {len(self.asked)}"]}
        result = {"from_name": "feedback", "to_name": self.to_name, "type": "textarea", "value": text}
        return [{"result": [result], "score": 0.5}]


@contextmanager
def counting_backend(to_name: str) -> Iterator[CountingBackend]:
    """Run a backend on this machine until the end of the block."""
    backend = CountingBackend(to_name=to_name)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"status": "UP"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            if self.path.endswith("/predict"):
                results = backend.predict(body["params"]["context"], len(body["tasks"]), self.path)
                self._answer({"results": results, "model_version": "counting"})
            else:
                self._answer({"model_version": "counting"})

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Log nothing."""

        def _answer(self, what: dict[str, Any]) -> None:
            body = json.dumps(what).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    backend.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield backend
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
