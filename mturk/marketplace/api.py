"""The requester API: a WSGI application that an unmodified MTurk client can talk to."""

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from mturk.marketplace import wire
from mturk.marketplace.errors import MarketError
from mturk.marketplace.keyring import KeyRing
from mturk.marketplace.market import Market
from mturk.marketplace.operations import account, assignments, bonuses, hits, notifications, qualifications, workers
from mturk.marketplace.operations.call import Call, Operation
from mturk.marketplace.signature import NotSigned, SignedRequest, verify
from mturk.marketplace.tables import Requester

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

LARGEST_BODY = 1_000_000
FAMILIES = (account, assignments, bonuses, hits, notifications, qualifications, workers)
READS: dict[str, Operation] = {name: call for family in FAMILIES for name, call in family.READS.items()}
WRITES: dict[str, Operation] = {name: call for family in FAMILIES for name, call in family.WRITES.items()}

log = logging.getLogger(__name__)


class RequesterApi:
    """Answers POST / with X-Amz-Target; `public_url` is where the marketplace itself is reached.

    Signatures are checked at the market's time, unless another is given.
    """

    def __init__(self, market: Market, public_url: str, *, signing_time: Callable[[], datetime] | None = None) -> None:
        self._market = market
        self._public_url = public_url
        self._signing_time = signing_time or market.now
        self._keys = KeyRing(market)

    @staticmethod
    def wants(environ: "WSGIEnvironment") -> bool:
        """Whether a request is for this API, and not for the worker's site."""
        signed = environ.get("HTTP_AUTHORIZATION", "").startswith("AWS4-")
        at_root = environ.get("PATH_INFO", "/") in ("", "/")
        return environ["REQUEST_METHOD"] == "POST" and at_root and (signed or "HTTP_X_AMZ_TARGET" in environ)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        began = time.perf_counter()
        request_id = str(uuid.uuid4())
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        answer = self._answer(environ, target, request_id)
        status = HTTPStatus(answer.status)
        start_response(
            f"{status.value} {status.phrase}",
            [
                ("Content-Type", wire.CONTENT_TYPE),
                ("Content-Length", str(len(answer.body))),
                ("x-amzn-RequestId", request_id),
                ("Cache-Control", "no-store"),
            ],
        )
        milliseconds = (time.perf_counter() - began) * 1000
        # %r, and not much of it: whoever is not signed in must not write lines into our log.
        log.info("%.60r %d %.1f ms %s", target.rpartition(".")[2], answer.status, milliseconds, request_id)
        return [answer.body]

    def _answer(self, environ: "WSGIEnvironment", target: str, request_id: str) -> wire.Answer:
        try:
            body = _body(environ)
            requester = self._signed_by(environ, body)
            name = wire.operation(target)
            return self._run(requester, name, body, request_id)
        except (wire.WireError, NotSigned) as error:
            return wire.protocol_error(error.kind, error.status, str(error))
        except MarketError as error:
            return wire.refusal(error)
        except Exception:
            log.exception("request %s failed", request_id)
            return wire.fault()

    def _signed_by(self, environ: "WSGIEnvironment", body: bytes) -> Requester:
        key_id = verify(_signed_request(environ, body), self._keys.secret, self._signing_time())
        return self._keys.requester(key_id)

    def _run(self, requester: Requester, name: str, body: bytes, request_id: str) -> wire.Answer:
        members = wire.read(name, body)
        run = WRITES.get(name) or READS.get(name)
        if run is None:
            raise MarketError("NotSupported", f"{name} is not supported here")
        with self._market.write() if name in WRITES else self._market.read() as session:
            call = Call(session, requester, name, request_id, self._market.now(), self._public_url)
            # Written before the commit: an answer that does not fit must not leave an effect behind.
            return wire.answer(name, run(call, members))


def _body(environ: "WSGIEnvironment") -> bytes:
    try:
        length = int(environ.get("CONTENT_LENGTH") or "")
    except ValueError:
        raise wire.WireError("MissingContentLength", 411, "Content-Length is required") from None
    if not 0 <= length <= LARGEST_BODY:
        raise wire.WireError("RequestTooLarge", 413, f"at most {LARGEST_BODY} bytes are taken")
    try:
        body: bytes = environ["wsgi.input"].read(length)
    except TimeoutError:
        raise wire.WireError("RequestTimeout", 408, "the body did not come") from None
    return body


def _signed_request(environ: "WSGIEnvironment", body: bytes) -> SignedRequest:
    headers = {
        name[5:].replace("_", "-").lower(): str(value) for name, value in environ.items() if name.startswith("HTTP_")
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    return SignedRequest(
        method=environ["REQUEST_METHOD"],
        path=environ.get("PATH_INFO", "/"),
        query=environ.get("QUERY_STRING", ""),
        headers=headers,
        body=body,
    )
