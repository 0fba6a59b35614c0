"""Raw bytes to real servers: broken request lines, headers and chunks, bodies that are too long, too short or slow."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from plugin.settings import Settings
from round_manager.database.store import open_store
from tests.bench.crashing.place import marketplace
from tests.fuzz.sent import FuzzFailure, Hang, Secrets
from tests.integration.ml_backend.serving.running import running
from tests.integration.plugin.web.serving import serving

PLANTED = "planted-secret-of-the-raw-requests"
PASSWORD = "planted-password-of-the-ml-backend"
# The servers close a connection that is silent for 10 seconds.
SECONDS = 40.0
# Answers of the HTTP servers themselves that are right: not implemented, HTTP version not supported.
RIGHT = (501, 505)
SERVER_ERROR, OK = 500, 200
SLOW_SHARE = 0.01
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")

LINES = (
    *(b"GET /health HTTP/1.1", b"POST / HTTP/1.1", b"GET / HTTP/1.0", b"GET /health HTTP/2.0", b"GET /health HTTP/9.9"),
    *(b"GET /health", b"GET", b"", b" ", b"\x00\xff", b"GET  /health  HTTP/1.1", b"get /health http/1.1"),
    *(b"GET /%00 HTTP/1.1", b"GET /\xff HTTP/1.1", b"GET http://evil.example/health HTTP/1.1", b"GET * HTTP/1.1"),
    *(b"CONNECT evil.example:80 HTTP/1.1", b"GET //evil.example/ HTTP/1.1", b"GET /" + b"x" * 9_000 + b" HTTP/1.1"),
    *(b"FOX / HTTP/1.1", b"PRI * HTTP/2.0", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"GET /health HTTP/1.1 x"),
    *(b"POST /tasks/nli/predict HTTP/1.1", b"POST /api/attempts HTTP/1.1", b"POST /work/beat HTTP/1.1"),
    *(b"POST /mturk/externalSubmit HTTP/1.1", b"POST /sign-out HTTP/1.1", b"POST /webhooks/label-studio/nli HTTP/1.1"),
)
HEADERS = (
    *(
        b"Host: x",
        b"Host: x\r\nHost: y",
        b"Host:",
        b"NoColon",
        b": empty",
        b"A b: c",
        b"A\x00: b",
        b"A: \x00b",
        b"A: b\rc: d",
    ),
    *(b" folded: x", b"A: " + b"x" * 9_000, b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 5, 6"),
    *(b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: 99999999999999999999", b"Content-Length: +5"),
    *(b"Content-Length: 20000000", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked"),
    *(
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Transfer-Encoding: x",
        b"Transfer-Encoding: chunked, chunked",
    ),
    *(b"Expect: 100-continue", b"Expect: x", b"Connection: close", b"Connection: upgrade\r\nUpgrade: websocket"),
    *(
        b"Authorization: Basic " + PLANTED.encode(),
        b"Authorization: Bearer " + PLANTED.encode(),
        b"Cookie: a=" + b"x" * 5_000,
    ),
    *(b"Content-Type: application/json", b"X-Amz-Target: MTurkRequesterServiceV20170117.GetAccountBalance"),
)
BODIES = (
    *(
        b"",
        b"{}",
        b"12345",
        b"5\r\n12345\r\n0\r\n\r\n",
        b"5\r\n123",
        b"-5\r\nx",
        b"ffffffffffffffffff\r\n",
        b"5;x=y\r\n12345\r\n0\r\n\r\n",
    ),
    *(
        b"5\r\n12345XX0\r\n\r\n",
        b"0\r\nTrailer: x\r\n\r\n",
        b"0\r\n" + b"A: b\r\n" * 500,
        b"\x00" * 70_000,
        b"x" * 300_000,
    ),
    *(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",),
)


@dataclass(frozen=True)
class RawBytes:
    """Bytes for one connection, in pieces with pauses between them; the sender says at the end that nothing follows."""

    server: str
    pieces: tuple[bytes, ...]
    pause: float


@dataclass(frozen=True)
class RealServer:
    """A server process: its port and its log."""

    name: str
    port: int
    log: Path


@contextmanager
def real_servers(folder: Path) -> Iterator[dict[str, RealServer]]:
    """Run the three servers as separate processes until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / "web"
    settings = Settings(home=str(home), database_url=f"sqlite:///{home / 'outfox.db'}", secret="s" * 40)
    settings.make_home()
    with open_store(settings.database, upgrade=True), ExitStack() as stack:
        market = folder / "market"
        market.mkdir()
        web = stack.enter_context(serving(settings))
        backend = stack.enter_context(running(folder / "backend"))
        place = stack.enter_context(marketplace(market, log=market / "log"))
        yield {
            "web": RealServer("web", web.port, web.log),
            "ml_backend": RealServer("ml_backend", backend.port, backend.log),
            "marketplace": RealServer("marketplace", int(place.url.rpartition(":")[2]), market / "log"),
        }


def raw_bytes(*, slow: bool) -> st.SearchStrategy[RawBytes]:
    """Return bytes for connections; with `slow`, a few of them arrive in small pieces."""

    @st.composite
    def made(draw: st.DrawFn) -> RawBytes:
        head = [draw(st.sampled_from(LINES)), *draw(st.lists(st.sampled_from(HEADERS), max_size=5))]
        end = draw(st.sampled_from((b"\r\n\r\n", b"\r\n\r\n", b"\r\n\r\n", b"\n\n", b"\r\n", b"")))
        data = b"\r\n".join(head) + end + draw(st.sampled_from(BODIES))
        dice = Random(draw(st.integers(0, 2**32)))
        if dice.random() < 0.1:
            place = draw(st.integers(0, len(data)))
            data = data[:place] + draw(st.binary(max_size=8)) + data[place:]
        cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
        pieces = [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        pause = 0.2 if slow and dice.random() < SLOW_SHARE else 0.0
        return RawBytes(draw(st.sampled_from(("web", "ml_backend", "marketplace"))), tuple(pieces), pause)

    return made()


def send_raw(server: RealServer, raw: RawBytes, secrets: Secrets) -> str:
    """Send bytes and read until the server closes; return the first status, or `closed`."""
    deadline = time.monotonic() + SECONDS
    received = b""
    with socket.create_connection(("127.0.0.1", server.port), SECONDS) as connection:
        try:
            for piece in raw.pieces:
                connection.sendall(piece)
                time.sleep(raw.pause)
            connection.shutdown(socket.SHUT_WR)
            while time.monotonic() < deadline:
                connection.settimeout(max(0.1, deadline - time.monotonic()))
                piece = connection.recv(65_536)
                if not piece:
                    break
                received += piece
            else:
                raise Hang(f"no end after {SECONDS:.0f} s")
        except TimeoutError:
            raise Hang(f"no answer after {SECONDS:.0f} s") from None
        except OSError:
            pass  # The server may close as soon as it knows enough.
    statuses = [int(one) for one in STATUS.findall(received)]
    wrong = [one for one in statuses if one >= SERVER_ERROR and one not in RIGHT]
    if wrong:
        raise FuzzFailure(f"{wrong[0]} to {raw}: {received[:1_000]!r}")
    secrets.check_answer(received)
    return str(statuses[0]) if statuses else "closed"


def check_health(server: RealServer) -> None:
    """Fail if the server does not answer."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
    try:
        connection.request("GET", "/health")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise FuzzFailure(f"{server.name} does not answer any more ({type(error).__name__})") from error
    finally:
        connection.close()
    if status != OK:
        raise FuzzFailure(f"{server.name} is not healthy any more: {status}")
