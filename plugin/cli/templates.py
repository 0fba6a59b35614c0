"""`outfox templates`: task packs for the people who write them."""

from dataclasses import replace
from pathlib import Path

import click
from rich.console import Group

from common.text import count, dollars
from plugin.cli.output import data_command, data_table, json_option, show, table
from plugin.cli.parameters import PACK, find_named_pack, known_folders, port_option
from plugin.wiring import Application
from templates import Pack, PackError, Problem, copy_pack, load_pack
from templates.payloads import Template

TEMPLATE = click.option(
    "--template", type=click.Choice(["create", "validate"]), default="create", help="Which of the two templates."
)


@click.group()
def templates() -> None:
    """List, check, copy and preview task packs."""


@templates.command("list")
@data_command
def list_packs(app: Application) -> None:
    """List the task packs, yours first."""
    rows = []
    for folder in known_folders(app):
        try:
            spec = load_pack(folder).spec
        except PackError as error:
            rows.append((folder.name, "invalid", str(error.problems[0]), "", str(folder)))
        else:
            rows.append((spec.name, spec.kind, spec.title, ", ".join(spec.languages), str(folder)))
    columns = ("name", "kind", "title", "languages", "folder")
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    show(data, data_table(data))


@templates.command("show")
@click.argument("pack", type=PACK)
@json_option
def show_pack(pack: Pack) -> None:
    """Show a pack's settings, its pay and its costs."""
    from round_manager.money.prices import pack_costs
    from round_manager.policies import first_votes, most_votes

    spec, costs = pack.spec, pack_costs(pack.spec)
    votes = spec.validation
    held_out = sum(row.split == "held_out" for row in pack.seed)
    facts = [
        ("title", spec.title),
        ("what workers do", spec.description),
        ("labels", ", ".join(spec.label_names) or "none: the answer is a span"),
        ("fields", ", ".join(f"{field.name} ({field.role})" for field in spec.fields)),
        ("model reads", ", ".join(spec.model_input)),
        ("target set by", spec.target.set_by),
        ("fooled when", f"{spec.fooled.rule}, {spec.fooled.ensemble} model"),
        ("validated by", f"{votes.policy}: {_votes(first_votes(votes), most_votes(votes))}"),
        ("contexts", len(pack.contexts)),
        ("seed rows", f"{len(pack.seed):,}, {held_out:,} of them held out"),
        ("one example costs", f"{dollars(costs.example_least)} to {dollars(costs.example_most)}, fees included"),
        ("one round pays for", count(costs.round_examples, "validated fooling example")),
        ("base model", spec.model.base),
        ("folder", pack.folder),
    ]
    data = {**spec.model_dump(mode="json"), "folder": str(pack.folder), "costs": vars(costs)}
    show(data, table(("", spec.name), facts))


def _votes(least: int, most: int) -> str:
    return count(least, "vote") if least == most else f"{least} to {most} votes"


@templates.command()
@click.argument("names", nargs=-1, metavar="[PACK]...")
@data_command
def check(app: Application, names: tuple[str, ...]) -> None:
    """Check the settings, data and templates of packs (default: all), also with Label Studio's own rules."""
    wanted = names or [str(folder) for folder in known_folders(app)]
    packs: list[Pack] = []
    problems: list[Problem] = []
    for name in wanted:
        try:
            packs.append(find_named_pack(app, name))
            found = app.check_pack(packs[-1])
        except PackError as error:
            found = list(error.problems)
        # With several packs, a file's name alone is ambiguous.
        problems += [replace(one, file=f"{name}/{one.file}") for one in found] if len(wanted) > 1 else found
    if problems:
        raise PackError(problems)
    data = [{"name": pack.spec.name, "contexts": len(pack.contexts), "seed": len(pack.seed)} for pack in packs]
    lines = [
        f"{pack.spec.name}: fine, {count(len(pack.contexts), 'context')}, {count(len(pack.seed), 'seed row')}"
        for pack in packs
    ]
    show(data, "\n".join(lines))


@templates.command()
@click.option("--from", "source", type=PACK, required=True, help="The pack to copy.")
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def new(source: Pack, folder: Path) -> None:
    """Copy a pack to FOLDER, whose last part is the new task's name."""
    made = copy_pack(source, folder)
    steps = (
        f"made {made.folder}",
        "edit task.yaml, create.xml, validate.xml, instructions.md and the two .jsonl files, then run:",
        f"  outfox templates check {folder}",
        f"  outfox templates preview {folder}",
        f"  outfox model train {folder}",
    )
    show({"name": made.spec.name, "folder": str(made.folder)}, "\n".join(steps))


@templates.command()
@click.argument("pack", type=PACK)
@TEMPLATE
@json_option
def render(pack: Pack, template: Template) -> None:
    """Print a template as text, filled in with a sample."""
    from plugin.labelstudio.template_check import render as render_text

    text = render_text(pack, template)
    show({"name": pack.spec.name, "template": template, "text": text}, Group(text))


@templates.command()
@click.argument("pack", type=PACK)
@port_option(8181)
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser.")
def preview(pack: Pack, port: int, browser: bool) -> None:
    """Show both templates in the real Label Studio editor, in a browser, until Ctrl-C."""
    from plugin.labelstudio.editor import preview_app
    from plugin.server_process import serve_locally

    serve_locally(preview_app(pack), port, open_browser=browser)
