"""A generated request, how it is sent to an application in this process, and what every answer must hold."""

import io
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from plugin.logs import JsonLines

# Far above what a request takes, also on a busy machine.
SECONDS = 30.0
SERVER_ERROR = 500
SHOWN_BYTES = 2_000


@dataclass(frozen=True)
class Sent:
    """A request: `route` names what it is about in the final table."""

    server: str
    route: str
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    client: str = "127.0.0.1"


@dataclass(frozen=True)
class Answer:
    """A status, headers and a body."""

    status: int
    headers: dict[str, str]
    body: bytes


class FuzzFailure(AssertionError):
    """An answer or a log line that breaks a rule."""


class Hang(FuzzFailure):
    """A request that was not answered in time."""


class Secrets:
    """Values that no answer and no log line may contain."""

    def __init__(self, answered: Iterable[str], logged: Iterable[str]) -> None:
        self.never_answered = tuple(one.encode() for one in answered)
        self.never_logged = tuple(one.encode() for one in logged)

    def check_answer(self, answer: bytes) -> None:
        """Fail if an answer contains a secret."""
        for secret in self.never_answered:
            if secret in answer:
                raise FuzzFailure(f"a secret ({secret[:6]!r}…) is in an answer")

    def check_log(self, text: bytes) -> None:
        """Fail if a log contains a secret."""
        for secret in (*self.never_answered, *self.never_logged):
            at = text.find(secret)
            if at >= 0:
                raise FuzzFailure(f"a secret ({secret[:6]!r}…) is in a log: {text[max(0, at - 300) : at + 100]!r}")


class LogWatch(logging.Handler):
    """Collects what this process logs, as `outfox` formats it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(JsonLines())
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._lines.append(self.format(record))

    def take(self) -> bytes:
        """Return what was logged since the last call."""
        lines, self._lines = self._lines, []
        return "\n".join(lines).encode("utf-8", "surrogatepass")

    @contextmanager
    def watching(self) -> Iterator["LogWatch"]:
        """Collect until the end of the block."""
        root = logging.getLogger()
        level = root.level
        root.addHandler(self)
        root.setLevel(logging.INFO)
        try:
            yield self
        finally:
            root.removeHandler(self)
            root.setLevel(level)


def send(app: Callable[..., Iterable[bytes]], sent: Sent) -> Answer:
    """Send a request to an application; raise Hang if it takes too long."""
    head: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None) -> Callable[[bytes], object]:
        head[:] = [int(status[:3]), headers]
        return lambda _data: None

    with time_limit(SECONDS):
        result = app(environ_of(sent), start_response)
        try:
            body = b"".join(result)
        finally:
            close = getattr(result, "close", None)
            if close:
                close()
    return Answer(head[0], {name.lower(): value for name, value in head[1]}, body)


def environ_of(sent: Sent) -> dict[str, Any]:
    """Return the WSGI environment that a server makes of a request."""
    path, _, query = sent.path.partition("?")
    headers = {name.upper().replace("-", "_"): value for name, value in sent.headers.items()}
    content_type, length = headers.pop("CONTENT_TYPE", ""), headers.pop("CONTENT_LENGTH", str(len(sent.body)))
    return {
        "REQUEST_METHOD": sent.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "RAW_URI": sent.path,
        "CONTENT_TYPE": content_type,
        "CONTENT_LENGTH": length,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": sent.client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(sent.body),
        "wsgi.input_terminated": True,
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "HTTP_HOST": "127.0.0.1",
        **{f"HTTP_{name}": value for name, value in headers.items()},
    }


def check(sent: Sent, answer: Answer, secrets: Secrets) -> None:
    """Fail if the answer is a server error or contains a secret."""
    if answer.status >= SERVER_ERROR:
        raise FuzzFailure(f"{answer.status}: {answer.body[:SHOWN_BYTES]!r}")
    head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
    secrets.check_answer(head.encode("utf-8", "surrogatepass") + b"\n\n" + answer.body)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise Hang after that time; in the main thread only, which is where runs are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    began = time.monotonic()

    def ring(_number: int, _frame: object) -> None:
        raise Hang(f"no answer after {time.monotonic() - began:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
