"""MTurk's wire protocol, JSON 1.1: what a request asks for, and how an answer or an error is written."""

import json
from dataclasses import dataclass
from typing import Any

from mturk.marketplace.errors import MarketError, bad_parameter
from mturk.marketplace.shapes import DoesNotFit, model

CONTENT_TYPE = "application/x-amz-json-1.1"


class WireError(Exception):
    """A request that is refused before an operation sees it; `kind` and `status` are AWS's own."""

    def __init__(self, kind: str, status: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


@dataclass(frozen=True)
class Answer:
    """An HTTP status and a body."""

    status: int
    body: bytes


def operation(target: str) -> str:
    """The operation that X-Amz-Target names; refused when MTurk has none of that name."""
    prefix, _, name = target.rpartition(".")
    if prefix != model().target_prefix or name not in model().operations:
        raise WireError("UnknownOperationException", 400, "X-Amz-Target names no operation of this service")
    return name


def read(name: str, body: bytes) -> dict[str, Any]:
    """The members of a request."""
    try:
        members = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise WireError("SerializationException", 400, "the body is not JSON") from None
    try:
        return model().request(name, members)
    except DoesNotFit as error:
        raise bad_parameter(str(error)) from None


def answer(name: str, members: dict[str, Any]) -> Answer:
    """The answer of an operation; one that does not fit the model is a fault of ours."""
    written = model().response(name, members)
    return Answer(200, json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode())


def refusal(error: MarketError) -> Answer:
    """A definite no."""
    return _error(400, "RequestError", {"Message": error.message, "TurkErrorCode": error.wire_code})


def fault() -> Answer:
    """Something went wrong here; what exactly is for our log only."""
    message = "The marketplace could not process this request; try again."
    return _error(500, "ServiceFault", {"Message": message, "TurkErrorCode": "AWS.ServiceUnavailable"})


def protocol_error(kind: str, status: int, message: str) -> Answer:
    """An error of the protocol, not of the marketplace."""
    return _error(status, kind, {"message": message})


def _error(status: int, kind: str, members: dict[str, str]) -> Answer:
    return Answer(status, json.dumps({"__type": kind, **members}).encode())
