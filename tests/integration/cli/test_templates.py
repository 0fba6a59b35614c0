import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PACKS, Outfox, replace_in

CopyOf = Callable[[str], Path]
MakeWrong = Callable[[Path], None]


def test_the_packs_are_listed_for_people_and_for_programs(outfox: Outfox) -> None:
    for name in PACKS:
        assert name in outfox("templates", "list").out
    listed = json.loads(outfox("templates", "list", "--json").out)
    assert {one["name"] for one in listed} == set(PACKS)


def test_a_pack_is_shown_with_what_it_costs(outfox: Outfox) -> None:
    ran = outfox("templates", "show", "sentiment")
    assert ran.code == 0
    assert "150 to 186 cents, fees included" in ran.out
    assert json.loads(outfox("templates", "show", "qa", "--json").out)["kind"] == "qa"


def test_every_built_in_pack_passes_its_check(outfox: Outfox) -> None:
    ran = outfox("templates", "check")
    assert ran.code == 0, ran.err
    assert ran.out.count(": fine, ") == len(PACKS)


def test_a_new_pack_is_a_working_copy_under_its_own_name(outfox: Outfox, tmp_path: Path) -> None:
    made = outfox("templates", "new", "--from", "sentiment", tmp_path / "moods")
    assert made.code == 0, made.err
    assert outfox("templates", "check", tmp_path / "moods").code == 0
    assert json.loads(outfox("templates", "show", tmp_path / "moods", "--json").out)["name"] == "moods"
    again = outfox("templates", "new", "--from", "sentiment", tmp_path / "moods")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "already there" in again.err


@pytest.mark.parametrize("name", ["Moods", "1st", "a-b", "x" * 41])
def test_a_name_that_cannot_be_a_tasks_name_makes_nothing(outfox: Outfox, tmp_path: Path, name: str) -> None:
    ran = outfox("templates", "new", "--from", "sentiment", tmp_path / "new" / name)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert not (tmp_path / "new").exists()


def test_a_task_with_other_labels_fields_and_language_needs_no_code(outfox: Outfox, tmp_path: Path) -> None:
    folder = tmp_path / "stimmung"
    assert outfox("templates", "new", "--from", "sentiment", folder).code == 0
    for file in ("task.yaml", "create.xml", "validate.xml", "seed.jsonl", "contexts.jsonl"):
        text = (folder / file).read_text(encoding="utf-8")
        for old, new in (("positive", "gut"), ("negative", "schlecht"), ("neutral", "sachlich"), ("[en]", "[de]")):
            text = text.replace(old, new)
        text = text.replace("name: text,", "name: satz,").replace("model_input: [text]", "model_input: [satz]")
        text = text.replace('"text":', '"satz":').replace('ame="text"', 'ame="satz"')
        text = text.replace('value="$text"', 'value="$satz"')
        (folder / file).write_text(text, encoding="utf-8")
    seed = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "seed.jsonl").write_text("\n".join(seed[:120]), encoding="utf-8")
    ran = outfox("templates", "check", folder)
    assert ran.code == 0, ran.err
    trained = outfox("model", "train", folder, "--mode", "head", "--json")
    assert trained.code == 0, trained.err
    said = json.loads(outfox("model", "predict", folder, "satz=Das war wunderbar.", "--json").out)
    assert set(said[0]["probabilities"]) == {"gut", "schlecht", "sachlich"}


def _a_label_that_the_template_lacks(folder: Path) -> None:
    replace_in(folder / "task.yaml", "labels:\n", "labels:\n  - {name: mixed, title: Mixed}\n")
    seed = (folder / "seed.jsonl").read_text(encoding="utf-8")
    rows = [f'{{"text": "Row {split}.", "label": "mixed", "split": "{split}"}}' for split in ("train", "held_out")]
    (folder / "seed.jsonl").write_text(seed + "\n".join(rows) + "\n", encoding="utf-8")


def _a_duplicate_name(folder: Path) -> None:
    replace_in(folder / "create.xml", 'name="why_wrong"', 'name="why_right"')


def _a_wrong_to_name(folder: Path) -> None:
    replace_in(folder / "create.xml", 'name="text" toName="prompt"', 'name="text" toName="promt"')


