"""The `outfox` command.

Exit codes: 0 success; 1 a check failed (`doctor`, `crowd statement`, `round verify`) or a step did (`manage --once`);
2 a mistake that the message explains; 3 a temporary failure, so that a retry may succeed; 130 stopped by Ctrl-C.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from common.errors import CodedError
from plugin import __version__
from plugin.cli.lazy import LazyGroup
from plugin.cli.output import discard_output, escape_controls, prepare_streams
from plugin.hints import command_for
from plugin.logs import configure_logs
from plugin.settings import load_settings
from plugin.wiring import Application
from templates.errors import PackError

COMMANDS = {
    "completion": "plugin.cli.config:completion",
    "config": "plugin.cli.config:config",
    "context": "plugin.cli.context:context",
    "crowd": "plugin.cli.crowd:crowd",
    "data": "plugin.cli.data:data",
    "db": "plugin.cli.db:db",
    "demo": "plugin.cli.demo:demo",
    "doctor": "plugin.cli.doctor:doctor",
    "labelstudio": "plugin.cli.labelstudio:labelstudio",
    "manage": "plugin.cli.manage:manage",
    "marketplace": "plugin.cli.marketplace:marketplace",
    "ml-backend": "plugin.cli.ml_backend:ml_backend",
    "model": "plugin.cli.model:model",
    "round": "plugin.cli.round:rounds",
    "serve": "plugin.cli.serve:serve",
    "status": "plugin.cli.status:status",
    "task": "plugin.cli.task:task",
    "templates": "plugin.cli.templates:templates",
}

CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True}


@click.group(cls=LazyGroup, commands_at=COMMANDS, context_settings=CONTEXT)
@click.option("--home", metavar="FOLDER", help="Folder for everything that Outfox stores.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings file (TOML).")
@click.version_option(__version__, prog_name="outfox")
@click.pass_context
def cli(context: click.Context, home: str | None, config: Path | None) -> None:
    """Collect examples that fool your model, validate them, pay for them, and train the next model on them."""
    settings = load_settings(os.environ, config=config, home=home)
    configure_logs(settings.log_level, settings.log_format)
    context.obj = Application(settings)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; expected errors never end in a traceback."""
    try:
        outcome = cli.main(args=list(arguments), prog_name="outfox", standalone_mode=False)
        return outcome if isinstance(outcome, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except CodedError as error:
        _show_error(error, as_json="--json" in arguments)
        return 3 if error.retry else 2


def _show_error(error: CodedError, *, as_json: bool) -> None:
    lines = [str(one) for one in error.problems] if isinstance(error, PackError) else [str(error)]
    command = command_for(error.hint) if error.hint else ""
    if as_json:
        data = error.as_data()
        if error.hint:
            data["hint"] = {**error.hint.as_data(), "command": command}
        report = {"error": lines[0], "problems": lines, **data}
        click.echo(escape_controls(json.dumps(report, ensure_ascii=False)), err=True)
        return
    for line in lines:
        click.echo(escape_controls(f"outfox: {line}"), err=True)
    if command:
        click.echo(escape_controls(f"  try: {command}"), err=True)


def main() -> None:
    """Run the console script."""
    prepare_streams()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        # An error with a file name is not about standard output.
        if error.filename is not None:
            raise
        discard_output()
        click.echo(f"outfox: cannot write the output ({error.strerror})", err=True)
        code = 3
    sys.exit(code)
