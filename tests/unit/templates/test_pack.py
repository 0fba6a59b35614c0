import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from common.errors import Hint
from templates import PackError, PackNotFound, SeedRow, copy_pack, find_pack, load_pack
from templates.errors import InvalidPackName, PackExists
from tests.conftest import PACKS, replace_in

CopyOf = Callable[[str], Path]
# Generous for a busy machine; without the check, parsing takes a minute.
SECONDS_TO_REFUSE = 5


def load_whole(folder: Path) -> None:
    pack = load_pack(folder)
    assert pack.contexts
    assert pack.seed


def problems(folder: Path) -> list[str]:
    with pytest.raises(PackError) as caught:
        load_whole(folder)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("name", PACKS)
def test_every_built_in_pack_loads(name: str) -> None:
    pack = find_pack(name)
    assert pack.spec.name == name
    assert pack.instructions
    assert len(pack.contexts) >= 60


@pytest.mark.parametrize("name", PACKS)
def test_the_instructions_of_every_built_in_pack_name_the_threshold_of_duplicates(name: str) -> None:
    pack = find_pack(name)
    assert f"{pack.spec.duplicates.near * 100:.0f} %" in pack.instructions


@pytest.mark.parametrize("name", [name for name in PACKS if name != "qa"])
def test_classification_seeds_are_large_balanced_and_partly_held_out(name: str) -> None:
    pack = find_pack(name)
    assert len(pack.seed) >= 800
    for split in ("train", "held_out"):
        counts = [
            sum(row.label == label and row.split == split for row in pack.seed) for label in pack.spec.label_names
        ]
        assert min(counts) > 0.85 * max(counts)
    held_out = sum(row.split == "held_out" for row in pack.seed)
    assert 0.15 < held_out / len(pack.seed) < 0.25


def test_the_qa_seed_is_large_and_no_passage_is_in_both_parts() -> None:
    seed = find_pack("qa").seed
    assert len(seed) >= 250
    parts = {split: {row.fields["passage"] for row in seed if row.split == split} for split in ("train", "held_out")}
    assert len(parts["train"] | parts["held_out"]) >= 60
    assert not parts["train"] & parts["held_out"]


def test_no_nli_premise_is_in_both_parts() -> None:
    seed = find_pack("nli").seed
    parts = {split: {row.fields["premise"] for row in seed if row.split == split} for split in ("train", "held_out")}
    assert not parts["train"] & parts["held_out"]


def _shingles(row: SeedRow) -> frozenset[str]:
    text = "".join(character for character in row.fields[_own_field(row)].lower() if character.isalnum())
    return frozenset(text[start : start + 5] for start in range(len(text) - 4))


def _own_field(row: SeedRow) -> str:
    return next(name for name in ("hypothesis", "question", "text") if name in row.fields)


@pytest.mark.parametrize("name", PACKS)
def test_no_two_seed_rows_are_near_duplicates(name: str) -> None:
    rows = find_pack(name).seed
    shingles = [_shingles(row) for row in rows]
    rows_with: defaultdict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        in_common = Counter(other for one in shingles[place] for other in rows_with[one])
        for one in shingles[place]:
            rows_with[one].append(place)
        for other, shared in in_common.items():
            # Rows about one premise or passage share its words.
            if name in ("nli", "qa") and rows[other].fields[_shared(name)] == row.fields[_shared(name)]:
                continue
            whole = len(shingles[place]) + len(shingles[other]) - shared
            assert shared < 0.6 * whole, f"{row.id} is similar to {rows[other].id}"


def _shared(name: str) -> str:
    return {"nli": "premise", "qa": "passage"}[name]


def test_a_spec_cannot_be_changed() -> None:
    spec = find_pack("nli").spec
    with pytest.raises(ValidationError, match="frozen"):
        setattr(spec, "title", "other")  # noqa: B010 - the type checker already refuses the plain form


def test_a_missing_setting_is_reported_with_its_description(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "kind: classification\n", "")
    (problem,) = problems(folder)
    assert problem.startswith("task.yaml:2: kind: ")
    assert "`classification` (one or two texts) or `qa`" in problem


