"""A task pack: one folder that describes one task."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from common.errors import Hint
from templates.errors import InvalidPackName, PackError, PackExists, PackNotCreated, PackNotFound, Problem
from templates.label_lists import fill_lists
from templates.rows import Context, SeedRow, read_contexts, read_seed
from templates.sections import LANGUAGE
from templates.spec import COLUMNS, TaskSpec
from templates.spec_problems import problems_of
from templates.yaml_document import YamlDocument

BUILT_IN = Path(__file__).resolve().parent
# The validators' part of the instructions; without it, they read the authors'.
VALIDATE_INSTRUCTIONS = "instructions.validate.md"
# The files that can have versions in other languages, such as `instructions.de.md`.
TEXTS = ("create.xml", "validate.xml", "instructions.md", VALIDATE_INSTRUCTIONS)
FILES = ("task.yaml", "create.xml", "validate.xml", "instructions.md", "contexts.jsonl", "seed.jsonl", "README.md")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LIST_PACKS = Hint("list_packs")


@dataclass(frozen=True)
class Pack:
    """A pack with a valid task.yaml; its other files are read and checked on first use."""

    folder: Path
    spec: TaskSpec
    source: YamlDocument = field(repr=False, compare=False)

    def problem(self, setting: str, code: str, text: str) -> Problem:
        """Return a problem of a setting, such as `budget.round_cents` or `labels.0.title`, with its line."""
        path = tuple(int(step) if step.isdigit() else step for step in setting.split("."))
        return Problem("task.yaml", self.source.line_of(path), code, f"{setting}: {text}")

    @cached_property
    def create_xml(self) -> str:
        """The template for writing examples, with its lists filled in from task.yaml."""
        return self.text("create.xml")

    @cached_property
    def validate_xml(self) -> str:
        """The template for validating examples, with its lists filled in."""
        return self.text("validate.xml")

    @cached_property
    def instructions(self) -> str:
        """The workers' instructions, in Markdown."""
        return self._text("instructions.md")

    @property
    def languages(self) -> tuple[str, ...]:
        """The language codes of the pack's texts, the main one first."""
        return self.spec.languages

    def instructions_for(self, template: str, language: str = "") -> str:
        """Return the instructions for authors (`create`) or for validators (`validate`), in Markdown."""
        own = template == "validate" and (self.folder / VALIDATE_INSTRUCTIONS).is_file()
        return self.text(VALIDATE_INSTRUCTIONS if own else "instructions.md", language)

    def text(self, name: str, language: str = "") -> str:
        """Return one of the files for people, in a language if the pack has it; a template has its lists filled in."""
        other = in_language_of(name, language)
        found = self._text(other if language in self.languages and (self.folder / other).is_file() else name)
        return fill_lists(found, self.spec, language) if name.endswith(".xml") else found

    def language_of(self, name: str) -> str:
        """Return the language of one of the files for people."""
        _, *between, _ = name.split(".")
        return between[-1] if between and between[-1] in self.languages else self.languages[0]

    @cached_property
    def contexts(self) -> tuple[Context, ...]:
        """What workers are shown."""
        return read_contexts(self.folder / "contexts.jsonl", self.spec)

    @cached_property
    def seed(self) -> tuple[SeedRow, ...]:
        """The data that the first model is trained on, with its held-out part."""
        return read_seed(self.folder / "seed.jsonl", self.spec)

    def model_base(self) -> str:
        """Return the base model: `embedded`, an absolute directory, or a hub id."""
        base = self.spec.model.base
        directory = (self.folder / base).resolve()
        return str(directory) if base != "embedded" and directory.is_dir() else base

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise PackError([Problem(name, None, "file_not_utf8", "is not UTF-8; save the file as UTF-8")]) from error


def in_language_of(name: str, language: str) -> str:
    """Return the name of a file's version in a language: `create.de.xml`."""
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.{language}.{suffix}"


def pack_files(folder: Path) -> list[str]:
    """Return the names of a pack's files: the required ones, and those of its texts that are there."""
    optional = re.compile(
        "|".join(re.escape(in_language_of(name, "@")).replace("@", LANGUAGE.pattern) for name in TEXTS)
    )
    there = sorted(file.name for file in folder.iterdir())
    return [*FILES, *(one for one in there if one == VALIDATE_INSTRUCTIONS or optional.fullmatch(one))]