def _an_unknown_tag(folder: Path) -> None:
    replace_in(folder / "create.xml", "</View>", "<Buttn/></View>")


def _an_unknown_attribute(folder: Path) -> None:
    replace_in(folder / "create.xml", 'name="text"', 'name="text" placholder="x"')


def _malformed_xml(folder: Path) -> None:
    replace_in(folder / "validate.xml", "</View>", "</Viw>")


def _an_unreadable_seed_line(folder: Path) -> None:
    with (folder / "seed.jsonl").open("a", encoding="utf-8") as file:
        file.write("{oops\n")


def _an_empty_seed(folder: Path) -> None:
    (folder / "seed.jsonl").write_text("")


def _a_label_that_no_row_has(folder: Path) -> None:
    rows = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [row for row in rows if '"label": "neutral"' not in row]
    (folder / "seed.jsonl").write_text("\n".join(kept), encoding="utf-8")


def _a_budget_too_small(folder: Path) -> None:
    replace_in(folder / "task.yaml", "round_cents: 60000", "round_cents: 600")


def _an_unknown_policy(folder: Path) -> None:
    replace_in(folder / "task.yaml", "policy: adaptive", "policy: adaptve")


def _an_unknown_rule(folder: Path) -> None:
    replace_in(folder / "task.yaml", "rule: label_differs", "rule: label_difers")


@pytest.mark.parametrize(
    ("make_wrong", "where", "what"),
    [
        (_a_label_that_the_template_lacks, "validate.xml:", "mixed"),
        (_a_duplicate_name, "create.xml:", "why_right"),
        (_a_wrong_to_name, "create.xml:", "promt"),
        (_an_unknown_tag, "create.xml:", "Buttn"),
        (_an_unknown_attribute, "create.xml:", "placholder"),
        (_malformed_xml, "validate.xml:", ""),
        (_an_unreadable_seed_line, "seed.jsonl:1201:", "is not JSON"),
        (_an_empty_seed, "seed.jsonl:", "is empty"),
        (_a_label_that_no_row_has, "seed.jsonl:", "neutral"),
        (_a_budget_too_small, "task.yaml:", "budget.round_cents"),
        (_an_unknown_policy, "task.yaml:", "adaptive, anli, dynasent"),
        (_an_unknown_rule, "task.yaml:", "label_differs"),
    ],
)
def test_a_wrong_pack_is_told_in_one_line_with_its_place(
    outfox: Outfox, copy_of: CopyOf, make_wrong: MakeWrong, where: str, what: str
) -> None:
    folder = copy_of("sentiment")
    make_wrong(folder)
    ran = outfox("templates", "check", folder)
    assert ran.code == 2
    assert ran.out == ""
    lines = [line for line in ran.err.splitlines() if where in line and what in line]
    assert lines, ran.err
    assert all(line.startswith("outfox: ") for line in ran.err.splitlines()), "an error is one line, not a traceback"
    assert json.loads(outfox("templates", "check", folder, "--json").err)["problems"]


def test_nothing_is_trained_from_a_pack_whose_data_is_wrong(outfox: Outfox, copy_of: CopyOf, tmp_path: Path) -> None:
    folder = copy_of("sentiment")
    _an_unreadable_seed_line(folder)
    ran = outfox("model", "train", folder, "--mode", "head")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert not list((tmp_path / "home" / "models").glob("**/*.safetensors"))


@pytest.mark.parametrize("template", ["create", "validate"])
@pytest.mark.parametrize("name", PACKS)
def test_a_template_is_rendered_as_text_with_a_sample_in_it(outfox: Outfox, name: str, template: str) -> None:
    ran = outfox("templates", "render", name, "--template", template)
    assert ran.code == 0, ran.err
    assert "$" not in ran.out.replace("$0", "")
    assert len(ran.out) > 100


def test_a_pack_that_is_not_there_is_one_line(outfox: Outfox) -> None:
    ran = outfox("templates", "check", "nothing_like_it")
    assert (ran.code, ran.err) == (
        2,
        "outfox: there is no task pack `nothing_like_it`; `outfox templates list` shows the packs\n",
    )
