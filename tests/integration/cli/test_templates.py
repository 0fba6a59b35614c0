import json
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

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
    assert "$1.50 to $1.86, fees included" in ran.out
    assert json.loads(outfox("templates", "show", "qa", "--json").out)["kind"] == "qa"


def test_labels_that_look_the_same_and_instructions_that_nobody_can_read_are_told(
    outfox: Outfox, copy_of: CopyOf
) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "title: Negative", "title: positive")
    lines = (folder / "task.yaml").read_text(encoding="utf-8").splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if "title: positive" in text]
    (folder / "instructions.md").write_text(" \n", encoding="utf-8")
    ran = outfox("templates", "check", folder)
    assert ran.code == 2
    assert f"task.yaml:{line}: labels.1.title: `positive` looks like the title of the label positive" in ran.err
    assert "instructions.md: is empty; tell workers what to do" in ran.err
    (folder / "instructions.md").write_bytes(b"\xff\xfe")
    assert "instructions.md: is not UTF-8; save the file as UTF-8" in outfox("templates", "check", folder).err


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
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
        ("validate.xml", '"Hurtful or private content"/>', '"hurtful or  private content"/>', "choice `hurtful or  "),
        (
            "validate.xml",
            'html="&lt;b>Neutral&lt;/b> The sentence reports, asks or describes; it takes no side."',
            'html="&lt;b>positive&lt;/b> most readers would say that the writer is  pleased."',
            "what people read of choice `neutral` of `label` looks like that of `positive`; word them differently",
        ),
        ("task.yaml", "base: embedded", "base: ./nowhere", "model.base: is the path `./nowhere`, where"),
        ("task.yaml", "base: embedded", "base: /no/where", "model.base: is the path `/no/where`, where"),
        ("task.yaml", "policy: adaptive\n  first_votes: 2", "policy: anli\n  first_votes: 1", "validation.first_votes"),
    ],
)
def test_what_would_only_be_noticed_by_people_or_in_training_is_told_at_its_line(
    outfox: Outfox, copy_of: CopyOf, file: str, old: str, new: str, said: str
) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / file, old, new)
    texts = (folder / file).read_text(encoding="utf-8").splitlines()
    told = [line for line in outfox("templates", "check", folder).err.splitlines() if said in line]
    assert told, "nothing was said of it"
    line = int(told[0].split(f"{file}:")[1].split(":")[0])
    assert new.splitlines()[-1] in "\n".join(texts[line - 1 : line + 1])


def test_of_many_mistakes_it_is_told_how_many_more_there_are_and_other_files_are_checked_too(
    outfox: Outfox, copy_of: CopyOf
) -> None:
    folder = copy_of("sentiment")
    rows = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    broken = [row.replace('"label": ', '"lable": ') for row in rows[:30]]
    (folder / "seed.jsonl").write_text("\n".join([*broken, *rows[30:]]), encoding="utf-8")
    replace_in(folder / "contexts.jsonl", '"prompt": ', '"promt": ')
    replace_in(folder / "validate.xml", "<Header", "<Haeder")
    told = outfox("templates", "check", folder).err.splitlines()
    assert sum("seed.jsonl:" in line for line in told) == 21
    assert "outfox: seed.jsonl: has 10 more mistakes; mend these first" in told
    assert sum("contexts.jsonl:1: " in line for line in told) == 1
    assert sum("validate.xml:" in line for line in told) == 1


