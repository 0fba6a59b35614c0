"""The shape of JSON: keys and types, without values."""

import re
from collections.abc import Iterator
from typing import Any

# Keys that are data, such as a version's name or a file's path.
DATA_KEYS = re.compile(r"m[0-9a-f]{12}|[0-9a-f]{8}-[0-9a-f-]{27}|\S*/\S*|[0-9]+")
SCALARS = {bool: "bool", int: "int", float: "float", str: "str", type(None): "null"}
OPTIONAL = "?"

Shape = Any


def shape_of(value: Any) -> Shape:
    """Return the shape of a JSON value.

    A scalar is its type's name, a list `[shape of every element]`, an object its keys with their shapes. Where several
    types occur, they are listed in `{"any of": [...]}` or, for scalars, joined with `|`. A key that not every object of
    a list has ends with `?`.
    """
    if isinstance(value, dict):
        merged: dict[str, Shape] = {}
        for key, one in value.items():
            name = "<data>" if DATA_KEYS.fullmatch(key) else key
            merged[name] = merge(merged[name], shape_of(one)) if name in merged else shape_of(one)
        return merged
    if isinstance(value, list):
        found: list[Shape] = []
        for one in value:
            found = [merge(found[0], shape_of(one))] if found else [shape_of(one)]
        return found
    return SCALARS[type(value)]


def merge(first: Shape, second: Shape) -> Shape:
    """Return the shape that covers both."""
    if isinstance(first, str) and isinstance(second, str):
        return "|".join(sorted({*first.split("|"), *second.split("|")}))
    if isinstance(first, list) and isinstance(second, list):
        return [merge(first[0], second[0])] if first and second else first or second
    if _is_object(first) and _is_object(second):
        return _merge_objects(first, second)
    alternatives: list[Shape] = []
    for one in (*_alternatives(first), *_alternatives(second)):
        same = [place for place, other in enumerate(alternatives) if _kind(other) == _kind(one)]
        if same:
            alternatives[same[0]] = merge(alternatives[same[0]], one)
        else:
            alternatives.append(one)
    return {"any of": sorted(alternatives, key=_kind)}


def missing(now: Shape, before: Shape, path: str = "") -> Iterator[str]:
    """Yield what a shape lacks or has changed; keys may be added, and types may be added to an empty list."""
    if now == before or before == []:
        return
    if isinstance(before, list) and isinstance(now, list) and now:
        yield from missing(now[0], before[0], f"{path}[]")
    elif _is_object(before) and _is_object(now):
        for key, one in before.items():
            name = key.removesuffix(OPTIONAL)
            found = [now[other] for other in (name, name + OPTIONAL) if other in now]
            if found:
                yield from missing(found[0], one, f"{path}/{name}")
            else:
                yield f"{path}/{name}: is gone"
    elif isinstance(before, dict) and "any of" in before and isinstance(now, dict) and "any of" in now:
        for one in before["any of"]:
            found = [other for other in now["any of"] if _kind(other) == _kind(one)]
            yield from missing(found[0], one, path) if found else [f"{path}: is never {_kind(one)}, was {one}"]
    else:
        yield f"{path}: is {now}, was {before}"


def _merge_objects(first: dict[str, Shape], second: dict[str, Shape]) -> dict[str, Shape]:
    one = {key.removesuffix(OPTIONAL): value for key, value in first.items()}
    other = {key.removesuffix(OPTIONAL): value for key, value in second.items()}
    merged = {}
    for name in one | other:
        always = name in first and name in second
        parts = [part[name] for part in (one, other) if name in part]
        merged[name if always else name + OPTIONAL] = parts[0] if len(parts) == 1 else merge(*parts)
    return merged


def _alternatives(shape: Shape) -> list[Shape]:
    return list(shape["any of"]) if isinstance(shape, dict) and "any of" in shape else [shape]


def _is_object(shape: Shape) -> bool:
    return isinstance(shape, dict) and "any of" not in shape


def _kind(shape: Shape) -> str:
    return "scalar" if isinstance(shape, str) else "list" if isinstance(shape, list) else "object"
