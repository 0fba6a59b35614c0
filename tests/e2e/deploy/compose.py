"""A strict reader of docker-compose.yml: anything ambiguous or unsupported is an error."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / ".env.example"
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]+)(?:(:-|:\?)([^}]*))?\}|)")


class Missing(Exception):
    """A required variable has no value; the message is the file's own."""


@dataclass(frozen=True)
class Service:
    """One service: its command, its environment and its health check."""

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    health: tuple[str, ...]
    needs: Mapping[str, str]
    ports: tuple[str, ...]
    volumes: Mapping[str, str]
    aliases: tuple[str, ...]
    profiles: tuple[str, ...]
    restart: str
    grace: float


class _StrictLoader(yaml.SafeLoader):
    """Refuse a repeated key, of which YAML would silently use the last."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    written = [loader.construct_object(key) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
    twice = {key for key in written if written.count(key) > 1}
    assert not twice, f"written twice: {twice}"
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def document() -> dict[str, Any]:
    """Return the file's content."""
    found: dict[str, Any] = yaml.load(FILE.read_text(encoding="utf-8"), _StrictLoader)
    return found


def variables_of(file: Path) -> dict[str, str]:
    """Return the variables of an env file."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def services(values: Mapping[str, str]) -> dict[str, Service]:
    """Return every service, with its variables filled in."""
    return {name: _service(name, _filled(raw, values)) for name, raw in document()["services"].items()}


def _filled(part: Any, values: Mapping[str, str]) -> Any:
    if isinstance(part, dict):
        return {key: _filled(value, values) for key, value in part.items()}
    if isinstance(part, list):
        return [_filled(value, values) for value in part]
    return _VARIABLE.sub(lambda found: _value(found, values), part) if isinstance(part, str) else part


def _value(found: re.Match[str], values: Mapping[str, str]) -> str:
    name, how, text = found.groups()
    assert name, f"a lone $ in {found.string!r}"
    value = values.get(name, "")
    if value:
        return value
    if how == ":?":
        raise Missing(text)
    return text or ""


def _service(name: str, raw: Mapping[str, Any]) -> Service:
    health = raw.get("healthcheck", {}).get("test", ["NONE"])
    assert health[0] in ("CMD", "NONE"), "a check through a shell cannot be run here"
    environment = {key: value for key, value in raw.get("environment", {}).items() if value is not None}
    assert all(isinstance(value, str) for value in environment.values()), f"{name}: YAML reads a value as no text"
    return Service(
        name=name,
        image=raw["image"],
        command=tuple(raw.get("command", ())),
        environment=environment,
        health=tuple(health[1:]),
        needs={other: told["condition"] for other, told in raw.get("depends_on", {}).items()},
        ports=tuple(raw.get("ports", ())),
        volumes={place: source for source, place in (one.split(":")[:2] for one in raw.get("volumes", ()))},
        aliases=tuple(raw.get("networks", {}).get("default", {}).get("aliases", ())),
        profiles=tuple(raw.get("profiles", ())),
        restart=raw["restart"],
        grace=float(raw["stop_grace_period"].removesuffix("s")),
    )
