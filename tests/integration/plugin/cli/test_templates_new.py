"""Packs made from labels: they name their own labels, take rows from CSV, and warn about what belongs elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from templates import load_pack
from tests.conftest import Outfox, replace_in

CopyOf = Callable[[str], Path]


def warnings(outfox: Outfox, folder: Path) -> list[dict[str, Any]]:
    ran = outfox("templates", "check", folder, "--json")
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)
    return list(found["warnings"])


def codes(outfox: Outfox, folder: Path) -> set[tuple[str, str]]:
    return {(one["file"], one["code"]) for one in warnings(outfox, folder)}


@pytest.fixture
def tone(outfox: Outfox, tmp_path: Path) -> Path:
    """A new pack with two labels."""
    folder = tmp_path / "tone"
    made = outfox("templates", "new", folder, "--labels", "formal,informal", "--field", "mail")
    assert made.code == 0, made.err
    return folder


def test_a_pack_made_from_labels_names_only_its_own(outfox: Outfox, tone: Path) -> None:
    pack = load_pack(tone)
    assert (pack.spec.label_names, pack.spec.model_input) == (("formal", "informal"), ("mail",))
    assert (pack.spec.budget.round_cents, pack.spec.budget.task_cents) == (0, 0)
    everything = "".join(file.read_text(encoding="utf-8") for file in tone.iterdir() if file.name != "README.md")
    assert not any(word in everything for word in ("Positive", "sentiment", "review", "feel"))
    assert all(title in pack.validate_xml and title in pack.instructions for title in ("Formal", "Informal"))
    expected = {
        ("task.yaml", "hint_missing"),
        ("seed.jsonl", "placeholder_rows"),
        ("contexts.jsonl", "placeholder_rows"),
        ("instructions.md", "placeholder_text"),
    }
    assert codes(outfox, tone) == expected


def test_seed_rows_and_contexts_come_from_csv(outfox: Outfox, tone: Path, tmp_path: Path) -> None:
    seed, contexts = tmp_path / "seed.csv", tmp_path / "contexts.csv"
    rows = [f'"Dear {n}, hello",{label}' for n in range(10) for label in ("formal", "informal")]
    seed.write_text("\n".join(["mail,label", *rows]), encoding="utf-8")
    contexts.write_text("id;prompt\nbank;Write to a bank.\n", encoding="utf-8")
    ran = outfox("templates", "fill", tone, "--seed", seed, "--contexts", contexts, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {"name": "tone", "contexts": 1, "seed": 20, "held_out": 4}
    assert load_pack(tone).seed[0].fields == {"mail": "Dear 0, hello"}
    assert {code for _, code in codes(outfox, tone)} == {"hint_missing", "placeholder_text"}
    before = (tone / "seed.jsonl").read_bytes()
    seed.write_text("mail,label\nDear all,formal\nHey,slang\nHi,slang\n", encoding="utf-8")
    ran = outfox("templates", "fill", tone, "--seed", seed)
    assert (ran.code, ran.err.count("\n"), "seed.csv:3: " in ran.err) == (2, 1, True)
    assert (tone / "seed.jsonl").read_bytes() == before
    assert outfox("templates", "fill", "sentiment", "--seed", seed, "--json").failure[0] == 2


def test_a_pack_is_made_from_labels_and_a_few_rows_or_not_at_all(outfox: Outfox, tmp_path: Path) -> None:
    seed, folder = tmp_path / "seed.csv", tmp_path / "tone"
    new = ("templates", "new", folder, "--labels", "formal,informal", "--seed", seed, "--json")
    seed.write_text("text,label\nDear all,formal\nHey,informal\nHi,informal\n", encoding="utf-8")
    assert outfox(*new).failure == (2, "pack_invalid")
    assert not folder.exists()
    seed.write_text("text,label\nDear all,formal\nDear Sir,formal\nHey,informal\nHi,informal\n", encoding="utf-8")
    assert outfox(*new).code == 0
    assert [row.split for row in load_pack(folder).seed] == ["train", "held_out"] * 2


def test_a_renamed_label_needs_no_change_of_a_template(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "- name: positive\n    title: Positive", "- name: splendid\n    title: Splendid")
    ran = outfox("templates", "check", folder)
    # One mistake: the 400 rows that still have the old name.
    assert (ran.code, ran.err.count("\n"), "seed.jsonl:1: " in ran.err) == (2, 1, True)
    seed = folder / "seed.jsonl"
    seed.write_text(seed.read_text(encoding="utf-8").replace('"positive"', '"splendid"'), encoding="utf-8")
    found = codes(outfox, folder)
    expected = {(file, "text_of_other_task") for file in ("task.yaml", "create.xml", "validate.xml", "instructions.md")}
    assert found >= expected
    assert ("instructions.md", "label_not_explained") in found


def test_texts_and_a_base_model_of_another_language_are_pointed_out(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "languages: [en]", "languages: [de]")
    found = codes(outfox, folder)
    assert ("task.yaml", "base_model_language") in found
    assert {file for file, code in found if code == "language_differs"} == {
        "task.yaml", "create.xml", "validate.xml", "instructions.md", "instructions.validate.md"
    }  # fmt: skip


@pytest.mark.parametrize("labels", ["formal", "Formal,informal", "a,a"])
def test_labels_that_make_no_task_are_refused(outfox: Outfox, tmp_path: Path, labels: str) -> None:
    ran = outfox("templates", "new", tmp_path / "tone", "--labels", labels, "--json")
    assert ran.code == 2
    assert not (tmp_path / "tone").exists()
