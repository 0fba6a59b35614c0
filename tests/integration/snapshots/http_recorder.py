"""Note the shape of every answer that a WSGI application gives."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from tests.integration.snapshots.recorder import compare_shapes
from tests.integration.snapshots.shapes import Shape, merge, shape_of

JSON = ("application/json", "application/x-amz-json-1.1")
METRICS = "text/plain; version=0.0.4; charset=utf-8"

Name = Callable[[dict[str, Any]], str]


class HttpRecorder:
    """The shapes of answers, by the request's name, the answer's status and its content type."""

    def __init__(self) -> None:
        self.shapes: dict[str, dict[str, Shape]] = {}

    def wrap(self, app: Any, name: Name) -> Any:
        """Return the same application; `name` names a request in the snapshot."""

        def recorded(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            begun: list[Any] = []

            def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
                begun[:] = [status.split()[0], {key.lower(): value for key, value in headers}]
                return start_response(status, headers, *more)

            called = name(environ)
            answer = app(environ, start)
            try:
                body = b"".join(answer)
            finally:
                if hasattr(answer, "close"):
                    answer.close()
            content_type = begun[1].get("content-type") or "nothing"
            self._note(called, f"{begun[0]} {content_type}", body)
            return [body]

        return recorded

    def compare(self, name: str) -> None:
        """Check that every stored answer is still given, with its status, content type and keys."""
        compare_shapes(name, self.shapes)

    def _note(self, called: str, answer: str, body: bytes) -> None:
        shape: Shape = "not JSON"
        if answer.endswith(JSON) and body:
            shape = shape_of(json.loads(body))
        elif answer.endswith(METRICS):
            shape = dict(line.split()[2:4] for line in body.decode().splitlines() if line.startswith("# TYPE "))
        answers = self.shapes.setdefault(called, {})
        answers[answer] = merge(answers[answer], shape) if answer in answers else shape


def route_name(url_map: Any, also: Callable[[str], str | None] = lambda path: None) -> Name:
    """Name requests by their method and the rule of Flask that they match, or as `also` says."""

    def name(environ: dict[str, Any]) -> str:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        extra = also(path)
        if extra:
            return f"{method} {extra}"
        try:
            rule, _ = url_map.bind_to_environ(environ).match(return_rule=True)
        except Exception:  # noqa: BLE001 - what no rule matches is answered too
            return f"{method} elsewhere"
        return f"{method} {rule.rule}"

    return name


def routes(url_map: Any) -> set[str]:
    """Return every route of an application as `METHOD /rule`."""
    return {f"{method} {rule.rule}" for rule in url_map.iter_rules() for method in rule.methods - {"HEAD", "OPTIONS"}}
