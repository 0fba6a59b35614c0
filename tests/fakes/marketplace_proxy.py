"""What stands between us and a marketplace: it slows down, breaks and loses answers, by a plan that a seed repeats.

Bytes go through as they are, the Host header too, so that signatures stay right.
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

LONGEST_QUIET = 60
THROTTLING = b'{"__type": "ThrottlingException", "message": "Rate exceeded"}'
FAULT = b'{"__type": "ServiceFault", "Message": "Try your call again.", "TurkErrorCode": "AWS.ServiceFault"}'


class Fate(enum.StrEnum):
    """What becomes of a request."""

    PASSED = "passed"
    DELAYED = "delayed"
    # The marketplace never hears of it.
    THROTTLED = "throttled"
    # The marketplace has done it; the answer says something else, or never comes.
    FAILED_AFTER = "failed after"
    DROPPED_AFTER = "dropped after"


@dataclass(frozen=True)
class Plan:
    """How often what happens, of 1; the rest passes."""

    seed: int = 0
    throttled: float = 0.0
    failed_after: float = 0.0
    dropped_after: float = 0.0
    delayed: float = 0.0
    delay_seconds: float = 0.01

    @property
    def shares(self) -> dict[Fate, float]:
        """The share of each fate but passing."""
        return {
            Fate.THROTTLED: self.throttled,
            Fate.FAILED_AFTER: self.failed_after,
            Fate.DROPPED_AFTER: self.dropped_after,
            Fate.DELAYED: self.delayed,
        }


@dataclass
class MarketplaceProxy:
    """Where it is, what it does, and what it did."""

    target: str
    plan: Plan = field(default_factory=Plan)
    url: str = ""
    # By operation, such as SendBonus, and fate.
    done: Counter[tuple[str, Fate]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.plan.seed)
        self._next: list[Fate] = []
        self._lock = threading.Lock()
        self._held: tuple[str, int] = ("", 0)
        self._released = threading.Event()
        self._released.set()

    def next(self, *fates: Fate) -> None:
        """What becomes of the next requests, whatever the plan says."""
        self._next += fates

    def next_is_planned(self) -> None:
        """From now on the plan says what happens."""
        self._next.clear()

    @contextmanager
    def held(self, operation: str, call: int) -> Iterator[None]:
        """Until the end of the block, that call of the operation and later ones wait for their answers."""
        self._held = (operation, call)
        self._released.clear()
        try:
            yield
        finally:
            self._released.set()

    def wait(self, operation: str) -> None:
        """Until the answer may be sent."""
        held, call = self._held
        if operation == held and self.calls(operation) >= call:
            self._released.wait(LONGEST_QUIET)

    def calls(self, operation: str = "") -> int:
        """How many requests came, for one operation or in all."""
        return sum(count for (name, _), count in self.done.items() if operation in ("", name))

    def faults(self) -> int:
        """How many requests did not get their answer."""
        return sum(count for (_, fate), count in self.done.items() if fate not in (Fate.PASSED, Fate.DELAYED))

    def decide(self, operation: str) -> Fate:
        """The fate of one request."""
        with self._lock:
            fate = self._next.pop(0) if self._next else self._throw()
            self.done[operation, fate] += 1
            return fate

    def _throw(self) -> Fate:
        left = self._dice.random()
        for fate, share in self.plan.shares.items():
            left -= share
            if left < 0:
                return fate
        return Fate.PASSED


@contextmanager
def proxy_of(target: str, plan: Plan | None = None) -> Iterator[MarketplaceProxy]:
    """Runs one on this machine until the end of the block."""
    proxy = MarketplaceProxy(target, plan or Plan())
    with closing(socket.create_server(("127.0.0.1", 0), backlog=128)) as server:
        proxy.url = f"http://127.0.0.1:{server.getsockname()[1]}"
        thread = threading.Thread(target=_serve, args=(server, proxy), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            # Closing alone does not wake who waits in accept.
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _serve(server: socket.socket, proxy: MarketplaceProxy) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            threading.Thread(target=_converse, args=(client, proxy), daemon=True).start()


def _converse(client: socket.socket, proxy: MarketplaceProxy) -> None:
    """One connection on our side, and one behind it, for as long as both sides keep them."""
    with suppress(OSError), client, closing(_Behind(proxy.target)) as behind:
        _ready(client)
        with client.makefile("rb") as asked:
            while request := _message(asked):
                operation = _operation(request)
                fate = proxy.decide(operation)
                if fate is Fate.THROTTLED:
                    client.sendall(_answer(b"400 Bad Request", THROTTLING))
                    continue
                if fate is Fate.DELAYED:
                    time.sleep(proxy.plan.delay_seconds)
                answer = behind.ask(request)
                proxy.wait(operation)
                if not answer or fate is Fate.DROPPED_AFTER:
                    return
                client.sendall(_answer(b"500 Internal Server Error", FAULT) if fate is Fate.FAILED_AFTER else answer)


class _Behind:
    """The marketplace's side, connected again where the marketplace has hung up in the meantime."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._address = (parts.hostname or "", parts.port or 80)
        # Whether the marketplace said that it closes the connection after its last answer.
        self._last: bool
        self._connect()

    def ask(self, request: bytes) -> bytes:
        # Nothing was asked, so whatever can be read is the end of the connection.
        if self._last or select.select([self._socket], [], [], 0)[0]:
            self.close()
            self._connect()
        self._socket.sendall(request)
        answer = _message(self._answers)
        self._last = b"connection: close" in answer.partition(b"\r\n\r\n")[0].lower()
        return answer

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address)
        self._answers = self._socket.makefile("rb")
        self._last = False
        _ready(self._socket)


def _ready(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(LONGEST_QUIET)


def _message(stream: BinaryIO) -> bytes:
    """One HTTP message, head and body; nothing when the other side has gone."""
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


def _answer(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body
