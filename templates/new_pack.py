"""A new classification pack from its labels: settings, templates, quiz, instructions and messages that name them.

Pay, work, rounds and training, and how the templates look, are those of the built-in sentiment pack. Contexts and seed
rows are placeholders, which `templates.leftovers` reports until they are replaced.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from templates.errors import InvalidPackName
from templates.pack import BUILT_IN, NAME, VALIDATE_INSTRUCTIONS, Pack, write_pack

MODEL = BUILT_IN / "sentiment"
PLACEHOLDER = "placeholder"
# In the instructions' table of labels.
EMPTY_CELL = "| … |"
PLACEHOLDER_CONTEXTS, PLACEHOLDER_ROWS = 3, 5
# What the sentiment pack's templates say about feelings, and what a new pack says instead.
_TEXTS = {
    "How does the writer of this sentence feel?": "Which label is right for this sentence?",
    "Prompt sentence": "Start from this",
    "sentence that reads as": "sentence with the label",
    "Other people must read it that way; the model should not.": "Other people should see that label, the model not.",
    "An idea to start from. Change it as you like; a near copy earns no bonus.": "An idea. A near copy earns no bonus.",
}


@dataclass(frozen=True)
class NewPack:
    """What the owner says about a new task; `field` is what workers write, `prompt` what they start from."""

    labels: Sequence[str]
    field: str = "text"
    prompt: str = "prompt"
    language: str = "en"
    title: str = ""

    @property
    def titles(self) -> list[str]:
        """The labels as people read them."""
        return [name.replace("_", " ").capitalize() for name in self.labels]

    @property
    def noun(self) -> str:
        """What workers write, in words."""
        return self.field.replace("_", " ")


def new_pack(folder: Path, wanted: NewPack) -> Pack:
    """Write a new pack to a new folder, whose name becomes the task's name; an error leaves nothing behind."""
    for name in (*wanted.labels, wanted.field, wanted.prompt):
        if not NAME.fullmatch(name):
            raise InvalidPackName(f"`{name}` is not a valid name; use small letters, digits and _, a letter first")
    return write_pack(folder, _files(folder.name, wanted))


def _files(name: str, wanted: NewPack) -> Mapping[str, str]:
    return {
        "task.yaml": _settings(name, wanted),
        "create.xml": _template("create.xml", wanted),
        "validate.xml": _template("validate.xml", wanted),
        "instructions.md": _instructions(wanted),
        VALIDATE_INSTRUCTIONS: _validator_instructions(wanted),
        "contexts.jsonl": _contexts(name, wanted),
        "seed.jsonl": _seed(name, wanted),
        "README.md": _readme(name, wanted),
    }


def _settings(name: str, wanted: NewPack) -> str:
    title = wanted.title or f"Fool the {name.replace('_', ' ')} model"
    a_text = f"{_article(wanted.noun)} {wanted.noun}"
    labels = "".join(
        f"  - name: {label}\n    title: {_quoted(shown)}\n    hint: ''\n"
        for label, shown in zip(wanted.labels, wanted.titles, strict=True)
    )
    why = "required: false, max_chars: 500"
    replaced = {
        "name": f"name: {name}\n",
        "version": "version: '1'\n",
        "author": "",
        "licence": "",
        "data_licence": "",
        "title": f"title: {_quoted(title)}\n",
        "description": "description: "
        + _quoted(f"Write {a_text} with the label that you are asked for, so that the model reads it wrong and other "
                  "people read it right.")
        + "\n",
        "languages": f"languages: [{wanted.language}]\n",
        "labels": f"# Templates show these titles and hints from here.\nlabels:\n{labels}\n",
        "fields": "fields:\n"
        f"  - {{name: {wanted.prompt}, role: context, title: Start from this}}\n"
        f"  - {{name: {wanted.field}, role: input, title: {_quoted(f'Your {wanted.noun}')}, max_chars: 400}}\n"
        f'  - {{name: why_right, role: reason, title: "Why is your label right?", {why}}}\n'
        f'  - {{name: why_wrong, role: reason, title: "Why might the model read it wrong?", {why}}}\n',
        "model_input": f"model_input: [{wanted.field}]\n\n",
        "budget": "# Nothing can be posted on a crowd before this is set; an in-house round needs none.\n"
        "budget:\n  round_cents: 0\n  task_cents: 0\n\n",
        "quiz": _quiz(wanted),
        "messages": "messages:\n"
        '  fooled: "You fooled the model! It says {prediction} ({confidence}); you were asked for {target}."\n'
        '  not_fooled: "Not fooled: the model says {prediction} ({confidence}), as you were asked. Change your '
        f'{wanted.noun} and try again."\n'
        '  answered: "The model says {prediction} ({confidence})."\n',
    }  # fmt: skip
    source = (MODEL / "task.yaml").read_text(encoding="utf-8")
    head, *sections = re.split(r"(?m)^(?=[a-z_]+:)", source)
    kept = {section.split(":", 1)[0]: section for section in sections}
    ordered = [*(key for key in replaced if key not in kept and replaced[key]), *kept]
    ordered.sort(key=lambda key: key != "name")
    reasons = f"    - The {wanted.noun} makes no sense\n    - No label is right\n    - Hurtful or private content\n"
    kept["validation"] = re.sub(r"(flag_reasons:\n)(?:    - .*\n)+", rf"\g<1>{reasons}", kept["validation"])
    return head + "".join(replaced.get(key, kept.get(key, "")) for key in ordered)


