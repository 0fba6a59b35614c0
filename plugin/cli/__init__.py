"""The `outfox` command.

Exit codes: 0 success; 1 a check failed (`doctor`, `crowd statement`, `round verify`) or a step did (`manage --once`);
2 a mistake that the message explains; 3 a temporary failure, so that a retry may succeed; 130 stopped by Ctrl-C.
"""

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import click

from common.errors import CodedError
from plugin import __version__
from plugin.cli.output import discard_output, escape_controls, prepare_streams
from plugin.hints import command_for, hint_data, set_program
from plugin.logs import configure_logs
from plugin.settings import DEMO_HOME, find_demo, load_settings
from plugin.wiring import Application

# Where each command is, and its line in `outfox --help`: nothing is imported before it is used.
COMMANDS = {
    "completion": ("plugin.cli.installation:completion", "Print the completion script for a shell."),
    "config": ("plugin.cli.installation:config", "List every setting with its value."),
    "context": ("plugin.cli.task:context", "Upload contexts, and list them."),
    "crowd": ("plugin.cli.crowd:crowd", "Post work on a marketplace, collect it and pay for it."),
    "data": ("plugin.cli.data:data", "Let researchers read a task's frozen rounds."),
    "db": ("plugin.cli.installation:db", "Create, upgrade or check the database."),
    "demo": ("plugin.cli.demo:demo", "Start everything on this machine with the sentiment task."),
    "doctor": ("plugin.cli.installation:doctor", "Show what is missing on this machine, and what to do about it."),
    "evaluate": ("plugin.cli.evaluate:evaluate", "Measure any models on the seed, every round, test suites and files."),
    "leaderboard": ("plugin.cli.leaderboard:leaderboard", "Rank evaluated models, by weights of one's own."),
    "labelstudio": ("plugin.cli.labelstudio:labelstudio", "Connect tasks to Label Studio, fill and read projects."),
    "manage": ("plugin.cli.manage:manage", "Run the rounds: collect work, decide, pay, post HITs, freeze, train."),
    "marketplace": ("plugin.cli.marketplace:marketplace", "Run a marketplace of your own, and manage its accounts."),
    "ml-backend": ("plugin.cli.servers:ml_backend", "Serve live verdicts to Label Studio."),
    "model": ("plugin.cli.model:model", "Train, query and evaluate target models, and choose those that serve."),
    "round": ("plugin.cli.round:rounds", "Open, close and inspect the rounds of a task."),
    "serve": ("plugin.cli.servers:serve", "Serve the web app: workers' pages, frozen rounds and webhooks."),
    "status": ("plugin.cli.status:status", "Show every task: its round, examples, money, model and queues."),
    "submissions": ("plugin.cli.submissions:submissions", "Let researchers submit models, and evaluate them."),
    "suite": ("plugin.cli.data_import:suite", "Import test suites, on which models are measured, and list them."),
    "task": ("plugin.cli.task:task", "Launch tasks from packs, list and show them."),
    "templates": ("plugin.cli.templates:templates", "Make, check, preview, export and import task packs."),
}
# Without settings of their own, these find the demo of `make demo`.
ABOUT_TASKS = (
    "context", "crowd", "data", "evaluate", "labelstudio", "leaderboard", "model", "round", "status", "submissions",
    "suite", "task",
)  # fmt: skip
# The code and the hint's action if the home has no database.
NO_DATABASE = ("store_unavailable", "upgrade_database")


class LazyGroup(click.Group):
    """A group that imports a command only when it is used, so that `outfox --help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the name of every command."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--home", metavar="FOLDER", help="Folder for everything that Outfox stores.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings file (TOML).")
@click.version_option(__version__, prog_name="outfox")
@click.pass_context
def cli(context: click.Context, home: str | None, config: Path | None) -> None:
    """Collect examples that fool your model, validate them, pay for them, and train the next model on them."""
    if config is None and home is None and context.invoked_subcommand in ABOUT_TASKS:
        config = find_demo(os.environ, Path.cwd())
        if config is not None:
            click.echo(escape_controls(f"the demo's (--config {shlex.quote(os.path.relpath(config))}):"), err=True)
    given = {"--home": home, "--config": config}
    set_program([part for name, value in given.items() if value is not None for part in (name, str(value))])
    settings = load_settings(os.environ, config=config, home=home)
    configure_logs(settings.log_level, settings.log_format)
    context.obj = Application(settings)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; expected errors never end in a traceback."""
    set_program([])
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
    # Only an invalid pack has several problems.
    problems = getattr(error, "problems", ())
    lines = [str(one) for one in problems] or [str(error)]
    if as_json:
        details = {"details": [asdict(one) for one in problems]} if problems else {}
        report = {"error": lines[0], "problems": lines, **details, **error.as_data(), "hint": hint_data(error.hint)}
        click.echo(escape_controls(json.dumps(report, ensure_ascii=False)), err=True)
        return
    for line in lines:
        click.echo(escape_controls(f"outfox: {line}"), err=True)
    if error.hint:
        click.echo(escape_controls(f"  try: {command_for(error.hint)}"), err=True)
        if (error.code, error.hint.action) == NO_DATABASE:
            click.echo(f"  or name a demo by its home: outfox --home {DEMO_HOME} status", err=True)


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
