"""One load generator for all contenders: each connection sends a request as soon as the last one is answered."""

import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from templates import Pack
from tests.fakes import calls


@dataclass
class Measured:
    """The results of one contender at one concurrency, over all of its turns."""

    times: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """Return the processor time of a request in milliseconds; other programs affect it least."""
        return self.cpu_seconds / len(self.times) * 1_000

    def share(self, percent: float) -> float:
        """Return a percentile of the latency in milliseconds."""
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1_000

    @property
    def rate(self) -> float:
        """Requests per second: the median of the turns."""
        return sorted(self.rates)[len(self.rates) // 2]


def requests(pack: Pack, rows: Sequence[Mapping[str, str]]) -> list[bytes]:
    """Return prepared requests: in each, an annotator has written a row's text for a separate task."""
    written = pack.spec.with_role("input")[0].name
    path = f"/tasks/{pack.spec.name}/predict"
    made = []
    for number, row in enumerate(rows):
        given = {name: text for name, text in row.items() if name != written}
        call = calls.predict(pack, calls.writes(pack, row[written]), task=number, data=given)
        body = json.dumps(call).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        made.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return made


def load(port: int, asked: Sequence[bytes], connections: int, seconds: float, into: Measured) -> None:
    """Send requests for some seconds over several connections; an answer without a verdict ends the benchmark."""
    end = time.monotonic() + seconds
    problems: list[BaseException] = []
    times: list[list[float]] = [[] for _ in range(connections)]

    def ask(number: int) -> None:
        try:
            _ask(port, [*asked[number:], *asked[:number]], end, times[number])
        except BaseException as error:  # noqa: BLE001 - the edge of a thread: the caller raises it
            problems.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(connections)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    taken = [one for some in times for one in some]
    into.times += taken
    into.rates.append(len(taken) / (time.monotonic() - began))


def _ask(port: int, asked: Sequence[bytes], end: float, times: list[float]) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        place = 0
        while time.monotonic() < end:
            began = time.perf_counter()
            connection.sendall(asked[place % len(asked)])
            answer = _answer(connection)
            times.append(time.perf_counter() - began)
            if b"feedback" not in answer:
                raise RuntimeError(f"not a verdict: {answer[:300]!r}")
            place += 1


def _answer(connection: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        more = connection.recv(65_536)
        if not more:
            raise RuntimeError(f"the connection ended: {got[:300]!r}")
        got += more
    head, _, body = got.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"not answered: {got[:300]!r}")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return body
