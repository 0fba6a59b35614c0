"""Hints as commands: what a user can type to resolve an error.

The domain names an action; only this table knows the command that performs it. Keep it sorted.
"""

from common.errors import Hint

COMMANDS = {
    "list_all_models": "outfox model list",
    "list_models": "outfox model list {task}",
    "list_settings": "outfox config",
    "open_round": "outfox round open {task}",
    "rotate_model": "outfox model rotate {task} VERSION",
    "show_pins": "outfox model pins {task}",
}


def command_for(hint: Hint) -> str:
    """Return the command line for a hint."""
    return COMMANDS[hint.action].format_map({name: str(value) for name, value in hint.params.items()})
