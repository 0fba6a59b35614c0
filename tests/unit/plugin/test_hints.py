"""Every hint in the code has a command or belongs to a worker page, and every command in the table exists."""

import ast
import string
from pathlib import Path

import click
import pytest

from plugin.cli import cli
from plugin.hints import COMMANDS

ROOT = Path(__file__).parents[3]
PACKAGES = ("common", "crowd", "mturk", "ml_backend", "round_manager", "templates", "plugin")


# Actions of a worker's page; plugin/pages/work.js offers a button for those that the page can do.
PAGE_ACTIONS = {"finish_other_hit", "reload_page", "reopen_hit", "return_hit", "skip_item", "submit_hit"}


def _hints() -> dict[str, set[str]]:
    """Return the parameters that the code gives to each action."""
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "from common.errors import" in text else ():
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Hint":
                    action = node.args[0] if node.args else None
                    assert isinstance(action, ast.Constant), f"{file}:{node.lineno}: the action must be a literal"
                    found.setdefault(str(action.value), set()).update(one.arg for one in node.keywords if one.arg)
    return found


def test_every_action_in_the_code_has_a_command() -> None:
    assert sorted(set(_hints()) - set(COMMANDS) - PAGE_ACTIONS) == []


def test_every_placeholder_of_a_command_is_a_parameter_of_its_action() -> None:
    given = _hints()
    for action, command in COMMANDS.items():
        names = {name for _, name, _, _ in string.Formatter().parse(command) if name}
        assert names <= given.get(action, names), action


@pytest.mark.parametrize("action", sorted(COMMANDS))
def test_the_command_of_a_hint_exists(action: str) -> None:
    words = COMMANDS[action].split()
    if words[0] != "outfox":
        return
    command: click.Command | None = cli
    for word in words[1:]:
        if not isinstance(command, click.Group):
            break
        if word.startswith("-"):
            continue
        command = command.get_command(click.Context(command), word)
        assert command is not None, f"{COMMANDS[action]}: no command {word}"
    assert command is not None
    options = {name for one in command.params for name in one.opts}
    assert {word for word in words if word.startswith("--")} <= options