def test_an_invalid_value_is_reported_with_its_line(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "create_cents: 45", "create_cents: 45.5")
    (problem,) = problems(folder)
    line = next(
        number
        for number, text in enumerate((folder / "task.yaml").read_text().splitlines(), 1)
        if "create_cents" in text
    )
    assert problem.startswith(f"task.yaml:{line}: pay.create_cents: ")
    assert "whole cents" in problem


def test_an_unknown_setting_is_reported_with_the_known_ones(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "  max_votes: 5", "  max_vote: 5")
    (problem,) = problems(folder)
    assert ": validation.max_vote: " in problem
    assert "max_votes" in problem


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("{prediction}", "{prediction.__class__}", "{prediction.__class__}"),
        ("messages:\n", 'messages:\n  too_long: "No: {target}"\n', "{length}, {most}, {title}"),
        ("name: sentiment", "name: feelings", ": name: "),
        ("kind: classification", "kind: classification\nkind: qa", "`kind`"),
        ("kind: classification", "kind: [", "YAML"),
        ("languages: [en]", "languages: [english language]", ": languages.0: "),
    ],
)
def test_an_invalid_task_yaml_is_reported(copy_of: CopyOf, old: str, new: str, expected: str) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", old, new)
    assert any(expected in problem for problem in problems(folder))


def test_two_fields_with_the_same_archive_column_are_reported(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "{name: why_right,", "{name: author,")
    load_whole(folder)
    replace_in(folder / "task.yaml", "{name: why_wrong,", "{name: field_author,")
    (problem,) = problems(folder)
    line = (folder / "task.yaml").read_text().partition("field_author")[0].count("\n") + 1
    assert problem.startswith(f"task.yaml:{line}: fields.3.name: ")
    assert "`field_author`" in problem


def test_a_field_may_begin_with_field_if_no_archive_column_conflicts(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "{name: why_right,", "{name: field_text,")
    load_whole(folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "setting"),
    [
        ("sentiment", "name: negative\n", "name: positive\n", "labels.1.name"),
        ("sentiment", "{name: text,", "{name: prompt,", "fields.1.name"),
        ("sentiment", "{name: why_right,", "{name: feedback,", "fields.2.name"),
        ("sentiment", "model_input: [text]", "model_input: [txt]", "model_input.0"),
        ("sentiment", "model_input: [text]", "model_input: [prompt]", "model_input"),
        ("sentiment", "{name: why_right, role: reason", "{name: why_right, role: span", "fields.2.role"),
        ("sentiment", "rule: label_differs", "rule: squad_f1", "fooled.rule"),
        ("sentiment", "max_votes: 5", "max_votes: 1", "validation.max_votes"),
        ("sentiment", "tries_before_skip: 3", "tries_before_skip: 30", "work.tries_before_skip"),
        ("sentiment", "task_cents: 240000", "task_cents: 1", "budget.task_cents"),
        ("sentiment", "answer: 1\n", "answer: 7\n", "quiz.questions.0.answer"),
        ("sentiment", "It says {prediction}", "It says {predction}", "messages.fooled"),
        ("qa", "rule: squad_f1", "rule: label_differs", "fooled.rule"),
        ("qa", "set_by: annotator", "set_by: task", "target.set_by"),
        ("qa", "model_input: [question, passage]", "model_input: [passage, question]", "model_input"),
        ("qa", "{name: why_wrong, role: reason", "{name: why_wrong, role: span", "fields.3.role"),
    ],
)
def test_a_conflict_of_settings_is_reported_at_the_line_of_the_first(
    copy_of: CopyOf, name: str, old: str, new: str, setting: str
) -> None:
    folder = copy_of(name)
    replace_in(folder / "task.yaml", old, new)
    (problem,) = problems(folder)
    _, line, text = problem.split(":", 2)
    assert text.startswith(f" {setting}: ")
    written = (folder / "task.yaml").read_text(encoding="utf-8").splitlines()[int(line) - 1]
    assert new.splitlines()[0] in written


def test_a_conflict_with_a_default_is_reported_at_the_written_setting(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "  max_votes: 5\n", "")
    replace_in(folder / "task.yaml", "first_votes: 2", "first_votes: 9")
    lines = (folder / "task.yaml").read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "first_votes: 9" in text)
    (problem,) = problems(folder)
    assert problem.startswith(f"task.yaml:{line}: validation.max_votes: ")


