"""`outfox templates`: task packs for the people who write them."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Group

from common.text import count, dollars
from plugin.cli.output import data_command, data_table, json_option, show, table
from plugin.cli.pack_files import diff, export, import_one
from plugin.cli.parameters import PACK, find_named_pack, known_folders, port_option
from plugin.wiring import Application
from templates import Pack, PackError, Problem, copy_pack, load_pack
from templates.pack_data import fill_new_pack, fill_pack
from templates.payloads import Template

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
SEED = click.option("--seed", type=FILE, help="A CSV or JSONL file with the pack's seed rows.")
CONTEXTS = click.option("--contexts", type=FILE, help="A CSV or JSONL file with the pack's contexts.")
TEMPLATE = click.option(
    "--template", type=click.Choice(["create", "validate"]), default="create", help="Which of the two templates."
)


@click.group(commands=[diff, export, import_one])
def templates() -> None:
    """Make, check, preview, export and import task packs."""


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
    """Check the settings, data and templates of packs (default: all), also with Label Studio's own rules.

    Warnings do not change the exit code: texts that still belong to another task or language, placeholders, labels
    without a hint.
    """
    from round_manager.services.packs import warn_about

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
    data: list[dict[str, Any]] = []
    lines: list[str] = []
    for pack in packs:
        warnings = warn_about(pack)
        contexts, seed = len(pack.contexts), len(pack.seed)
        data.append({"name": pack.spec.name, "contexts": contexts, "seed": seed,
                     "warnings": [asdict(one) for one in warnings]})  # fmt: skip
        fine = f"fine, but {count(len(warnings), 'warning')}" if warnings else "fine"
        lines.append(f"{pack.spec.name}: {fine}, {count(contexts, 'context')}, {count(seed, 'seed row')}")
        lines += [f"  warning: {one}" for one in warnings]
    show(data, "\n".join(lines))


@templates.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--from", "source", type=PACK, help="Copy this pack.")
@click.option("--labels", metavar="NAME,...", help="Write a classification pack with these labels instead.")
@click.option("--field", default="text", metavar="NAME", help="With --labels: what workers write.")
@click.option("--prompt", default="prompt", metavar="NAME", help="With --labels: what workers start from.")
@click.option("--language", default="en", metavar="CODE", help="With --labels: the language of the texts.")
@click.option("--title", default="", metavar="TEXT", help="With --labels: the task's title.")
@SEED
@CONTEXTS
@json_option
def new(
    folder: Path,
    source: Pack | None,
    labels: str | None,
    field: str,
    prompt: str,
    language: str,
    title: str,
    seed: Path | None,
    contexts: Path | None,
) -> None:
    """Make a pack in FOLDER, whose last part is the new task's name: from labels, or as a copy.

    The new pack's budget is zero, so that nothing is posted on a crowd before you set one.

    Example: outfox templates new tone --labels formal,informal --field text --seed seed.csv --contexts prompts.csv
    """
    from templates.new_pack import NewPack, new_pack

    if (source is None) == (labels is None):
        raise click.UsageError("pass either --labels, or --from with a pack to copy")
    if source is not None:
        made = copy_pack(source, folder)
    else:
        names = [name.strip() for name in (labels or "").split(",") if name.strip()]
        made = new_pack(folder, NewPack(names, field=field, prompt=prompt, language=language, title=title))
    if seed or contexts:
        made = fill_new_pack(made, seed=seed, contexts=contexts)
    steps = (
        f"made {made.folder}, with a budget of zero",
        "edit task.yaml and both instructions, import your seed rows and contexts, then run:",
        f"  outfox templates fill {folder} --seed FILE --contexts FILE",
        f"  outfox templates check {folder}",
        f"  outfox templates preview {folder}",
        f"  outfox task launch {folder} --in-house",
    )
    show({"name": made.spec.name, "folder": str(made.folder)}, "\n".join(steps))


@templates.command()
@click.argument("pack", type=PACK)
@SEED
@CONTEXTS
@json_option
def fill(pack: Pack, seed: Path | None, contexts: Path | None) -> None:
    """Replace a pack's seed rows or contexts by those of CSV or JSONL files; nothing is changed if a row is invalid.

    A seed file has the columns that the model reads and `label` (for qa `answer`); a file of contexts has the context
    fields. `id` is optional. Without a column `split`, every fifth row of a label is held out, or the last one of
    two to four.

    Example: outfox templates fill tone --seed seed.csv
    """
    if not (seed or contexts):
        raise click.UsageError("name a file with --seed or --contexts")
    filled = fill_pack(pack, seed=seed, contexts=contexts)
    held_out = sum(row.split == "held_out" for row in filled.seed)
    data = {"name": filled.spec.name, "contexts": len(filled.contexts), "seed": len(filled.seed), "held_out": held_out}
    rows = f"{count(len(filled.seed), 'seed row')}, {held_out:,} of them held out"
    show(data, f"{filled.spec.name}: {count(len(filled.contexts), 'context')}, {rows}")


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
    """Show both templates in the real Label Studio editor, the instructions and the quiz, until Ctrl-C."""
    from plugin.labelstudio.editor import preview_app
    from plugin.server_process import serve_locally

    serve_locally(preview_app(pack), port, open_browser=browser)
