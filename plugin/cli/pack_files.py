"""`outfox templates export`, `import` and `diff`: packs as files that are shared, with a version."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Group, RenderableType

from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import PACK, find_named_pack
from plugin.errors import InputFileError
from plugin.wiring import Application
from templates import Pack, PackError
from templates.pack_archive import Imported, PackRecord, export_pack, import_pack, read_source
from templates.pack_diff import PackDiff, diff_packs

SUFFIX = ".zip"
LONGEST_VALUE = 60


@click.command("export")
@click.argument("pack", type=PACK)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@data_command
def export(app: Application, pack: Pack, file: Path | None) -> None:
    """Write a pack to FILE, a zip with its version, author, licence and hashes. Default: NAME-VERSION.zip.

    A pack with mistakes is not exported. The same pack gives the same file. A base model in the pack's folder is not
    part of it.
    """
    if problems := app.check_pack(pack):
        raise PackError(problems)
    done = export_pack(pack, file or Path(f"{pack.spec.name}-{pack.spec.version}{SUFFIX}"))
    lines = [f"wrote {done.file}: {_named(done.record)}"]
    lines += [f"not in it: {', '.join(done.left_out)}"] if done.left_out else []
    missing = [name for name in ("author", "licence") if not getattr(pack.spec, name)]
    lines += [f"warning: task.yaml has no {' and no '.join(missing)}; others need to know"] if missing else []
    show({"file": str(done.file), **asdict(done.record), "left_out": list(done.left_out)}, "\n".join(lines))


@click.command("import")
@click.argument("source")
@click.option("--to", "parent", type=click.Path(path_type=Path), help="Folder for packs. Default: `templates_dir`.")
@click.option("--pack", "inside", default="", metavar="FOLDER", help="The pack, if the source has several.")
@click.option("--name", default="", metavar="NAME", help="Give the task another name.")
@click.option("--ref", default="", metavar="REF", help="The branch or tag of a git repository. Default: its own.")
@click.option("--replace", is_flag=True, help="Replace an earlier version of the pack.")
@data_command
def import_one(
    app: Application, source: str, parent: Path | None, inside: str, name: str, ref: str, replace: bool
) -> None:
    """Import a pack from a zip, a folder or a git repository (https or ssh).

    Nothing in it is run. Links, programs, huge files and files that are not texts are refused, and hashes are checked.

    Example: outfox templates import https://github.com/example/packs.git --pack tone --ref v2
    """
    from round_manager.services.packs import warn_about

    with _source_files(source, ref) as place:
        files = read_source(place)
    done = import_pack(files, parent or app.settings.templates_path, inside=inside, name=name, replace=replace)
    problems = app.check_pack(done.pack)
    warnings = [] if problems else warn_about(done.pack)
    data = {
        **asdict(done.record), "folder": str(done.pack.folder), "verified": done.verified,
        "problems": [asdict(one) for one in problems], "warnings": [asdict(one) for one in warnings],
    }  # fmt: skip
    lines = [*_imported(done), *(f"problem: {one}" for one in problems), *(f"warning: {one}" for one in warnings)]
    show(data, "\n".join(lines))


@click.command("diff")
@click.argument("old")
@click.argument("new")
@data_command
def diff(app: Application, old: str, new: str) -> None:
    """Show what differs between two packs, each a name, a folder or an exported zip.

    Example: outfox templates diff tone tone-2.zip
    """
    with _opened(app, old) as before, _opened(app, new) as after:
        found = diff_packs(before, after)
    show(asdict(found), _diff_text(found))


@contextmanager
def _source_files(source: str, ref: str) -> Iterator[Path]:
    """Yield the file or folder of a source; a repository is fetched into a folder that is removed afterwards."""
    from plugin.git_source import fetch_zip, is_git_url

    place = Path(source)
    if place.exists():
        yield place
    elif is_git_url(source):
        with TemporaryDirectory(prefix="outfox-git-") as folder:
            yield fetch_zip(source, Path(folder), ref=ref)
    else:
        raise InputFileError(f"there is no file or folder {source}; name one, or the https address of a repository")


@contextmanager
def _opened(app: Application, source: str) -> Iterator[Pack]:
    if not (source.lower().endswith(SUFFIX) and Path(source).is_file()):
        yield find_named_pack(app, source)
        return
    with TemporaryDirectory(prefix="outfox-pack-") as folder:
        yield import_pack(read_source(Path(source)), Path(folder)).pack


def _imported(done: Imported) -> Iterator[str]:
    checked = "its hashes are right" if done.verified else "it has no manifest, so only its files were checked"
    yield f"imported {_named(done.record)}; {checked}"
    yield f"  {done.pack.folder}{os.sep}"
    yield f"  base model: {done.pack.spec.model.base}"


def _named(record: PackRecord) -> str:
    by = f" by {record.author}" if record.author else ""
    return f"{record.name} {record.version}{by}, {record.licence or 'no licence'}, {record.sha256[:12]}"


def _diff_text(found: PackDiff) -> RenderableType:
    if not found:
        return "the packs are the same"
    parts: list[RenderableType] = []
    if found.settings:
        rows = [(one.setting, _short(one.before), _short(one.after)) for one in found.settings]
        parts.append(table(("setting", "before", "after"), rows))
    parts += [
        f"{name}: {one.added:,} added, {one.removed:,} removed, {one.changed:,} changed"
        for name, one in found.rows.items()
    ]
    parts += [part for text in found.texts.values() for part in ("", text)]
    return Group(*parts)


def _short(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
