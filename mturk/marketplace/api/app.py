"""The requester API: a WSGI application that an unmodified MTurk client can call."""

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from botocore import xform_name

from mturk.marketplace.api import assignments, hits, protocol, qualifications, workers
from mturk.marketplace.api.authentication import AccessKeyCache, SignedRequest, verify_signature
from mturk.marketplace.api.call import Call, Operation
from mturk.marketplace.destinations import QueueNetworks
from mturk.marketplace.errors import MarketDatabaseError, MarketError, UnsupportedOperation
from mturk.marketplace.market import Market
from mturk.marketplace.tables.people import Requester

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MAX_BODY_BYTES = 1_000_000
FAMILIES = (assignments, hits, qualifications, workers)
READS = ("Get", "List")

log = logging.getLogger(__name__)


class RequesterApi:
    """Handles POST / with X-Amz-Target; `public_url` is the marketplace's own URL.

    The time of a signature is compared with the market's clock, or with `signing_time` where tests move that clock.
    """

    def __init__(
        self,
        market: Market,
        public_url: str,
        *,
        queues: QueueNetworks | None = None,
        signing_time: Callable[[], datetime] | None = None,
    ) -> None:
        self._market = market
        self._queues = queues or QueueNetworks()
        self._public_url = public_url
        self._signing_time = signing_time or market.now
        self._keys = AccessKeyCache(market)

    @staticmethod
    def handles(environ: "WSGIEnvironment") -> bool:
        """Return whether a request is for this API, not for the worker site."""
        signed = environ.get("HTTP_AUTHORIZATION", "").startswith("AWS4-")
        at_root = environ.get("PATH_INFO", "/") in ("", "/")
        return environ["REQUEST_METHOD"] == "POST" and at_root and (signed or "HTTP_X_AMZ_TARGET" in environ)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        started = time.perf_counter()
        request_id = str(uuid.uuid4())
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        response = self._respond(environ, target, request_id)
        status = HTTPStatus(response.status)
        later = [("Retry-After", str(response.retry_after))] if response.retry_after else []
        start_response(
            f"{status.value} {status.phrase}",
            [
                ("Content-Type", protocol.CONTENT_TYPE),
                ("Content-Length", str(len(response.body))),
                ("x-amzn-RequestId", request_id),
                ("Cache-Control", "no-store"),
                *later,
            ],
        )
        milliseconds = (time.perf_counter() - started) * 1000
        # %r and truncated: the target of an unsigned request must not inject lines into the log.
        log.info("%.60r %d %.1f ms %s", target.rpartition(".")[2], response.status, milliseconds, request_id)
        return [response.body]

    def _respond(self, environ: "WSGIEnvironment", target: str, request_id: str) -> protocol.WireResponse:
        try:
            body = _body(environ)
            requester = self._authenticate(environ, body)
            name = protocol.operation_name(target)
            return self._run(requester, name, body, request_id)
        except protocol.ProtocolError as error:
            return protocol.protocol_error_response(error)
        except MarketError as error:
            return protocol.error_response(error)
        except MarketDatabaseError as error:
            log.warning("request %s has to wait: %s", request_id, error)
            return protocol.unavailable_response(error)
        except Exception:
            log.exception("request %s failed", request_id)
            return protocol.server_error_response()

    def _authenticate(self, environ: "WSGIEnvironment", body: bytes) -> Requester:
        key_id = verify_signature(_signed_request(environ, body), self._keys.secret, self._signing_time())
        return self._keys.requester(key_id)

    def _run(self, requester: Requester, name: str, body: bytes, request_id: str) -> protocol.WireResponse:
        members = protocol.read_request(name, body)
        operation = find_operation(name)
        with self._market.read() if name.startswith(READS) else self._market.write() as session:
            call = Call(session, requester, name, request_id, self._market.now(), self._public_url, self._queues)
            # Serialized before the commit: a response that does not match the model must have no effect.
            return protocol.write_response(name, operation(call, members))


def find_operation(name: str) -> Operation:
    """Return the function that implements an operation: it has the operation's name in snake case, as in boto3."""
    for family in FAMILIES:
        operation: Operation | None = getattr(family, xform_name(name), None)
        if operation is not None:
            return operation
    raise UnsupportedOperation(name)


def _body(environ: "WSGIEnvironment") -> bytes:
    try:
        length = int(environ.get("CONTENT_LENGTH") or "")
    except ValueError:
        raise protocol.ProtocolError("MissingContentLength", 411, "Content-Length is required") from None
    if not 0 <= length <= MAX_BODY_BYTES:
        raise protocol.ProtocolError("RequestTooLarge", 413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    body: bytes = environ["wsgi.input"].read(length)
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