def test_a_text_that_is_trained_on_and_held_out_is_told(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    row = {"split": "train", "text": "The very same.", "label": "neutral"}
    same = {**row, "id": "mine", "split": "held_out", "text": "the very  same."}
    with (folder / "seed.jsonl").open("a", encoding="utf-8") as file:
        file.write("".join(f"{json.dumps(one)}\n" for one in (row, same)))
    ran = outfox("templates", "check", folder)
    assert ran.code == 2
    assert "seed.jsonl: row mine is held out, and row seed-1201 to train on has the same text; remove one" in ran.err


def test_a_choice_that_is_called_otherwise_than_its_label_is_told(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "validate.xml", 'value="Negative"', 'value="Bad"')
    ran = outfox("templates", "check", folder)
    assert ran.code == 2
    assert 'choice `negative` of `label` has the value `Bad`; write the title of task.yaml, value="Negative"' in ran.err


def test_a_field_as_the_readme_of_the_pack_tells_it_passes(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    blocks = re.findall(r"(?:^    .*\n)+", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    (field,) = [dedent(block) for block in blocks if "role: extra" in block]
    (control,) = [dedent(block) for block in blocks if "<Choices" in block]
    replace_in(folder / "task.yaml", "fields:\n", "fields:\n" + indent(field, "  "))
    replace_in(folder / "create.xml", "</View>", f"{control}</View>")
    ran = outfox("templates", "check", folder)
    assert ran.code == 0, ran.err


def test_a_base_model_beside_the_pack_or_on_the_hub_is_no_mistake(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "base: embedded", "base: ./mine")
    (folder / "mine").mkdir()
    assert outfox("templates", "check", folder).code == 0
    replace_in(folder / "task.yaml", "base: ./mine", "base: someone/encoder")
    assert outfox("templates", "check", folder).code == 0


def test_what_an_example_costs_at_most_goes_by_the_votes_that_its_policy_can_ask_for(
    outfox: Outfox, copy_of: CopyOf
) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "policy: adaptive", "policy: anli")
    replace_in(folder / "task.yaml", "max_votes: 5", "max_votes: 15")
    # What the third vote costs is in it, and what a fifteenth would is not: the budget covers the target.
    replace_in(folder / "task.yaml", "round_cents: 60000", "round_cents: 32400")
    shown = outfox("templates", "show", folder).out
    assert "anli: 2 to 3 votes" in shown
    assert "$1.50 to $1.62, fees included" in shown
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


def test_every_one_of_several_packs_is_checked_and_named(outfox: Outfox, tmp_path: Path) -> None:
    for name in ("moods", "fine", "tones"):
        outfox("templates", "new", "--from", "sentiment", tmp_path / name)
    replace_in(tmp_path / "moods" / "task.yaml", "kind: classification", "kind: poetry")
    replace_in(tmp_path / "tones" / "task.yaml", "kind: classification", "kind: !!nobody x")
    ran = outfox("templates", "check", *(tmp_path / name for name in ("moods", "fine", "tones")))
    assert ran.code == 2
    told = ran.err.splitlines()
    assert [f"{name}/task.yaml:" in " ".join(told) for name in ("moods", "fine", "tones")] == [True, False, True]


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
    (folder / "seed.jsonl").write_text("\n".join(seed[:60]), encoding="utf-8")
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


def _added(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{line}\n")


def _a_seed_row_with_two_labels(folder: Path) -> None:
    _added(folder / "seed.jsonl", '{"text": "Fine.", "label": "positive", "label": "negative"}')


def _a_context_with_two_prompts(folder: Path) -> None:
    (folder / "contexts.jsonl").write_text('{"prompt": "Write."}\n{"prompt": "A", "prompt": "B"}\n', encoding="utf-8")


def _a_seed_row_without_a_number(folder: Path) -> None:
    _added(folder / "seed.jsonl", '{"text": "Fine.", "label": "positive", "score": NaN}')


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


# What only programmers say.
PROGRAMMERS = (
    "input should", "tuple", "dictionary", "instance of", "boolean", "integer", "valid string", "parse", "pattern",
    "NoneType", "None", "dict", "True", "False", "Error", "TaskSpec", "Node(", "format string", "<block", "fractional",
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("first_votes: 2", "first_votes: two", "validation.first_votes: is `two`, and should be a whole number; write"),
        ("first_votes: 2", "first_votes: 2.5", "validation.first_votes: is 2.5, and should be a whole number; write"),
        ("first_votes: 2", "first_votes: 12", "validation.first_votes: is 12, and 9 is the most; write"),
        ("first_votes: 2", "first_votes:", "validation.first_votes: is empty; write"),
        ("first_votes: 2", "first_votes: .nan", "validation.first_votes: is NaN, and should be a whole number; write"),
        ("first_votes: 2", "first_votes: 2027-01-01", "is the date 2027-01-01, and should be a whole number; write"),
        ("create_cents: 45", 'create_cents: "45"', "pay.create_cents: is `45`, and should be a whole number; write"),
        ("gold_rate: 0.1", "gold_rate: [0.1]", "validation.gold_rate: is a list, and should be a number; write"),
        ("gold_rate: 0.1", "gold_rate: 10", "validation.gold_rate: is 10, and 1 is the most; write"),
        ("learning_rate: 0.0002", "learning_rate: 0", "is 0, and has to be more than 0; write"),
        ("split_by_worker: true", "split_by_worker: maybe", "rounds.split_by_worker: is `maybe`; write true or false"),
        ("split_by_worker: true", "split_by_worker: {}", "rounds.split_by_worker: is empty; write true or false"),
        ("title: Fool the sentiment model", "title: 5", "title: is 5, and should be text (in quotes); write"),
        ("title: Fool the sentiment model", "title: yes", "title: is true, and should be text (in quotes); write"),
        ("title: Fool the sentiment model", "title: [a]", "title: is a list, and should be text; write"),
        (
            "title: Fool the sentiment model",
            "title: {a: 1}",
            "title: is a group of settings, and should be text; write",
        ),
        ("title: Fool the sentiment model", f"title: {'x' * 2_001}", "title: has 2,001 characters, and 2,000 is the"),
        ("title: Fool the sentiment model", "title: It: a task", "is not valid YAML: a colon too many"),
        ("title: Fool the sentiment model", "\ttitle: x", "is not valid YAML: there is a tab; indent with spaces"),
        ("languages: [en]", "languages: en", "languages: is `en`, and should be a list; write"),
        ("languages: [en]", "languages: [5]", "languages.0: is 5, and should be text (in quotes); write"),
        ("languages: [en]", "languages: [English]", "languages.0: is `English`, and what stands here is two or three"),
        ("model_input: [text]", "model_input: [a, b, c]", "model_input: has 3 entries, and 2 is the most; write"),
        ("name: positive\n", "name: Very Good\n", "labels.0.name: is `Very Good`, and what stands here begins with a"),
        ("target:\n  set_by: task", "target: task", "target: is `task`; write settings of its own below it: set_by"),
        ("target:\n  set_by: task", "target:", "target: is empty; write settings of its own below it: set_by"),
        ("set_by: task", "set_by: 5", "target.set_by: is 5; write `task`"),
        ("kind: classification", "{a: 1}: x", "has brackets where a setting's name should be"),
        (
            "It says {prediction}",
            "It says {prediction",
            "messages.fooled: has a brace without its other half; write {{",
        ),
    ],
)
def test_a_wrong_value_is_told_in_a_task_makers_words(
    outfox: Outfox, copy_of: CopyOf, old: str, new: str, said: str
) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", old, new)
    ran = outfox("templates", "check", folder)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert not [word for word in PROGRAMMERS if word in ran.err.replace(str(folder), "")]


def test_a_task_yaml_that_is_a_text_is_told_what_it_should_have(outfox: Outfox, copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    (folder / "task.yaml").write_text("just a text\n", encoding="utf-8")
    said = "the file: is `just a text`; write settings, one below the other: name, title, "
    assert said in outfox("templates", "check", folder).err


@pytest.mark.parametrize(
    ("file", "row", "said"),
    [
        ("seed.jsonl", '{"text": "Fine."}', "has no label; write one of positive"),
        ("seed.jsonl", '{"text": "Fine.", "label": ["positive"]}', 'label is ["positive"]; write one of positive'),
        ("seed.jsonl", '{"text": "Fine.", "label": true}', "label is true; write one of positive"),
        ("seed.jsonl", '{"text": "Fine.", "label": "neutral", "split": null}', "split is null; write train or"),
        ("contexts.jsonl", '{"prompt": "Write.", "targets": null}', "targets is null; list some of positive"),
        ("contexts.jsonl", '{"prompt": "Write.", "targets": [false]}', "targets is [false]; list some of positive"),
    ],
)
def test_a_wrong_row_is_told_as_it_stands_there(
    outfox: Outfox, copy_of: CopyOf, file: str, row: str, said: str
) -> None:
    folder = copy_of("sentiment")
    _added(folder / file, row)
    ran = outfox("templates", "check", folder)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert not [word for word in PROGRAMMERS if word in ran.err]


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
        (_a_seed_row_with_two_labels, "seed.jsonl:1201:", "has `label` twice; keep one of them"),
        (_a_context_with_two_prompts, "contexts.jsonl:2:", "has `prompt` twice; keep one of them"),
        (_a_seed_row_without_a_number, "seed.jsonl:1201:", "has NaN, which is no number in JSON"),
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
