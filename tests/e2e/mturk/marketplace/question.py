"""A requester's page on another port, shown in the marketplace's frame."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from wsgiref.types import WSGIApplication

from flask import Flask, render_template_string, request
from werkzeug.serving import WSGIRequestHandler, make_server

TASK = Path(__file__).with_name("question.html").read_text(encoding="utf-8")


def question_app() -> Flask:
    """Return the requester's page; `?forge=` claims another worker, `?steer=` tries to navigate the page around it."""
    app = Flask("question")

    @app.get("/task")
    def task() -> str:
        parameters = request.args
        return render_template_string(
            TASK,
            assignment=parameters["assignmentId"],
            worker=parameters.get("forge") or parameters.get("workerId", ""),
            submit_to=parameters.get("turkSubmitTo", ""),
            steer=parameters.get("steer", ""),
        )

    return app


@contextmanager
def served(app: WSGIApplication) -> Iterator[str]:
    """Serve an application on a free port; return its URL."""
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
