"""Invalid settings and rows are reported in their author's terms, with what to write."""

from collections.abc import Callable
from pathlib import Path

import pytest

from templates import PackError, load_pack
from tests.conftest import replace_in

CopyOf = Callable[[str], Path]
# Terms of Python, pydantic and PyYAML.
JARGON = (
    "input should", "tuple", "dictionary", "instance of", "boolean", "integer", "valid string", "parse", "pattern",
    "NoneType", "None", "dict", "True", "False", "Error", "TaskSpec", "Node(", "format string", "<block", "fractional",
)  # fmt: skip


def load_whole(folder: Path) -> int:
    pack = load_pack(folder)
    return len(pack.contexts) + len(pack.seed)


def problems(folder: Path) -> str:
    with pytest.raises(PackError) as caught:
        load_whole(folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "first_votes: 2",
            "first_votes: two",
            "validation.first_votes: is `two` and must be a whole number",
        ),
        ("first_votes: 2", "first_votes: 2.5", "validation.first_votes: is 2.5 "),
        ("first_votes: 2", "first_votes: 12", "validation.first_votes: is 12 and must be at most 9"),
        ("first_votes: 2", "first_votes:", "validation.first_votes: is empty"),
        ("first_votes: 2", "first_votes: .nan", "validation.first_votes: is NaN "),
        ("first_votes: 2", "first_votes: 2027-01-01", "validation.first_votes: is the date 2027-01-01 "),
        ("create_cents: 45", 'create_cents: "45"', "pay.create_cents: is `45` "),
        ("gold_rate: 0.1", "gold_rate: [0.1]", "validation.gold_rate: is a list and must be a number"),
        ("gold_rate: 0.1", "gold_rate: 10", "validation.gold_rate: is 10 and must be at most 1"),
        ("learning_rate: 0.0002", "learning_rate: 0", "training.learning_rate: is 0 and must be more than 0"),
        ("split_by_worker: true", "split_by_worker: maybe", "rounds.split_by_worker: is `maybe`; write true or false"),
        ("split_by_worker: true", "split_by_worker: {}", "rounds.split_by_worker: is empty; write true or false"),
        ("title: Fool the sentiment model", "title: 5", " title: is 5 and must be text (in quotes)"),
        ("title: Fool the sentiment model", "title: yes", " title: is true "),
        ("title: Fool the sentiment model", "title: [a]", " title: is a list and must be text"),
        (
            "title: Fool the sentiment model",
            "title: {a: 1}",
            " title: `a` is not a language code",
        ),
        ("title: Fool the sentiment model", f"title: {'x' * 2_001}", " title: has 2,001 characters, at most 2,000"),
        ("title: Fool the sentiment model", "title: It: a task", "task.yaml:5: is not valid YAML: one colon too many"),
        ("title: Fool the sentiment model", "\ttitle: x", "is not valid YAML: a tab"),
        ("languages: [en]", "languages: en", " languages: is `en` and must be a list"),
        ("languages: [en]", "languages: [5]", " languages.0: is 5 "),
        ("languages: [en]", "languages: [English]", " languages.0: is `English` and must be a code of two or three"),
        ("model_input: [text]", "model_input: [a, b, c]", " model_input: has 3 entries, at most 2"),
        ("name: positive\n", "name: Very Good\n", " labels.0.name: is `Very Good` and must be a name of small letters"),
        ("target:\n  set_by: task", "target: task", " target: is `task`; write settings below it: set_by"),
        ("target:\n  set_by: task", "target:", " target: is empty; write settings below it: set_by"),
        ("set_by: task", "set_by: 5", "target.set_by: is 5; write `task`"),
        ("kind: classification", "{a: 1}: x", "brackets"),
        (
            "It says {prediction}",
            "It says {prediction",
            " messages.fooled: ",
        ),
    ],
)
def test_an_invalid_value_is_reported_without_jargon(copy_of: CopyOf, old: str, new: str, problem: str) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", old, new)
    reported = problems(folder)
    assert problem in reported
    assert not [word for word in JARGON if word in reported]


def test_a_task_yaml_without_settings_is_reported_with_the_known_ones(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    (folder / "task.yaml").write_text("just a text\n", encoding="utf-8")
    assert "the file: is `just a text`; write settings, one per line: name, version, " in problems(folder)


@pytest.mark.parametrize(
    ("file", "row", "problem"),
    [
        ("seed.jsonl", '{"text": "Fine."}', "has no label; write one of positive"),
        ("seed.jsonl", '{"text": "Fine.", "label": ["positive"]}', 'label is ["positive"]; write one of positive'),
        ("seed.jsonl", '{"text": "Fine.", "label": true}', "label is true; write one of positive"),
        ("seed.jsonl", '{"text": "Fine.", "label": "neutral", "split": null}', "split is null; write train or"),
        ("contexts.jsonl", '{"prompt": "Write.", "targets": null}', "targets is null; list some of positive"),
        ("contexts.jsonl", '{"prompt": "Write.", "targets": [false]}', "targets is [false]; list some of positive"),
    ],
)
def test_an_invalid_row_is_quoted_as_written(copy_of: CopyOf, file: str, row: str, problem: str) -> None:
    folder = copy_of("sentiment")
    with (folder / file).open("a", encoding="utf-8") as opened:
        opened.write(f"{row}\n")
    reported = problems(folder)
    assert problem in reported
    assert not [word for word in JARGON if word in reported]
