"""Requests and responses, checked member by member against botocore's own model of MTurk."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import botocore.session

Check = Callable[[Any], Any]

INTEGER = (-(2**31), 2**31 - 1)
LONG = (-(2**63), 2**63 - 1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DoesNotFit(ValueError):
    """A value that the model does not allow; the message names the member and what it has to be."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(f"{where or 'the request'} {what}")
        self._what = what
        self._where = where

    def inside(self, name: str) -> "DoesNotFit":
        """The same, seen from one level above."""
        dot = "." if self._where and not self._where.startswith("[") else ""
        return DoesNotFit(self._what, f"{name}{dot}{self._where}")


class Model:
    """MTurk's operations, each with a check of what comes in and of what goes out."""

    def __init__(self) -> None:
        self._service: Any = botocore.session.get_session().get_service_model("mturk")
        self.operations: frozenset[str] = frozenset(self._service.operation_names)
        self.target_prefix: str = self._service.metadata["targetPrefix"]
        self._requests = {name: self._check(name, "input_shape", _read_time) for name in self.operations}
        self._responses = {name: self._check(name, "output_shape", _write_time) for name in self.operations}

    def request(self, operation: str, members: Any) -> dict[str, Any]:
        """The members as values of ours; refused when one does not fit."""
        read: dict[str, Any] = self._requests[operation](members)
        return read

    def response(self, operation: str, members: dict[str, Any]) -> dict[str, Any]:
        """The members as they are sent."""
        written: dict[str, Any] = self._responses[operation](members)
        return written

    def _check(self, operation: str, side: str, time: Check) -> Check:
        shape = getattr(self._service.operation_model(operation), side)
        return _compile(shape, time) if shape is not None else _structure({}, frozenset())


@cache
def model() -> Model:
    """The model, read once."""
    return Model()


def _compile(shape: Any, time: Check) -> Check:
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


def _structure(members: dict[str, Check], required: frozenset[str]) -> Check:
    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise DoesNotFit("has to be an object")
        checked = {}
        for key, part in value.items():
            member = members.get(key)
            if member is None:
                raise DoesNotFit("is not known", str(key)[:40])
            if part is not None:
                try:
                    checked[key] = member(part)
                except DoesNotFit as error:
                    raise error.inside(key) from None
        for key in required:
            if key not in checked:
                raise DoesNotFit("is required", key)
        return checked

    return check


def _list(member: Check, least: int | None, most: int | None) -> Check:
    def check(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise DoesNotFit("has to be a list")
        _size(len(value), least, most, "entries")
        checked = []
        for part in value:
            try:
                checked.append(member(part))
            except DoesNotFit as error:
                raise error.inside(f"[{len(checked)}]") from None
        return checked

    return check


def _string(least: int | None, most: int | None, pattern: str | None, choices: list[str]) -> Check:
    matches = re.compile(pattern).fullmatch if pattern else None
    allowed = frozenset(choices)

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise DoesNotFit("has to be a string")
        _check_text(value)
        _size(len(value), least, most, "characters")
        if allowed and value not in allowed:
            raise DoesNotFit(f"has to be one of {', '.join(choices)}")
        if matches and not matches(value):
            raise DoesNotFit(f"has to match {pattern}")
        return value

    return check


def _check_text(value: str) -> None:
    if "\x00" in value:
        raise DoesNotFit("has the character NUL")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DoesNotFit("has half of a character (a lone surrogate)") from None


def _number(least: int, most: int) -> Check:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise DoesNotFit("has to be a whole number")
        if not least <= value <= most:
            raise DoesNotFit(f"has to be from {least} to {most}")
        return value

    return check


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DoesNotFit("has to be true or false")
    return value


def _read_time(value: Any) -> datetime:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DoesNotFit("has to be a time in seconds since 1970")
    try:
        return EPOCH + timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise DoesNotFit("is no time that a calendar has") from None


def _write_time(value: Any) -> float:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise DoesNotFit("has to be a time with a zone")
    return round(value.timestamp(), 3)


def _size(size: int, least: int | None, most: int | None, unit: str) -> None:
    if least is not None and size < least:
        raise DoesNotFit(f"has {size} {unit}, at least {least} are needed")
    if most is not None and size > most:
        raise DoesNotFit(f"has {size} {unit}, at most {most} are allowed")