@pytest.mark.parametrize(
    ("old", "new", "setting"),
    [
        ("title: Fool the sentiment model", r'title: "Fool\0 the model"', "title"),
        ("title: Fool the sentiment model", r'title: "Fool\e[2J the model"', "title"),
        ("title: Positive\n", 'title: "Posi\\x7ftive"\n', "labels.0.title"),
        ("work:\n", 'work:\n  content_warning: "Beware\\b!"\n', "work.content_warning"),
        ("messages:\n", 'messages:\n  too_long: "Too\\x9b long"\n', "messages.too_long"),
        ("title: Fool the sentiment model", r'title: "Fool\ud800 the model"', "title"),
    ],
)
def test_a_control_character_is_reported_with_its_line(copy_of: CopyOf, old: str, new: str, setting: str) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", old, new)
    (problem,) = problems(folder)
    assert re.fullmatch(rf"task.yaml:\d+: {setting}: .*", problem)
    assert problem.isprintable()


def test_texts_may_have_line_breaks_and_letters_of_any_script(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    replace_in(folder / "task.yaml", "title: Fool the sentiment model", r'title: "क्\u200dष\n\tनमस्ते\u200f"')
    assert load_pack(folder).spec.title == "क्\u200dष\n\tनमस्ते\u200f"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('{"id": "", "prompt": "One."}', "the id has 0 characters"),
        ('{"id": " ", "prompt": "One."}', 'id " " begins or ends with a space'),
        ('{"id": "a ", "prompt": "One."}', 'id "a " begins or ends with a space'),
        ('{"id": ["a"], "prompt": "One."}', 'the id is ["a"]'),
        ('{"id": true, "prompt": "One."}', "the id is true"),
        ('{"id": "%s", "prompt": "One."}' % ("x" * 181), "the id has 181 characters"),
        ('{"id": "c@0123456789ab", "prompt": "One."}', "suffix"),
        ('{"id": "a\\u0007", "prompt": "One."}', r"\u0007"),
        ('{"id": "a", "prompt": "One\\u0000."}', "NUL"),
        ('{"id": "a", "prompt": "One\\ud800."}', "surrogate"),
        ('{"id": "a", "prompt": "One.", "@x": 1}', "`@x`"),
    ],
)
def test_an_invalid_context_is_reported_with_its_line(copy_of: CopyOf, row: str, problem: str) -> None:
    folder = copy_of("sentiment")
    (folder / "contexts.jsonl").write_text(f'{{"id": "first", "prompt": "Zero."}}\n{row}\n', encoding="utf-8")
    (found,) = problems(folder)
    assert found.startswith("contexts.jsonl:2: ")
    assert problem in found


def test_a_seed_row_that_databases_cannot_store_is_reported_with_its_line(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    rows = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    row = r'{"text": "Fi\u0000ne.", "label": "positive"}'
    (folder / "seed.jsonl").write_text("\n".join([*rows, row]), encoding="utf-8")
    (problem,) = problems(folder)
    assert problem.startswith(f"seed.jsonl:{len(rows) + 1}: ")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{not json", "seed.jsonl:3: is not JSON"),
        ("[1, 2]", "seed.jsonl:3: is not a JSON object"),
        ('{"text": "Fine.", "label": "fine"}', '"fine"; write one of positive, negative, neutral'),
        ('{"text": " ", "label": "neutral"}', "seed.jsonl:3: has no text in `text`"),
        ('{"text": "\u200b\u2060", "label": "neutral"}', "seed.jsonl:3: has no text in `text`"),
        ('{"text": "Fine.", "label": "neutral", "split": "test"}', "train or held_out"),
        ('{"text": "\udcff"}'.encode("utf-8", "surrogateescape").decode("latin-1"), "seed.jsonl:3:"),
    ],
)
def test_an_invalid_seed_line_is_reported_with_its_number(copy_of: CopyOf, line: str, expected: str) -> None:
    folder = copy_of("sentiment")
    lines = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "seed.jsonl").write_text("\n".join([*lines[:2], line, *lines[2:]]), encoding="utf-8")
    assert any(expected in problem for problem in problems(folder))


