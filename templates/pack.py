"""A task pack: one folder that describes one task, loaded whole or not at all."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from templates.errors import PackError, Problem, TemplateError
from templates.rows import Context, SeedRow, read_contexts, read_seed
from templates.spec import COLUMNS, TaskSpec
from templates.spec_problems import problems_of
from templates.yaml_lines import LinedYaml

BUILT_IN = Path(__file__).resolve().parent
FILES = ("task.yaml", "create.xml", "validate.xml", "instructions.md", "contexts.jsonl", "seed.jsonl", "README.md")


@dataclass(frozen=True)
class Pack:
    """A pack whose task.yaml is known to be right; its other files are read and checked when asked for."""

    folder: Path
    spec: TaskSpec
    source: LinedYaml = field(repr=False, compare=False)

    def problem(self, setting: str, text: str) -> Problem:
        """A problem with a setting, such as `budget.round_cents` or `labels.0.title`, at its line of task.yaml."""
        where = tuple(int(step) if step.isdigit() else step for step in setting.split("."))
        return Problem("task.yaml", self.source.line_of(where), f"{setting}: {text}")

    @cached_property
    def create_xml(self) -> str:
        """The template for writing examples."""
        return self._text("create.xml")

    @cached_property
    def validate_xml(self) -> str:
        """The template for checking examples."""
        return self._text("validate.xml")

    @cached_property
    def instructions(self) -> str:
        """What workers read first, in Markdown."""
        return self._text("instructions.md")

    @cached_property
    def contexts(self) -> tuple[Context, ...]:
        """What workers are shown."""
        return read_contexts(self.folder / "contexts.jsonl", self.spec)

    @cached_property
    def seed(self) -> tuple[SeedRow, ...]:
        """What the base model learns from, with its held-out part."""
        return read_seed(self.folder / "seed.jsonl", self.spec)

    def model_base(self) -> str:
        """Where the base model is: `embedded`, an absolute directory, or a hub id."""
        base = self.spec.model.base
        beside = (self.folder / base).resolve()
        return str(beside) if base != "embedded" and beside.is_dir() else base

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise PackError([Problem(name, None, "is not UTF-8; save the file as UTF-8")]) from error


def load_pack(folder: Path) -> Pack:
    """The pack in a folder, or a PackError that names file, line and cure."""
    folder = folder.resolve()
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise PackError([Problem(name, None, f"is missing in {folder}; add it") for name in missing])
    # A link could lead out of the folder, to a file that was never meant to be read by annotators.
    links = [name for name in FILES if (folder / name).is_symlink()]
    if links:
        raise PackError([Problem(name, None, "is a link; put the file itself into the folder") for name in links])
    document = LinedYaml(folder / "task.yaml")
    try:
        spec = TaskSpec.model_validate(document.value)
    except ValidationError as error:
        raise PackError(problems_of(error, document)) from error
    if spec.name != folder.name:
        text = f"name is `{spec.name}` but the folder is called `{folder.name}`; make them equal"
        raise PackError([Problem("task.yaml", document.line_of(("name",)), text)])
    pack = Pack(folder, spec, document)
    # Not a rule of the spec: rounds that were opened with such names can still be read.
    doubled = list(_doubled_columns(pack))
    if doubled:
        raise PackError(doubled)
    return pack


def _doubled_columns(pack: Pack) -> Iterator[Problem]:
    """Fields that have the name which archives give to another one."""
    places = {field.name: place for place, field in enumerate(pack.spec.fields) if field.role != "span"}
    for name in sorted(places.keys() & COLUMNS):
        other = f"field_{name}"
        if other in places:
            text = f"`{other}` is also what archives call the field `{name}`, whose name is a column's there"
            yield pack.problem(f"fields.{places[other]}.name", f"{text}; choose another")


def find_pack(name: str, own_folder: Path | None = None) -> Pack:
    """The pack of that name or path: a folder, then one of the owner's, then a built-in one."""
    if os.sep in name or Path(name, "task.yaml").is_file():
        if not Path(name).is_dir():
            raise TemplateError(f"there is no folder {name}; `outfox templates list` shows the packs")
        return load_pack(Path(name))
    for parent in (own_folder, BUILT_IN):
        if parent is not None and (parent / name / "task.yaml").is_file():
            return load_pack(parent / name)
    raise TemplateError(f"there is no task pack `{name}`; `outfox templates list` shows the packs")


def pack_folders(own_folder: Path | None = None) -> tuple[Path, ...]:
    """The folders of all packs, the owner's first."""
    parents = [parent for parent in (own_folder, BUILT_IN) if parent is not None and parent.is_dir()]
    return tuple(file.parent for parent in parents for file in sorted(parent.glob("*/task.yaml")))