def load_pack(folder: Path) -> Pack:
    """Load the pack in a folder; raise a PackError with the file and line of each problem."""
    folder = folder.resolve()
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise PackError([Problem(name, None, "file_missing", f"is missing in {folder}; add it") for name in missing])
    # A link could point to a file that annotators must not read.
    links = [name for name in pack_files(folder) if (folder / name).is_symlink()]
    if links:
        raise PackError(
            [Problem(name, None, "file_is_link", "is a symbolic link; replace it with the file") for name in links]
        )
    document = YamlDocument(folder / "task.yaml")
    try:
        spec = TaskSpec.model_validate(document.value)
    except ValidationError as error:
        raise PackError(problems_of(error, document)) from error
    if spec.name != folder.name:
        text = f"name: is `{spec.name}` but the folder is `{folder.name}`; make them equal"
        raise PackError([Problem("task.yaml", document.line_of(("name",)), "name_differs", text)])
    pack = Pack(folder, spec, document)
    # Not a rule of the spec: older rounds with such names can still be read.
    if conflicts := list(_column_conflicts(pack)):
        raise PackError(conflicts)
    return pack


def _column_conflicts(pack: Pack) -> Iterator[Problem]:
    """Yield fields whose name is the column that archives use for another field."""
    places = {field.name: place for place, field in enumerate(pack.spec.fields) if field.role != "span"}
    for name in sorted(places.keys() & COLUMNS):
        other = f"field_{name}"
        if other in places:
            text = f"archives store the field `{name}` in the column `{other}`; choose another name"
            yield pack.problem(f"fields.{places[other]}.name", "column_conflict", text)


def find_pack(name: str, own_folder: Path | None = None) -> Pack:
    """Return the pack of that name or path: a folder, then one of the owner's, then a built-in one."""
    if os.sep in name or Path(name, "task.yaml").is_file():
        if not Path(name).is_dir():
            raise PackNotFound(f"there is no folder {name}", hint=_LIST_PACKS)
        return load_pack(Path(name))
    for parent in (own_folder, BUILT_IN):
        if parent is not None and (parent / name / "task.yaml").is_file():
            return load_pack(parent / name)
    raise PackNotFound(f"there is no task pack `{name}`", hint=_LIST_PACKS)


def copy_pack(source: Pack, folder: Path) -> Pack:
    """Copy a pack to a new folder, whose name becomes the task's name; an error leaves nothing behind.

    The copy has a budget of zero, so that trying it costs nothing, and no author yet.
    """
    files = {name: (source.folder / name).read_text(encoding="utf-8-sig") for name in pack_files(source.folder)}
    settings = re.sub(r"(?m)^name:.*$", f"name: {folder.name}", files["task.yaml"], count=1)
    settings = re.sub(r"(?m)^author:.*\n", "", settings, count=1)
    settings = re.sub(r"(?m)^(\s+(?:round|task)_cents:)\s*\d+", r"\1 0", settings)
    return write_pack(folder, {**files, "task.yaml": settings})


def write_pack(folder: Path, files: Mapping[str, str], *, replace: bool = False) -> Pack:
    """Write a pack to a new folder and load it; an error leaves nothing behind. `replace` allows an earlier version."""
    name = folder.name
    if not NAME.fullmatch(name):
        raise InvalidPackName(f"`{name}` is not a valid task name; use small letters, digits and _, a letter first")
    if folder.exists() and not (replace and (folder / "task.yaml").is_file()):
        raise PackExists(f"{folder} already exists; choose another name or remove it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".outfox-") as temporary:
            draft = Path(temporary) / name
            draft.mkdir()
            for file, text in files.items():
                (draft / file).parent.mkdir(parents=True, exist_ok=True)
                (draft / file).write_text(text, encoding="utf-8", newline="\n")
            load_pack(draft)
            before = Path(temporary) / "before"
            if folder.exists():
                folder.rename(before)
            try:
                draft.rename(folder)
            except OSError:
                if before.exists():
                    before.rename(folder)
                raise
    except OSError as error:
        raise PackNotCreated(f"cannot write {folder}: {error.strerror}; choose another folder") from error
    return load_pack(folder)


def replace_files(pack: Pack, files: Mapping[str, str]) -> None:
    """Replace files of a pack, each completely or not at all; built-in packs are not changed."""
    if pack.folder.parent == BUILT_IN:
        raise PackNotCreated(f"{pack.spec.name} is a built-in pack; copy it first", hint=_LIST_PACKS)
    try:
        for name, text in files.items():
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", newline="\n", dir=pack.folder, prefix=".outfox-", delete=False
            ) as draft:
                draft.write(text)
            Path(draft.name).replace(pack.folder / name)
    except OSError as error:
        raise PackNotCreated(f"cannot write {pack.folder}: {error.strerror}") from error


def pack_folders(own_folder: Path | None = None) -> tuple[Path, ...]:
    """Return the folders of all packs, the owner's first."""
    parents = [parent for parent in (own_folder, BUILT_IN) if parent is not None and parent.is_dir()]
    return tuple(file.parent for parent in parents for file in sorted(parent.glob("*/task.yaml")))
