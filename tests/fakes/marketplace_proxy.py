"""A proxy in front of a marketplace that delays, fails and drops responses, by a plan with a seed.

Bytes pass unchanged, the Host header too, so that signatures stay valid.
"""

import enum
import random
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 60
THROTTLING = b'{"__type": "ThrottlingException", "message": "Rate exceeded"}'
FAULT = b'{"__type": "ServiceFault", "Message": "Try your call again.", "TurkErrorCode": "AWS.ServiceFault"}'


class Outcome(enum.StrEnum):
    """What happens to a request."""

    PASSED = "passed"
    DELAYED = "delayed"
    # The marketplace never receives it.
    THROTTLED = "throttled"
    # The marketplace has processed it; the response says something else, or never arrives.
    FAILED_AFTER = "failed after"
    DROPPED_AFTER = "dropped after"


@dataclass(frozen=True)
class FaultPlan:
    """The probability of each fault; all other requests pass."""

    seed: int = 0
    throttled: float = 0.0
    failed_after: float = 0.0
    dropped_after: float = 0.0
    delayed: float = 0.0
    delay_seconds: float = 0.01

    @property
    def shares(self) -> dict[Outcome, float]:
        """The probability of each outcome except passing."""
        return {
            Outcome.THROTTLED: self.throttled,
            Outcome.FAILED_AFTER: self.failed_after,
            Outcome.DROPPED_AFTER: self.dropped_after,
            Outcome.DELAYED: self.delayed,
        }


@dataclass
class MarketplaceProxy:
    """A running proxy, with counts of what it did."""

    target: str
    plan: FaultPlan = field(default_factory=FaultPlan)
    url: str = ""
    # By operation, such as SendBonus, and outcome.
    done: Counter[tuple[str, Outcome]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.plan.seed)
        self._next: list[Outcome] = []
        self._lock = threading.Lock()
        self._held: tuple[tuple[str, ...], int] = ((), 0)
        self._released = threading.Event()
        self._released.set()

    def next(self, *outcomes: Outcome) -> None:
        """Set the outcomes of the next requests, before the plan applies again."""
        self._next += outcomes

    def next_is_planned(self) -> None:
        """Apply the plan from now on."""
        self._next.clear()

    @contextmanager
    def held(self, call: int, *operations: str) -> Iterator[None]:
        """Hold back the responses of this call of the operations and later ones until the end of the block."""
        self._held = (operations, call)
        self._released.clear()
        try:
            yield
        finally:
            self._released.set()

    def wait(self, operation: str) -> None:
        """Wait until the response may be sent."""
        held, call = self._held
        if operation in held and self.calls(*held) >= call:
            self._released.wait(TIMEOUT_SECONDS)

    def calls(self, *operations: str) -> int:
        """Return the number of requests, for some operations or in total."""
        # A copy: other threads count on.
        done = list(self.done.items())
        return sum(count for (name, _), count in done if not operations or name in operations)

    def faults(self) -> int:
        """Return the number of requests that did not get their response."""
        return sum(
            count for (_, outcome), count in self.done.items() if outcome not in (Outcome.PASSED, Outcome.DELAYED)
        )

    def decide(self, operation: str) -> Outcome:
        """Choose the outcome of one request."""
        with self._lock:
            outcome = self._next.pop(0) if self._next else self._draw()
            self.done[operation, outcome] += 1
            return outcome

    def _draw(self) -> Outcome:
        left = self._random.random()
        for outcome, share in self.plan.shares.items():
            left -= share
            if left < 0:
                return outcome
        return Outcome.PASSED


@contextmanager
def proxy_of(target: str, plan: FaultPlan | None = None) -> Iterator[MarketplaceProxy]:
    """Run a proxy on this machine until the end of the block."""
    proxy = MarketplaceProxy(target, plan or FaultPlan())
    with closing(socket.create_server(("127.0.0.1", 0), backlog=128)) as server:
        proxy.url = f"http://127.0.0.1:{server.getsockname()[1]}"
        thread = threading.Thread(target=_serve, args=(server, proxy), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            # Closing alone does not wake up a thread that waits in accept.
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _serve(server: socket.socket, proxy: MarketplaceProxy) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            threading.Thread(target=_handle, args=(client, proxy), daemon=True).start()


def _handle(client: socket.socket, proxy: MarketplaceProxy) -> None:
    """Serve one client connection, with one connection to the marketplace."""
    with suppress(OSError), client, closing(_Upstream(proxy.target)) as upstream:
        _ready(client)
        with client.makefile("rb") as stream:
            while request := _message(stream):
                operation = _operation(request)
                outcome = proxy.decide(operation)
                if outcome is Outcome.THROTTLED:
                    client.sendall(_response(b"400 Bad Request", THROTTLING))
                    continue
                if outcome is Outcome.DELAYED:
                    time.sleep(proxy.plan.delay_seconds)
                response = upstream.send(request)
                proxy.wait(operation)
                if not response or outcome is Outcome.DROPPED_AFTER:
                    return
                client.sendall(
                    _response(b"500 Internal Server Error", FAULT) if outcome is Outcome.FAILED_AFTER else response
                )


class _Upstream:
    """The connection to the marketplace, opened again when the marketplace has closed it."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._address = (parts.hostname or "", parts.port or 80)
        # Whether the marketplace announced that it closes the connection after its last response.
        self._last: bool
        self._connect()

    def send(self, request: bytes) -> bytes:
        # Nothing was requested, so readable data means the end of the connection.
        if self._last or select.select([self._socket], [], [], 0)[0]:
            self.close()
            self._connect()
        self._socket.sendall(request)
        response = _message(self._responses)
        self._last = b"connection: close" in response.partition(b"\r\n\r\n")[0].lower()
        return response

    def close(self) -> None:
        self._responses.close()
        self._socket.close()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address)
        self._responses = self._socket.makefile("rb")
        self._last = False
        _ready(self._socket)


def _ready(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(TIMEOUT_SECONDS)


def _message(stream: BinaryIO) -> bytes:
    """Read one HTTP message, headers and body; return nothing at the end of the connection."""
    lines = []
    length = 0
    while (line := stream.readline()) not in (b"\r\n", b""):
        lines.append(line)
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if not line:
        return b""
    return b"".join(lines) + line + stream.read(length)


def _operation(request: bytes) -> str:
    for line in request.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"x-amz-target":
            return value.strip().decode().rpartition(".")[2]
    return ""


def _response(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body
