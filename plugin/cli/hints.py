"""Hints as commands: what a user can type to resolve an error.

The domain names an action; only this table knows the command that performs it. Keep it sorted.
"""

from common.errors import Hint

COMMANDS = {
    "list_settings": "outfox config",
    "open_round": "outfox round open {task}",
}


def command_for(hint: Hint) -> str:
    """Return the command line for a hint."""
    return COMMANDS[hint.action].format_map({name: str(value) for name, value in hint.params.items()})
