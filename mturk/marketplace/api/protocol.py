"""MTurk's JSON 1.1 protocol: requests and responses, validated against botocore's model of the service."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import botocore.session

from common.errors import CodedError
from mturk.marketplace.errors import InvalidParameter, MarketDatabaseError, MarketError

CONTENT_TYPE = "application/x-amz-json-1.1"
RETRY_SECONDS = 2


class ProtocolError(CodedError):
    """A request that is refused before its operation runs; `kind` and `status` are AWS's own."""

    code = "market_protocol_error"

    def __init__(self, kind: str, status: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


@dataclass(frozen=True)
class WireResponse:
    """An HTTP status and a body; `retry_after` is when to send the request again, in seconds, if that can help."""

    status: int
    body: bytes
    retry_after: int | None = None


def operation_name(target: str) -> str:
    """Return the operation that X-Amz-Target names; refuse one that MTurk does not have."""
    prefix, _, name = target.rpartition(".")
    if prefix != model().target_prefix or name not in model().operations:
        raise ProtocolError("UnknownOperationException", 400, "X-Amz-Target does not name an operation of this service")
    return name


def read_request(name: str, body: bytes) -> dict[str, Any]:
    """Return the validated members of a request."""
    try:
        members = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise ProtocolError("SerializationException", 400, "the body is not JSON") from None
    try:
        return model().request(name, members)
    except ShapeMismatch as error:
        raise InvalidParameter(str(error)) from None


def write_response(name: str, members: dict[str, Any]) -> WireResponse:
    """Return the response of an operation; a mismatch with the model is a bug in the operation."""
    response = model().response(name, members)
    return WireResponse(200, json.dumps(response, ensure_ascii=False, separators=(",", ":")).encode())


def error_response(error: MarketError) -> WireResponse:
    """Return the response to a request that the marketplace refuses."""
    return _error_body(400, "RequestError", {"Message": error.message, "TurkErrorCode": error.wire_code})


def server_error_response() -> WireResponse:
    """Return the response to a request that failed unexpectedly; details go to the log only."""
    message = "The marketplace could not process this request; try again."
    return _error_body(500, "ServiceFault", {"Message": message, "TurkErrorCode": "AWS.ServiceUnavailable"})


def unavailable_response(error: MarketDatabaseError) -> WireResponse:
    """Return the response to a request that can succeed later; it has our code in addition to MTurk's."""
    members = {"Message": error.summary, "TurkErrorCode": "AWS.ServiceUnavailable", "code": error.code}
    response = _error_body(503, "ServiceFault", {**members, "retry": True})
    return replace(response, retry_after=RETRY_SECONDS)


def protocol_error_response(error: ProtocolError) -> WireResponse:
    """Return the response to a request that violates the protocol."""
    return _error_body(error.status, error.kind, {"message": str(error)})


def _error_body(status: int, kind: str, members: Mapping[str, object]) -> WireResponse:
    return WireResponse(status, json.dumps({"__type": kind, **members}).encode())


Validator = Callable[[Any], Any]

INTEGER = (-(2**31), 2**31 - 1)
LONG = (-(2**63), 2**63 - 1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ShapeMismatch(ValueError):
    """A value that the model does not allow; the message names the member and what it has to be."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(f"{where or 'the request'} {what}")
        self._what = what
        self._where = where

    def inside(self, name: str) -> "ShapeMismatch":
        """Return the same error, with the path extended by the enclosing member."""
        dot = "." if self._where and not self._where.startswith("[") else ""
        return ShapeMismatch(self._what, f"{name}{dot}{self._where}")


class ProtocolModel:
    """MTurk's operations, each with validators for its request and its response."""

    def __init__(self) -> None:
        self._service: Any = botocore.session.get_session().get_service_model("mturk")
        self.operations: frozenset[str] = frozenset(self._service.operation_names)
        self.target_prefix: str = self._service.metadata["targetPrefix"]
        self._requests = {name: self._check(name, "input_shape", _read_time) for name in self.operations}
        self._responses = {name: self._check(name, "output_shape", _write_time) for name in self.operations}

    def request(self, operation: str, members: Any) -> dict[str, Any]:
        """Return the members of a request as Python values."""
        read: dict[str, Any] = self._requests[operation](members)
        return read

    def response(self, operation: str, members: dict[str, Any]) -> dict[str, Any]:
        """Return the members of a response as JSON values."""
        written: dict[str, Any] = self._responses[operation](members)
        return written

    def _check(self, operation: str, side: str, time: Validator) -> Validator:
        shape = getattr(self._service.operation_model(operation), side)
        return _compile(shape, time) if shape is not None else _structure({}, frozenset())


@cache
def model() -> ProtocolModel:
    """Return the model, which is loaded once."""
    return ProtocolModel()


def _compile(shape: Any, time: Validator) -> Validator:
    kind = shape.type_name
    if kind == "structure":
        members = {name: _compile(member, time) for name, member in shape.members.items()}
        return _structure(members, frozenset(shape.required_members))
    if kind == "list":
        return _list(_compile(shape.member, time), shape.metadata.get("min"), shape.metadata.get("max"))
    if kind == "string":
        return _string(shape.metadata.get("min"), shape.metadata.get("max"), shape.metadata.get("pattern"), shape.enum)
    if kind in ("integer", "long"):
        least, most = INTEGER if kind == "integer" else LONG
        return _number(shape.metadata.get("min", least), shape.metadata.get("max", most))
    return {"boolean": _boolean, "timestamp": time}[kind]


def _structure(members: dict[str, Validator], required: frozenset[str]) -> Validator:
    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ShapeMismatch("has to be an object")
        checked = {}
        for key, part in value.items():
            member = members.get(key)
            if member is None:
                raise ShapeMismatch("is unknown", str(key)[:40])
            if part is not None:
                try:
                    checked[key] = member(part)
                except ShapeMismatch as error:
                    raise error.inside(key) from None
        for key in required:
            if key not in checked:
                raise ShapeMismatch("is required", key)
        return checked

    return check


def _list(member: Validator, least: int | None, most: int | None) -> Validator:
    def check(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ShapeMismatch("has to be a list")
        _size(len(value), least, most, "entries")
        checked = []
        for part in value:
            try:
                checked.append(member(part))
            except ShapeMismatch as error:
                raise error.inside(f"[{len(checked)}]") from None
        return checked

    return check


def _string(least: int | None, most: int | None, pattern: str | None, choices: list[str]) -> Validator:
    matches = re.compile(pattern).fullmatch if pattern else None
    allowed = frozenset(choices)

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise ShapeMismatch("has to be a string")
        _check_text(value)
        _size(len(value), least, most, "characters")
        if allowed and value not in allowed:
            raise ShapeMismatch(f"has to be one of {', '.join(choices)}")
        if matches and not matches(value):
            raise ShapeMismatch(f"has to match {pattern}")
        return value

    return check


def _check_text(value: str) -> None:
    if "\x00" in value:
        raise ShapeMismatch("contains the character NUL")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ShapeMismatch("contains a lone surrogate") from None


def _number(least: int, most: int) -> Validator:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ShapeMismatch("has to be a whole number")
        if not least <= value <= most:
            raise ShapeMismatch(f"has to be from {least} to {most}")
        return value

    return check


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ShapeMismatch("has to be true or false")
    return value


def _read_time(value: Any) -> datetime:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ShapeMismatch("has to be a time in seconds since 1970")
    try:
        return EPOCH + timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise ShapeMismatch("is out of the range of dates") from None


def _write_time(value: Any) -> float:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ShapeMismatch("has to be a time with a time zone")
    return round(value.timestamp(), 3)


def _size(size: int, least: int | None, most: int | None, unit: str) -> None:
    if least is not None and size < least:
        raise ShapeMismatch(f"has {size} {unit}, at least {least} are required")
    if most is not None and size > most:
        raise ShapeMismatch(f"has {size} {unit}, at most {most} are allowed")
