"""Warnings about a pack: texts that still belong to another task or language, placeholders, and missing hints.

A pack with warnings can be used. If the labels are not those of a built-in pack, a text that only that pack
has is about its labels.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from templates.errors import PackError, Problem
from templates.label_config import read_elements
from templates.new_pack import EMPTY_CELL, PLACEHOLDER
from templates.pack import BUILT_IN, Pack, load_pack, pack_files, pack_folders
from templates.text_checks import is_language
from templates.texts import shown_json

EMBEDDED = "embedded"
ENGLISH = "en"
# Texts of a template that people read.
SHOWN = ("value", "placeholder", "requiredMessage")
SHORTEST_LINE = 30


@dataclass(frozen=True)
class _Text:
    """A text that people read, and where it is."""

    file: str
    line: int | None
    place: str
    text: str


def pack_warnings(pack: Pack) -> list[Problem]:
    """Return what the author should look at; the pack itself must be valid."""
    return [
        *_leftovers(pack),
        *_language(pack),
        *_labels(pack),
        *_placeholders(pack),
    ]


def _leftovers(pack: Pack) -> Iterator[Problem]:
    """Yield texts of the built-in pack that this one was probably copied from, if it has other labels."""
    terms = (pack.spec.kind, pack.spec.label_names)
    others = [other for other in _built_in() if (other.spec.kind, other.spec.label_names) != terms]
    if pack.folder.parent == BUILT_IN:
        return
    known = {other.spec.name: {one.text for one in _texts(other)} for other in _built_in()}
    owners = Counter(text for texts in known.values() for text in texts)
    own = [one for one in _texts(pack) if owners[one.text] == 1 and not one.place.startswith("messages")]
    left = {other.spec.name: [one for one in own if one.text in known[other.spec.name]] for other in others}
    source = max(left, key=lambda name: len(left[name]))
    for file in dict.fromkeys(one.file for one in left[source]):
        texts = [one for one in left[source] if one.file == file]
        more = f", and {len(texts) - 1} more" if len(texts) > 1 else ""
        said = f"{texts[0].place}{shown_json(texts[0].text)}{more}: still as in the pack `{source}`"
        yield Problem(file, texts[0].line, "text_of_other_task", f"{said}; rewrite it for this task")


def _language(pack: Pack) -> Iterator[Problem]:
    if pack.spec.model.base == EMBEDDED and ENGLISH not in {code.split("-")[0] for code in pack.languages}:
        spoken = ", ".join(pack.languages)
        text = f"the embedded encoder is for English, and the texts are {spoken}; name a checkpoint for them"
        yield pack.problem("model.base", "base_model_language", text)
    for file, texts in groupby(_texts(pack), key=lambda one: one.file):
        if not is_language("\n".join(one.text for one in texts), (pack.language_of(file),)):
            yield Problem(file, None, "language_differs", f"seems not to be in {pack.language_of(file)}; translate it")


def _labels(pack: Pack) -> Iterator[Problem]:
    said = pack.instructions.casefold()
    for place, label in enumerate(pack.spec.labels):
        if not label.hint:
            text = "is empty; say in one sentence when the label is right"
            yield pack.problem(f"labels.{place}.hint", "hint_missing", text)
        if label.title.casefold() not in said:
            text = f"does not explain the label `{label.title}`"
            yield Problem("instructions.md", None, "label_not_explained", text)


def _placeholders(pack: Pack) -> Iterator[Problem]:
    for file, rows in (("contexts.jsonl", pack.contexts), ("seed.jsonl", pack.seed)):
        if any(row.extra.get(PLACEHOLDER) for row in rows):
            yield Problem(file, None, "placeholder_rows", "still has the placeholders of a new pack; replace them")
    for file in _instruction_files(pack):
        found = next((at for at, line in enumerate(pack.text(file).splitlines(), 1) if EMPTY_CELL in line), None)
        if found is not None:
            yield Problem(file, found, "placeholder_text", "still has an empty cell of a new pack; fill in the table")


@cache
def _built_in() -> tuple[Pack, ...]:
    return tuple(load_pack(folder) for folder in pack_folders())


def _texts(pack: Pack) -> list[_Text]:
    return [*_settings(pack), *_instructions(pack), *_templates(pack)]


def _settings(pack: Pack) -> Iterator[_Text]:
    spec = pack.spec
    texts = {"title": spec.title, "description": spec.description}
    texts |= {f"messages.{name}": text for name, text in spec.messages.model_dump(exclude_defaults=True).items()}
    texts |= {f"labels.{place}.hint": label.hint for place, label in enumerate(spec.labels) if label.hint}
    texts |= {f"fields.{place}.title": field.title for place, field in enumerate(spec.fields)}
    texts |= {f"validation.flag_reasons.{place}": text for place, text in enumerate(spec.validation.flag_reasons)}
    for place, question in enumerate(spec.quiz.questions if spec.quiz else ()):
        texts |= {f"quiz.questions.{place}.question": question.question}
    for setting, text in texts.items():
        problem = pack.problem(setting, "", "")
        yield _Text("task.yaml", problem.line, f"{setting}: ", text)


def _instructions(pack: Pack) -> Iterator[_Text]:
    for file in _instruction_files(pack):
        lines = enumerate(pack.text(file).splitlines(), 1)
        yield from (_Text(file, number, "", line.strip()) for number, line in lines if len(line) >= SHORTEST_LINE)


def _instruction_files(pack: Pack) -> list[str]:
    return [file for file in pack_files(pack.folder) if file.startswith("instructions")]


def _templates(pack: Pack) -> Iterator[_Text]:
    for file in pack_files(pack.folder):
        if not file.endswith(".xml"):
            continue
        try:
            elements = read_elements(pack.text(file), file)
        except PackError:
            continue
        for element in elements:
            if element.tag == "Choice":
                continue
            for text in (element.attributes.get(name, "") for name in SHOWN):
                if " " in text:
                    yield _Text(file, element.line, "", text)