def test_an_empty_seed_is_reported(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    (folder / "seed.jsonl").write_text("\n\n")
    (problem,) = problems(folder)
    assert problem.startswith("seed.jsonl: ")


def test_a_context_of_invisible_characters_is_reported(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    (folder / "contexts.jsonl").write_text('{"prompt": "\\u200b \\u2060"}\n', encoding="utf-8")
    (problem,) = problems(folder)
    assert problem.startswith("contexts.jsonl:1: has no text in `prompt`")


def test_a_label_without_rows_is_reported(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    rows = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "seed.jsonl").write_text("\n".join(row for row in rows if '"neutral"' not in row), encoding="utf-8")
    (problem,) = problems(folder)
    assert "`neutral`" in problem


def test_a_repeated_row_id_is_reported(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    rows = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "seed.jsonl").write_text("\n".join([*rows, rows[0]]), encoding="utf-8")
    (problem,) = problems(folder)
    assert "is also on line 1" in problem


def test_an_answer_that_is_not_in_the_passage_is_reported(copy_of: CopyOf) -> None:
    folder = copy_of("qa")
    first = (folder / "seed.jsonl").read_text(encoding="utf-8").splitlines()[0]
    replace_in(folder / "seed.jsonl", first, first.replace('"answer": "', '"answer": "never said: '))
    (problem,) = problems(folder)
    assert problem.startswith("seed.jsonl:1: ")


def test_a_missing_file_is_reported(copy_of: CopyOf) -> None:
    folder = copy_of("nli")
    (folder / "instructions.md").unlink()
    (problem,) = problems(folder)
    assert problem.startswith("instructions.md: ")


def test_a_byte_order_mark_is_ignored(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    for name in ("task.yaml", "seed.jsonl", "contexts.jsonl"):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    pack = load_pack(folder)
    assert pack.seed
    assert pack.contexts


@pytest.mark.parametrize("name", ["unknown", "./unknown"])
def test_a_pack_that_does_not_exist_is_an_error_with_a_hint(name: str) -> None:
    with pytest.raises(PackNotFound) as error:
        find_pack(name)
    assert (error.value.code, error.value.hint) == ("pack_not_found", Hint("list_packs"))


def test_a_copy_has_the_name_of_its_folder_and_replaces_nothing(tmp_path: Path) -> None:
    source = find_pack("sentiment")
    copied = copy_pack(source, tmp_path / "moods").spec
    unpaid = source.spec.budget.model_copy(update={"round_cents": 0, "task_cents": 0})
    assert (source.spec.author, source.spec.licence) == ("Outfox", "Apache-2.0")
    assert copied == source.spec.model_copy(update={"name": "moods", "author": "", "budget": unpaid})
    with pytest.raises(PackExists):
        copy_pack(source, tmp_path / "moods")
    with pytest.raises(InvalidPackName):
        copy_pack(source, tmp_path / "new" / "Moods")
    assert [path.name for path in tmp_path.iterdir()] == ["moods"]


def test_the_owners_pack_precedes_a_built_in_one(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    assert find_pack("sentiment", folder.parent).folder == folder.resolve()


def test_yaml_aliases_are_refused(copy_of: CopyOf) -> None:
    folder = copy_of("sentiment")
    bomb = "a: &a [x]\n" + "".join(f"b{n}: &b{n} [{', '.join(['*a'] * 9)}]\n" for n in range(11))
    (folder / "task.yaml").write_text(bomb + (folder / "task.yaml").read_text())
    (problem,) = problems(folder)
    assert problem.startswith("task.yaml:2: ")


@pytest.mark.parametrize("text", ["a: " + "[" * 20_000, "a: " + "x" * 300_000], ids=["nested", "long"])
def test_a_deeply_nested_or_very_long_file_is_refused_quickly(copy_of: CopyOf, text: str) -> None:
    folder = copy_of("sentiment")
    (folder / "task.yaml").write_text(text)
    began = time.process_time()
    assert len(problems(folder)) == 1
    assert time.process_time() - began < SECONDS_TO_REFUSE


def test_a_symbolic_link_is_refused(copy_of: CopyOf, tmp_path: Path) -> None:
    folder = copy_of("sentiment")
    (tmp_path / "secret").write_text("not for annotators")
    (folder / "instructions.md").unlink()
    (folder / "instructions.md").symlink_to(tmp_path / "secret")
    (problem,) = problems(folder)
    assert problem.startswith("instructions.md: ")
