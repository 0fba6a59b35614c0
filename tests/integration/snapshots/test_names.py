"""Names that people and programs rely on stay: tables, columns, settings, task.yaml, error codes, commands, options.

Names may be added. One that is renamed or removed fails the test.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest

from plugin.cli import cli
from plugin.reference import PAGES
from templates.spec import TaskSpec
from tests.conftest import Outfox
from tests.integration.snapshots import snapshot
from tests.integration.snapshots.commands import all_commands


@pytest.mark.sqlite("the snapshot has the types of SQLite's columns")
def test_tables_and_columns(outfox: Outfox, tmp_path: Path) -> None:
    assert outfox("db", "upgrade").code == 0
    with closing(sqlite3.connect(tmp_path / "home" / "outfox.db")) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {
            table: {row[1]: row[2] for row in database.execute(f"PRAGMA table_info({table})")}
            for table in tables
            if not table.startswith("sqlite_")
        }
    assert len(found) > 10
    snapshot.compare_names("database.json", found)


def test_settings(outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {one["setting"]: one["value"] for one in json.loads(outfox("config", "--json").out)}
    names = sorted(f"OUTFOX_{name.upper()}" for name in shown)
    snapshot.compare_names("settings.json", names)
    # Outfox refuses a setting that it does not know: the environment has the same names.
    with monkeypatch.context() as patch:
        for name in snapshot.stored("settings.json"):
            patch.setenv(name, str(shown[name.removeprefix("OUTFOX_").lower()]))
        ran = outfox("config", "--json")
        assert ran.code == 0, ran
        patch.setenv("OUTFOX_NO_SUCH_SETTING", "")
        assert outfox("config", "--json").code == 2


def test_keys_of_task_yaml() -> None:
    schema = TaskSpec.model_json_schema()
    snapshot.compare_names("task-yaml.json", sorted(set(keys(schema, schema.get("$defs", {})))))


def test_error_codes() -> None:
    snapshot.compare_names(
        "error-codes.json", sorted(re.findall(r"^\| `(\w+)` \|", PAGES["errors.md"](), re.MULTILINE))
    )


def test_commands_and_options() -> None:
    commands = [("outfox", cli), *all_commands()]
    snapshot.compare_names("commands.json", {name: parameters(command) for name, command in commands})


def keys(schema: dict[str, Any], parts: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield every key that a file may have, with the keys above it."""
    if "$ref" in schema:
        yield from keys(parts[schema["$ref"].rpartition("/")[2]], parts, path)
    for one in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from keys(one, parts, path)
    for name, one in schema.get("properties", {}).items():
        yield f"{path}{name}"
        yield from keys(one, parts, f"{path}{name}.")


def parameters(command: click.Command) -> dict[str, Any]:
    """Return the options of a command and how many arguments it takes."""
    options = [one for one in command.params if isinstance(one, click.Option)]
    return {
        "options": sorted(name for one in options for name in (*one.opts, *one.secondary_opts)),
        "arguments": [[one.required, one.nargs] for one in command.params if isinstance(one, click.Argument)],
    }
