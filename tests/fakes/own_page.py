"""A page of the owner's, where HITs may lead instead of to ours: it answers everything in the same way."""

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Response


class OwnPage:
    """What answers on a port of this machine, until the end of the block."""

    def __init__(self, status: int = 200, **headers: str) -> None:
        self.status = status
        self.headers = headers
        self.body = "A page."
        self.asked: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.asked.append(f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}")
        return Response(self.body, self.status, self.headers)(environ, start_response)

    def __enter__(self) -> Self:
        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Quiet(WSGIRequestHandler):
    def log_request(self, *arguments: Any) -> None:
        pass
