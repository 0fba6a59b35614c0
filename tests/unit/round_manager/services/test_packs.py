"""Checks of a pack: what no parser notices, and workers or a training would."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from round_manager.services.packs import check_pack
from templates import load_pack
from templates.markup import check_markup
from tests.conftest import replace_in

CopyOf = Callable[[str], Path]


def problems(folder: Path) -> list[str]:
    """Check a pack without Label Studio's own code, which the tests of `outfox templates check` use."""
    return [str(problem) for problem in check_pack(load_pack(folder), check_markup)]


def test_empty_and_unreadable_instructions_are_reported(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    for content in (b" \n", b"\xff\xfe"):
        (folder / "instructions.md").write_bytes(content)
        (problem,) = problems(folder)
        assert problem.startswith("instructions.md: ")


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("task.yaml", "title: Negative", 'title: "POSITIVE\\u200b"', "labels.1.title: "),
        (
            "task.yaml",
            "    - Hurtful or private content",
            "    - the  sentence makes no\u00a0sense",
            "validation.flag_reasons.2: ",
        ),
        (
            "task.yaml",
            "        - The second branch is a joke.",
            "        - the second Branch opens at eight on weekdays.",
            "quiz.questions.1.choices.2: ",
        ),
        (
            "validate.xml",
            'choice="single"/>',
            'choice="single"><Choice value="Spam"/><Choice value="spam  "/></Choices>',
            "choice `spam  ` of `flag` looks like",
        ),
        ("task.yaml", "base: embedded", "base: ./nowhere", "model.base: "),
        ("task.yaml", "base: embedded", "base: /no/where", "model.base: "),
        ("task.yaml", "policy: adaptive\n  first_votes: 2", "policy: anli\n  first_votes: 1", "validation.first_votes"),
    ],
)
def test_a_mistake_that_no_parser_notices_is_reported_at_its_line(
    copy_of: CopyOf, file: str, old: str, new: str, problem: str
) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / file, old, new)
    texts = (folder / file).read_text(encoding="utf-8").splitlines()
    (line,) = [int(one.split(":")[1]) for one in problems(folder) if problem in one]
    assert new.splitlines()[-1] in "\n".join(texts[line - 1 : line + 1])


def test_a_text_in_both_splits_is_reported(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    row = {"split": "train", "text": "The very same.", "label": "neutral"}
    same = {**row, "id": "mine", "split": "held_out", "text": "the very  same."}
    with (folder / "seed.jsonl").open("a", encoding="utf-8") as file:
        file.write("".join(f"{json.dumps(one)}\n" for one in (row, same)))
    (problem,) = problems(folder)
    assert problem.startswith("seed.jsonl: ")
    assert "mine" in problem
    assert "seed-1201" in problem


def test_a_base_model_in_the_pack_or_on_the_hub_is_accepted(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "base: embedded", "base: ./mine")
    (folder / "mine").mkdir()
    assert problems(folder) == []
    replace_in(folder / "task.yaml", "base: ./mine", "base: someone/encoder")
    assert problems(folder) == []


def test_pay_that_cannot_reach_the_hourly_minimum_is_reported(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "create_cents: 45", "create_cents: 1")
    assert any("pay.create_cents: " in problem for problem in problems(folder))
