"""The data card of an export: a README.md as Hugging Face expects it, stated from the archives and the rows alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pyarrow import parquet

from outfox.card_facts import (
    NOT_STATED,
    CardFacts,
    People,
    RoundCard,
    at,
    counts,
    day_at,
    known,
    list_at,
    number_at,
    percent,
    text_at,
)
from outfox.card_figures import figures, known_limits
from outfox.columns import EXAMPLES, FORM_KEYS, type_name
from outfox.markdown import code, escaped, front_matter, table

NAME = "README.md"
NLI_LABELS = {"entailment", "neutral", "contradiction"}
# The identifiers of Hugging Face for the licences that data sets have; another one is `other` with its name.
LICENCES = frozenset(
    {
        "apache-2.0", "mit", "bsd-3-clause", "cc0-1.0", "cc-by-2.0", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0",
        "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0", "cc-by-nc-nd-4.0", "odbl", "odc-by", "pddl",
        "cdla-permissive-1.0", "cdla-permissive-2.0", "cdla-sharing-1.0", "unlicense", "gpl-3.0", "lgpl-3.0",
    }
)  # fmt: skip
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
LARGEST = "1M<n<10M"
SOURCES = {
    "pages": "worker pages of a marketplace",
    "label_studio": "Label Studio (in-house)",
    "import": "imported",
}
PROVENANCE = ("source", "licence", "citation")
# The forms that `datasets.load_dataset` reads with the `configs` of the card.
WITH_CONFIGS = ("datasets", "anli", "dynasent")


def data_card(form: str, about: dict[str, Any], frame: pd.DataFrame, rows: pd.DataFrame, files: Sequence[Path]) -> str:
    """Return the card of exported rows, in files that are already written; `frame` has the other rows as well."""
    facts = CardFacts(str(about["task"]), about, frame, rows)
    title = text_at(facts.last("spec"), "title") or facts.task
    limits = "".join(f"- {limit}\n" for limit in known_limits(facts))
    sections = (
        f"# {escaped(title)}\n\n{''.join(_summary(facts, form))}",
        f"## How it was collected\n\n{''.join(_collection(facts))}",
        f"## Who wrote and judged it\n\n{_people(facts)}",
        f"## Licence\n\n{''.join(_licence(facts))}",
        f"## Columns\n\n{_columns(facts, form, files)}",
        f"## Figures\n\n{''.join(figures(facts))}",
        f"## Known limits\n\n{limits}",
        f"## Load and cite\n\n{_usage(facts, form, files)}",
    )
    return f"{front_matter(_metadata(facts, form, title, files))}\n" + "\n".join(sections)


def _metadata(facts: CardFacts, form: str, title: str, files: Sequence[Path]) -> dict[str, Any]:
    values: dict[str, Any] = {"pretty_name": title}
    if facts.languages:
        values["language"] = facts.languages
    licences = facts.stated("spec", "data_licence")
    if len(licences) == 1 and licences[0]:
        name = licences[0].lower()
        values |= {"license": name} if name in LICENCES else {"license": "other", "license_name": licences[0]}
    is_qa = facts.about["kind"] == "qa"
    values["task_categories"] = ["question-answering" if is_qa else "text-classification"]
    if is_qa:
        values["task_ids"] = ["extractive-qa"]
    elif set(facts.about["labels"]) == NLI_LABELS:
        values["task_ids"] = ["natural-language-inference"]
    values["size_categories"] = [next((name for most, name in SIZES if len(facts.rows) < most), LARGEST)]
    values["tags"] = ["adversarial", "human-and-model-in-the-loop", "outfox"]
    if facts.authors.simulated or facts.validators.simulated:
        values["tags"].append("simulated")
    if form in WITH_CONFIGS:
        splits = [{"split": file.stem, "path": file.name} for file in files]
        values["configs"] = [{"config_name": "default", "data_files": splits}]
    return values


def _summary(facts: CardFacts, form: str) -> Iterator[str]:
    opened, closed = facts.period
    when = f" from {opened} to {closed}" if opened != closed else f" on {opened}"
    when = when if opened and closed else ""
    imported = [one for one in facts.rounds if one.origin is not None]
    kinds = counts(facts.rows, "status")
    what = "verified examples"
    if kinds.keys() - {"verified"}:
        what = f"examples ({', '.join(f'{number:,} {escaped(status)}' for status, number in kinds.items())})"
    form_note = "" if form == "datasets" else f" The files have the form of {form}."
    first = f"{len(facts.rows):,} {what} of the task {code(facts.task)},"
    if imported and len(imported) == len(facts.rounds):
        yield f"{first} published by others and imported into Outfox. {_rounds_in_words(facts)}{form_note}\n"
    else:
        yield (
            f"{first} collected{when} with Outfox: authors wrote them with a target model in the loop, and validators "
            f"confirmed their labels or answers. {_rounds_in_words(facts)}{form_note}\n"
        )
        if imported:
            numbers = ", ".join(str(one.number) for one in imported)
            yield f"\n**Not all of it was collected here:** imported rounds are {numbers}.\n"
    if kinds.get("unchecked"):
        yield (
            f"\n{kinds['unchecked']:,} of the examples are `unchecked`: no validator confirmed the label, which is the "
            "author's. They are to train on, not to measure on.\n"
        )
    simulated, total = facts.simulated
    if simulated == total > 0:
        yield (
            "\n**No people took part.** All authors and validators are simulated workers: programs in place of people. "
            "The data shows what such data looks like, not how people write or how often they fool a model.\n"
        )
    elif simulated:
        yield "\n**Some workers are simulated:** programs in place of people. The table below counts them.\n"


def _rounds_in_words(facts: CardFacts) -> str:
    numbers = [str(one.number) for one in facts.rounds]
    if not numbers:
        return "The rounds are not stated."
    return f"Round {numbers[0]}." if len(numbers) == 1 else f"Rounds {', '.join(numbers[:-1])} and {numbers[-1]}."


def _collection(facts: CardFacts) -> Iterator[str]:
    spec = facts.last("spec")
    if description := text_at(spec, "description"):
        yield f"What authors were asked for:\n\n> {escaped(description)}\n\n"
    if labels := list_at(spec, "labels"):
        rows = [[_cell(one, "name", as_code=True), _cell(one, "title"), _cell(one, "hint")] for one in labels]
        yield f"{table(('label', 'title', 'when it is right'), rows)}\n"
    yield f"The target model answers every attempt at once, so authors know its predictions. {_fooled_rule(spec)}\n\n"
    yield table(
        ("round", "opened", "closed", "target models", "attempts allowed", "validation"),
        [_round_terms(one) for one in facts.rounds],
    )
    if imported := [one for one in facts.rounds if one.origin is not None]:
        yield "\nImported rounds, whose labels and splits are as published:\n\n"
        yield table(
            ("round", "source", "licence", "citation"),
            [
                [str(one.number), *(escaped(text_at(one.origin, name)) or NOT_STATED for name in PROVENANCE)]
                for one in imported
            ],
        )
    if judging := text_at(spec, "validation", "description"):
        yield f"\nWhat validators were asked for:\n\n> {escaped(judging)}\n"
    yield (
        "\nThe policy decides from the votes: if validators agree on the author's label or answer, the example is "
        "`verified`; if they agree on another or on none, it is `disputed`. An author never judges their own example. "
        "The archives do not contain the full instructions.\n"
    )


def _cell(data: Any, name: str, *, as_code: bool = False) -> str:
    text = text_at(data, name)
    return code(text) if as_code else escaped(text)


def _fooled_rule(spec: Any) -> str:
    rule = text_at(spec, "fooled", "rule")
    if rule == "label_differs":
        return "It is fooled if its prediction differs from the author's label."
    if rule == "squad_f1":
        limit = escaped(str(at(spec, "fooled", "below")))
        return f"It is fooled if the word F1 of its answer and the author's is below {limit}."
    return f"The rule for a fooled model: {code(rule) if rule else NOT_STATED}."


def _round_terms(one: RoundCard) -> list[str]:
    versions = [text_at(model, "version") for model in list_at(one.facts, "models")]
    policy = text_at(one.facts, "spec", "validation", "policy")
    sample = at(one.facts, "spec", "validation", "sample_non_fooling")
    votes = [number_at(one.facts, "spec", "validation", name) for name in ("first_votes", "max_votes")]
    terms = [code(policy) if policy else NOT_STATED]
    # The other policies have numbers of their own.
    if policy == "adaptive" and None not in votes:
        terms.append(f"{votes[0]} to {votes[1]} votes")
    if isinstance(sample, int | float):
        terms.append(f"{percent(sample)} of those that did not fool")
    return [
        str(one.number),
        day_at(one.facts, "opened_at") or NOT_STATED,
        day_at(one.facts, "closed_at") or NOT_STATED,
        ", ".join(code(version) for version in versions if version) or NOT_STATED,
        known(number_at(one.facts, "spec", "work", "tries")),
        ", ".join(terms),
    ]


def _people(facts: CardFacts) -> str:
    rows = [
        [
            str(one.number),
            *_numbers(one.authors),
            *_numbers(one.validators),
            ", ".join(f"{SOURCES.get(name, escaped(name))}: {many:,}" for name, many in one.sources.items())
            or NOT_STATED,
        ]
        for one in facts.rounds
    ]
    head = ("round", "authors", "of them simulated", "validators", "of them simulated", "examples by place")
    return (
        f"{table(head, rows)}\nPeople appear under pseudonyms (salted hashes), the same for authors and validators of "
        "this task and different in other tasks. The archives have no names, accounts or addresses. The pseudonyms of "
        "simulated workers begin with `simulated-`.\n"
    )


def _numbers(people: People | None) -> list[str]:
    return [known(people.total), known(people.simulated)] if people else [NOT_STATED] * 2


def _licence(facts: CardFacts) -> Iterator[str]:
    licences = facts.stated("spec", "data_licence")
    if licences == [""]:
        yield "The data: not stated in the archives. Ask the owner of the task before you use or share it.\n"
    elif len(licences) == 1:
        yield f"The data: {escaped(licences[0])}.\n"
    else:
        for one in facts.rounds:
            yield f"- Round {one.number}: {escaped(text_at(one.facts, 'spec', 'data_licence')) or NOT_STATED}\n"
    spec = facts.last("spec")
    author, licence = (escaped(text_at(spec, name)) or NOT_STATED for name in ("author", "licence"))
    pack = "The task pack (settings, instructions, and the contexts that come with it)"
    yield f"\n{pack}: author {author}, licence {licence}.\n"


def _columns(facts: CardFacts, form: str, files: Sequence[Path]) -> str:
    if form in FORM_KEYS:
        rows = [[code(name), code(kind), meaning] for name, (kind, meaning) in FORM_KEYS[form].items()]
        return table(("key", "type", "meaning"), rows)
    fields = {text_at(field, "name"): field for field in list_at(facts.last("spec"), "fields")}
    schema = parquet.read_schema(files[0])
    rows = [[code(column.name), code(type_name(column.type)), _meaning(column.name, fields)] for column in schema]
    return table(("column", "type", "meaning"), rows)


def _meaning(column: str, fields: dict[str, Any]) -> str:
    field = fields.get(column.removeprefix("field_") if column not in fields else column)
    # A field whose name is taken is in the column `field_…`.
    if column in EXAMPLES and column not in ("duplicate", "duplicate_of"):
        return EXAMPLES[column]
    if field is None:
        return EXAMPLES.get(column, "not a column of the archives")
    role = text_at(field, "role")
    shown = "shown to the author" if role == "context" else "written by the author"
    return f"{shown}: {escaped(text_at(field, 'title'))} (role {code(role)})"


def _usage(facts: CardFacts, form: str, files: Sequence[Path]) -> str:
    hashes = [
        [str(one.number), code(text_at(one.facts, "sha256")) or NOT_STATED, known(one.archived), _written_by(one)]
        for one in facts.rounds
    ]
    how = (
        f'import json\n\ndata = json.load(open("{files[0].name}", encoding="utf-8"))["data"]'
        if form == "squad"
        else 'import datasets\n\ndata = datasets.load_dataset("path/to/this/folder")'
    )
    return (
        f"```python\n{how}\n```\n\nTo cite the data, name the task, the rounds and the SHA-256 of their manifests, "
        "which identify every file of the archives:\n\n"
        f"{table(('round', 'SHA-256 of the manifest', 'examples in the archive', 'written by'), hashes)}"
    )


def _written_by(one: RoundCard) -> str:
    version = text_at(one.facts, "written_by", "outfox")
    return f"Outfox {escaped(version)}" if version else NOT_STATED