def _quiz(wanted: NewPack) -> str:
    first, noun = wanted.titles[0], wanted.noun
    questions = [
        (
            f"You are asked for {_article(noun)} {noun} with the label {first}. When does it earn the bonus?",
            [f"When the model says anything but {first}.",
             f"When the model says anything but {first}, and other people agree that the label is {first}.",
             "Whenever I submit it."],
            1,
            "A fooled model is half of it; other people must agree with your label.",
        ),
        (
            f"When is the label {first} right?",
            [f"When most readers would say that it is {first}.", "When the model says so."],
            0,
            "The label is what people read, not what the model says.",
        ),
        (
            "May you use what you start from?",
            ["No, it must not appear in any form.", "Yes, as an idea; I can change as much as I like.",
             "Yes, I must copy it word for word."],
            1,
            f"It is an idea to start from; what counts is your own {noun}.",
        ),
    ]  # fmt: skip
    lines = ["quiz:", "  pass_share: 0.75", "  max_attempts: 2", "  questions:"]
    for question, choices, answer, explain in questions:
        lines += [f"    - question: {_quoted(question)}", "      choices:"]
        lines += [f"        - {_quoted(choice)}" for choice in choices]
        lines += [f"      answer: {answer}", f"      explain: {_quoted(explain)}"]
    return "\n".join(lines) + "\n\n"


def _template(file: str, wanted: NewPack) -> str:
    text = (MODEL / file).read_text(encoding="utf-8")
    for old, new in _TEXTS.items():
        text = text.replace(old, new)
    text = re.sub(r"\b([Aa]) sentence", lambda found: f"{_article(wanted.noun, found[1])} {wanted.noun}", text)
    # `$sentence` is a key of a task's data.
    text = re.sub(r"(?<!one )(?<!\$)sentence", wanted.noun, text)
    for old, new in (("prompt", wanted.prompt), ("text", wanted.field)):
        text = re.sub(rf'\b(name|toName)="{old}"', rf'\1="{new}"', text)
        text = text.replace(f'value="${old}"', f'value="${new}"')
    return text


def _instructions(wanted: NewPack) -> str:
    noun, rows = wanted.noun, "".join(f"| **{title}** {EMPTY_CELL} … |\n" for title in wanted.titles)
    a_text = f"{_article(noun)} {noun}"
    return f"""## What you do

Write {a_text} with the label that you are asked for. A computer model guesses the label. You win when it guesses wrong and other people guess right.

1. Look at the label that you are asked for, and at what you start from.
2. Write your {noun}, then press **Shift+Enter** or **Add**.
3. Read the verdict: the model's label and how sure it is.
4. Not fooled? Change your {noun} and press **Shift+Enter** again. A verdict counts only for the words that you sent.
5. Submit. If your attempts run out, submit your best one anyway.

## The labels

| Label | When it is right | Two good examples |
|---|---|---|
{rows}
## What we do not accept

- Nonsense and spam.
- Texts copied from anywhere.
- Spelling that people cannot read.
- Hurtful words, or private details of real people.

## Checking and pay

A fooled model is half of it. Other people then choose a label; if they disagree, more people are asked. Honest work is paid whether or not the model was fooled. The **bonus** comes when the model was fooled **and** people agree with your label. A text that is 70 % or more the same as an earlier one, by you or by others, earns none; the page warns you. On the marketplace, the page shows the amounts and the hourly rate that pay is topped up to; in Label Studio, ask the person who invited you.
"""  # noqa: E501 - paragraphs of Markdown


def _validator_instructions(wanted: NewPack) -> str:
    a_text = f"{_article(wanted.noun)} {wanted.noun}"
    return f"""## What you do

Choose the label that is right; do not guess which one was asked for. Flag {a_text} that makes no sense, fits no label, or is hurtful or private. A few items have a known answer.
"""  # noqa: E501 - paragraphs of Markdown


def _contexts(name: str, wanted: NewPack) -> str:
    rows = [
        {"id": f"{name}-c{number}", wanted.prompt: f"Replace this: what authors start from ({number})",
         PLACEHOLDER: True}
        for number in range(1, PLACEHOLDER_CONTEXTS + 1)
    ]  # fmt: skip
    return _jsonl(rows)


def _seed(name: str, wanted: NewPack) -> str:
    rows = [
        {"id": f"{name}-{label}-{number}", "split": "held_out" if number == PLACEHOLDER_ROWS else "train",
         wanted.field: f"Replace this: {_article(title)} {title} {wanted.noun} ({number})", "label": label,
         PLACEHOLDER: True}
        for label, title in zip(wanted.labels, wanted.titles, strict=True)
        for number in range(1, PLACEHOLDER_ROWS + 1)
    ]  # fmt: skip
    return _jsonl(rows)


def _readme(name: str, wanted: NewPack) -> str:
    return f"""# {name}

A task pack for {wanted.noun}s with the labels {", ".join(wanted.titles)}.

Labels, hints and flag reasons are written in `task.yaml` only; both templates show them from there. The name of a field
is the name of its control in the templates, a key in `contexts.jsonl` or `seed.jsonl`, and an entry of `model_input`.

    outfox templates fill {name} --seed seed.csv --contexts contexts.csv
    outfox templates check {name}
    outfox templates preview {name}
    outfox task launch {name} --in-house
"""


def _jsonl(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _quoted(text: str) -> str:
    """Return a text as a YAML scalar; YAML reads JSON's quotes."""
    return json.dumps(text, ensure_ascii=False)


def _article(word: str, form: str = "a") -> str:
    return f"{form}n" if word[:1].lower() in "aeiou" else form
