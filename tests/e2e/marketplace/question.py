"""A requester's page on an address of its own: one question, asked in the marketplace's frame."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from wsgiref.types import WSGIApplication

from flask import Flask, render_template_string, request
from werkzeug.serving import WSGIRequestHandler, make_server

TASK = Path(__file__).with_name("question.html").read_text(encoding="utf-8")


def question_app() -> Flask:
    """The requester's page; with `?forge=` it claims another worker, with `?steer=` it wants the page around it."""
    app = Flask("question")

    @app.get("/task")
    def task() -> str:
        told = request.args
        return render_template_string(
            TASK,
            assignment=told["assignmentId"],
            worker=told.get("forge") or told.get("workerId", ""),
            submit_to=told.get("turkSubmitTo", ""),
            steer=told.get("steer", ""),
        )

    return app


@contextmanager
def served(app: WSGIApplication) -> Iterator[str]:
    """An application on a port of its own; its address."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(WSGIRequestHandler):
    def log_request(self, *arguments: object) -> None:
        pass
