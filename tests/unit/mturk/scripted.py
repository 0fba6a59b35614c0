"""A marketplace over HTTP with scripted answers, which records its calls."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from crowd.errors import RetryPolicy
from crowd.port import HitOrder, HitTerms, Token
from mturk.client import MTurkCrowd
from mturk.connection import Connection, Endpoint, connect
from tests.fakes.clock import NOON

KEY_ID, SECRET = "AKIDOFTHETESTS", "secret-of-the-tests"
TERMS = HitTerms("Fool the model", "Write a sentence", ("text", "fun"), 25, 600, 86_400)
TOKEN = Token("hit-1-abc", NOON)

Members = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """One answer: JSON, or plain text; without a body the connection is dropped."""

    status: int = 200
    body: Members | str | None = field(default_factory=dict)


LOST = Reply(500, {"__type": "ServiceFault", "Message": "Try your call again."})
DROPPED = Reply(200, None)
BUSY = Reply(400, {"__type": "ThrottlingException", "message": "Rate exceeded"})


def refused(code: str, message: str = "no") -> Reply:
    """A definite refusal."""
    return Reply(400, {"__type": "RequestError", "Message": message, "TurkErrorCode": f"AWS.MechanicalTurk.{code}"})


def hit(hit_id: str = "3HITOFTHETESTS", key: str = TOKEN.key, status: str = "Assignable") -> Members:
    """Return a HIT in MTurk's format."""
    return {
        "HITId": hit_id,
        "HITTypeId": "3TYPE",
        "HITGroupId": "3GROUP",
        "HITStatus": status,
        "RequesterAnnotation": key,
        "Reward": "0.25",
        "MaxAssignments": 3,
        "NumberOfAssignmentsPending": 0,
        "NumberOfAssignmentsAvailable": 3,
        "NumberOfAssignmentsCompleted": 0,
        "CreationTime": NOON.timestamp(),
        "Expiration": NOON.timestamp() + 3600,
    }


def order(token: Token = TOKEN, **more: Any) -> HitOrder:
    """A HIT to post."""
    return HitOrder(
        **{
            "token": token,
            "terms": TERMS,
            "page_url": "https://outfox.example/hit?a=1&b=2",
            "max_assignments": 3,
            "lifetime_seconds": 3600,
            **more,
        }
    )


@dataclass
class Scripted:
    """The scripted answers by operation, of which the last repeats, and the recorded calls."""

    url: str = ""
    says: dict[str, list[Reply]] = field(default_factory=dict)
    asked: list[tuple[str, Members]] = field(default_factory=list)
    client: Any = None

    def operations(self) -> list[str]:
        """Return the called operations in order."""
        return [operation for operation, _ in self.asked]

    def members(self, operation: str) -> list[Members]:
        """Return the members of each call of an operation."""
        return [members for name, members in self.asked if name == operation]

    def crowd(self, now: Callable[[], datetime] = lambda: NOON, **patience: Any) -> MTurkCrowd:
        """Return our client for it, which never sleeps."""
        if self.client is None:
            # Made once: boto3 takes its time to read the service's model.
            self.client = connect(Endpoint(self.url, KEY_ID, SECRET))._client
        settings = {"sleep": lambda _seconds: None, "budget": 5.0, **patience}
        return MTurkCrowd(Connection(self.client, "market", RetryPolicy(**settings), now))

    def forget(self) -> None:
        """Reset the script and the recorded calls."""
        self.says = {"CreateHITType": [Reply(200, {"HITTypeId": "3TYPE"})]}
        self.asked = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one packet, or the system waits before it sends the second.
    wbufsize = -1
    script: Scripted

    def do_POST(self) -> None:
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        self.script.asked.append((operation, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        left = self.script.says[operation]
        said = left.pop(0) if len(left) > 1 else left[0]
        if said.body is None:
            self.close_connection = True
            return
        body = (said.body if isinstance(said.body, str) else json.dumps(said.body)).encode()
        self.send_response(said.status)
        kind = "text/html" if isinstance(said.body, str) else "application/x-amz-json-1.1"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""


@contextmanager
def scripted() -> Iterator[Scripted]:
    """Runs one on this machine until the end of the block."""
    script = Scripted()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"script": script}))
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
