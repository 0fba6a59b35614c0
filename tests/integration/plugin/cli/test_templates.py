"""`outfox templates`: every mistake in a pack is reported with its file and line, in its author's terms."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.conftest import PACKS, Outfox, replace_in, write_lists

CopyOf = Callable[[str], Path]
MakeWrong = Callable[[Path], None]


def test_the_packs_are_listed_as_text_and_as_json(outfox: Outfox) -> None:
    for name in PACKS:
        assert name in outfox("templates", "list").out
    listed = json.loads(outfox("templates", "list", "--json").out)
    assert {one["name"] for one in listed} == set(PACKS)


def test_a_pack_is_shown_with_its_costs(outfox: Outfox) -> None:
    ran = outfox("templates", "show", "sentiment")
    assert ran.code == 0
    assert "$1.50 to $1.86" in ran.out
    assert json.loads(outfox("templates", "show", "qa", "--json").out)["kind"] == "qa"


def test_many_mistakes_are_counted_and_other_files_are_still_checked(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    rows = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    broken = [row.replace('"label": ', '"lable": ') for row in rows[:30]]
    (folder / "seed.jsonl").write_text("\n".join([*broken, *rows[30:]]), encoding="utf-8")
    replace_in(folder / "contexts.jsonl", '"prompt": ', '"promt": ')
    replace_in(folder / "validate.xml", "<Header", "<Haeder")
    reported = outfox("templates", "check", folder).err.splitlines()
    # The same mistake on many lines is one.
    (seed,) = [line for line in reported if "seed.jsonl:" in line]
    assert seed.endswith("(also on lines 2, 3, 4 and 26 more)")
    assert sum("contexts.jsonl:1: " in line for line in reported) == 1
    assert sum("validate.xml:" in line for line in reported) == 1


def test_each_problem_has_a_code_for_programs(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "contexts.jsonl", '"prompt": ', '"promt": ')
    replace_in(folder / "validate.xml", "<Header", "<Haeder")
    report = json.loads(outfox("templates", "check", folder, "--json").err)
    codes = {(one["file"], one["code"]) for one in report["details"]}
    assert codes == {("contexts.jsonl", "text_missing"), ("validate.xml", "tag_unknown")}
    assert report["problems"][0].endswith(report["details"][0]["text"])


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("pay:", "salary:", "setting_unknown"),
        ("kind: classification", "kind: qa", "setting_conflict"),
        ("kind: classification", "kind: essay", "setting_invalid"),
        ("kind: classification\n", "", "setting_missing"),
        ("kind: classification", "kind: [", "yaml_invalid"),
        ("name: sentiment", "name: feelings", "name_differs"),
    ],
)
def test_a_mistake_in_task_yaml_has_a_code(outfox: Outfox, copy_of: CopyOf, old: str, new: str, code: str) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", old, new)
    report = json.loads(outfox("templates", "check", folder, "--json").err)
    assert code in {one["code"] for one in report["details"]}


def test_a_choice_with_another_title_than_its_label_is_reported(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    write_lists(folder)
    replace_in(folder / "validate.xml", 'value="Negative"', 'value="Bad"')
    ran = outfox("templates", "check", folder)
    assert ran.code == 2
    assert "validate.xml:" in ran.err
    assert 'value="Negative"' in ran.err


def test_the_example_in_the_packs_readme_passes_the_check(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    blocks = re.findall(r"(?:^    .*\n)+", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    (field,) = [dedent(block) for block in blocks if "role: extra" in block]
    (control,) = [dedent(block) for block in blocks if "<Choices" in block]
    replace_in(folder / "task.yaml", "fields:\n", "fields:\n" + indent(field, "  "))
    replace_in(folder / "create.xml", "</View>", f"{control}</View>")
    ran = outfox("templates", "check", folder)
    assert ran.code == 0, ran.err


def test_the_maximum_cost_follows_from_the_policys_maximum_of_votes(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "policy: adaptive", "policy: anli")
    replace_in(folder / "task.yaml", "max_votes: 5", "max_votes: 15")
    # The maximum includes the third vote and not a fifteenth, so the budget covers the target.
    replace_in(folder / "task.yaml", "round_cents: 60000", "round_cents: 32400")
    shown = outfox("templates", "show", folder).out
    assert "anli: 2 to 3 votes" in shown
    assert "$1.50 to $1.62" in shown
    assert "200 validated fooling examples" in shown
    ran = outfox("templates", "check", folder)
    assert ran.code == 0, ran.err
    replace_in(folder / "task.yaml", "policy: anli", "policy: dynasent")
    replace_in(folder / "task.yaml", "first_votes: 2", "first_votes: 5")
    assert "dynasent: 5 votes" in outfox("templates", "show", folder).out


def test_every_built_in_pack_passes_its_check(outfox: Outfox) -> None:
    ran = outfox("templates", "check")
    assert ran.code == 0, ran.err
    assert ran.out.count(": fine, ") == len(PACKS)


def test_several_packs_are_checked_and_problems_name_their_pack(outfox: Outfox, tmp_path: Path) -> None:
    for name in ("moods", "fine", "tones"):
        outfox("templates", "new", "--from", "sentiment", tmp_path / name)
    replace_in(tmp_path / "moods" / "task.yaml", "kind: classification", "kind: poetry")
    replace_in(tmp_path / "tones" / "task.yaml", "kind: classification", "kind: !!nobody x")
    ran = outfox("templates", "check", *(tmp_path / name for name in ("moods", "fine", "tones")))
    assert ran.code == 2
    assert [f"{name}/task.yaml:" in ran.err for name in ("moods", "fine", "tones")] == [True, False, True]


def test_a_new_pack_is_a_working_copy_under_its_own_name(outfox: Outfox, tmp_path: Path) -> None:
    made = outfox("templates", "new", "--from", "sentiment", tmp_path / "moods")
    assert made.code == 0, made.err
    assert outfox("templates", "check", tmp_path / "moods").code == 0
    assert json.loads(outfox("templates", "show", tmp_path / "moods", "--json").out)["name"] == "moods"
    again = outfox("templates", "new", "--from", "sentiment", tmp_path / "moods", "--json")
    assert (again.code, json.loads(again.err)["code"]) == (2, "pack_exists")


@pytest.mark.parametrize("name", ["Moods", "1st", "a-b", "x" * 41])
def test_an_invalid_task_name_is_refused(outfox: Outfox, tmp_path: Path, name: str) -> None:
    ran = outfox("templates", "new", "--from", "sentiment", tmp_path / "new" / name, "--json")
    assert (ran.code, json.loads(ran.err)["code"]) == (2, "invalid_pack_name")
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
    (folder / "seed.jsonl").write_text("\n".join(seed[:60]), encoding="utf-8")
    ran = outfox("templates", "check", folder)
    assert ran.code == 0, ran.err
    trained = outfox("model", "train", folder, "--mode", "head", "--json")
    assert trained.code == 0, trained.err
    predicted = json.loads(outfox("model", "predict", folder, "satz=Das war wunderbar.", "--json").out)
    assert set(predicted[0]["probabilities"]) == {"gut", "schlecht", "sachlich"}


def _a_label_without_a_choice(folder: Path) -> None:
    write_lists(folder)
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


def _added(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{line}\n")


def _a_seed_row_with_two_labels(folder: Path) -> None:
    _added(folder / "seed.jsonl", '{"text": "Fine.", "label": "positive", "label": "negative"}')


def _a_context_with_two_prompts(folder: Path) -> None:
    (folder / "contexts.jsonl").write_text('{"prompt": "Write."}\n{"prompt": "A", "prompt": "B"}\n', encoding="utf-8")


def _a_seed_row_with_nan(folder: Path) -> None:
    _added(folder / "seed.jsonl", '{"text": "Fine.", "label": "positive", "score": NaN}')


def _an_empty_seed(folder: Path) -> None:
    (folder / "seed.jsonl").write_text("")


def _a_label_without_rows(folder: Path) -> None:
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
        (_a_label_without_a_choice, "validate.xml:", "mixed"),
        (_a_duplicate_name, "create.xml:", "why_right"),
        (_a_wrong_to_name, "create.xml:", "promt"),
        (_an_unknown_tag, "create.xml:", "Buttn"),
        (_an_unknown_attribute, "create.xml:", "placholder"),
        (_malformed_xml, "validate.xml:", ""),
        (_an_unreadable_seed_line, "seed.jsonl:1201:", "is not JSON"),
        (_a_seed_row_with_two_labels, "seed.jsonl:1201:", "`label` twice"),
        (_a_context_with_two_prompts, "contexts.jsonl:2:", "`prompt` twice"),
        (_a_seed_row_with_nan, "seed.jsonl:1201:", "NaN"),
        (_an_empty_seed, "seed.jsonl:", "is empty"),
        (_a_label_without_rows, "seed.jsonl:", "neutral"),
        (_a_budget_too_small, "task.yaml:", "budget.round_cents"),
        (_an_unknown_policy, "task.yaml:", "adaptive, anli, dynasent"),
        (_an_unknown_rule, "task.yaml:", "label_differs"),
    ],
)
def test_a_problem_is_one_line_with_its_place(
    outfox: Outfox, copy_of: CopyOf, make_wrong: MakeWrong, where: str, what: str
) -> None:
    folder = copy_of("sentiment")
    make_wrong(folder)
    ran = outfox("templates", "check", folder)
    assert ran.code == 2
    assert ran.out == ""
    lines = [line for line in ran.err.splitlines() if where in line and what in line]
    assert lines, ran.err
    assert all(line.startswith("outfox: ") for line in ran.err.splitlines())
    error = json.loads(outfox("templates", "check", folder, "--json").err)
    assert (error["code"], error["problems"] != []) == ("pack_invalid", True)


def test_a_pack_with_invalid_data_is_not_trained(outfox: Outfox, copy_of: CopyOf, tmp_path: Path) -> None:
    folder = copy_of("sentiment")
    _an_unreadable_seed_line(folder)
    ran = outfox("model", "train", folder, "--mode", "head")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert not list((tmp_path / "home" / "models").glob("**/*.safetensors"))


@pytest.mark.parametrize("template", ["create", "validate"])
@pytest.mark.parametrize("name", PACKS)
def test_a_template_is_rendered_as_text_with_a_sample(outfox: Outfox, name: str, template: str) -> None:
    ran = outfox("templates", "render", name, "--template", template)
    assert ran.code == 0, ran.err
    assert "$" not in ran.out.replace("$0", "")
    assert len(ran.out) > 100


def test_an_unknown_pack_is_an_error_with_a_hint(outfox: Outfox) -> None:
    ran = outfox("templates", "check", "unknown", "--json")
    error = json.loads(ran.err)
    assert (ran.code, error["code"], error["hint"]["command"]) == (2, "pack_not_found", "outfox templates list")
