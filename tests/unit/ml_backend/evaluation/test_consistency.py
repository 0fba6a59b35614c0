"""Robustness and fairness: figures against an independent computation, and what is left out."""

from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from statistics import mean

import pytest

from ml_backend.evaluation.answers import Answer, Answerer, answer_pass, read_answers
from ml_backend.evaluation.consistency import (
    FAIRNESS,
    ROBUSTNESS,
    ConsistencyAxis,
    consistency,
    copy_pass,
    originals,
    perturbed_copies,
    recipe,
    task_edits,
)
from ml_backend.evaluation.values import AxisResult, Value
from ml_backend.perturbations import Change, Edit, in_each_text, registry
from ml_backend.verdict import f1_score
from templates import TaskSpec, find_pack
from templates.rows import SeedRow

TEXT = "The waitress told Aisha that her modern restaurant would surely reopen on Friday morning"
WORDS = TEXT.split()


class LengthAnswerer:
    """Answers by the length of the text, so that most edits change some answers; for QA with a word of the passage."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self.asked: list[str] = []

    def answers(self, rows: Sequence[SeedRow]) -> list[Answer]:
        self.asked += [row.id for row in rows]
        return [Answer(self.answer(row), 0.5) for row in rows]

    def answer(self, row: SeedRow) -> str:
        if self._spec.kind == "qa":
            words = row.fields["passage"].split()
            return " ".join(words[len(row.fields["passage"]) % 5 :][:3])
        return self._spec.label_names[len(row.fields["text"]) % len(self._spec.label_names)]


def sentiment(language: str = "en") -> TaskSpec:
    return find_pack("sentiment").spec.model_copy(update={"languages": (language,)})


def rows_of(spec: TaskSpec, count: int) -> list[SeedRow]:
    found = []
    for number in range(count):
        text = " ".join(WORDS[number % 4 :] + WORDS[: number % 7])
        if spec.kind == "qa":
            answer = text.split()[2]
            fields = {"passage": text, "question": "Who told what to whom?"}
            found.append(SeedRow(f"r{number}", "held_out", fields, None, answer, text.index(answer), {}))
        else:
            label = spec.label_names[number % len(spec.label_names)]
            found.append(SeedRow(f"r{number}", "held_out", {"text": text}, label, None, None, {}))
    return found


def measure(axis: ConsistencyAxis, rows: Sequence[SeedRow], spec: TaskSpec, folder: Path, by: Answerer) -> AxisResult:
    own = answer_pass(folder / "own", by, spec, ())
    own.run(rows, lambda done: None)
    own.collect(folder / "own.parquet")
    copies = copy_pass(folder / "copies", by, task_edits(axis, spec), spec)
    copies.run(originals(rows, folder / "own.parquet"), lambda done: None)
    copies.collect(folder / "copies.parquet")
    return consistency(axis, folder / "copies.parquet", read_answers(folder / "own.parquet", spec), spec)


def value(result: AxisResult, metric: str, name: str = "") -> Value:
    (found,) = [one for one in result.values if (one.metric, one.slice) == (metric, name)]
    return found


@pytest.mark.parametrize("task", ["sentiment", "qa"])
def test_consistency_is_the_mean_over_originals_of_the_agreement_with_the_own_answer(task: str, tmp_path: Path) -> None:
    spec = find_pack(task).spec
    rows, model = rows_of(spec, 40), LengthAnswerer(spec)
    result = measure(ROBUSTNESS, rows, spec, tmp_path, model)

    def score(one: str, other: str) -> float:
        return f1_score(one, other) if task == "qa" else float(one == other)

    same, right, lost = [], [], []
    by_edit: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        copies = perturbed_copies(row, task_edits(ROBUSTNESS, spec), spec)
        assert copies
        own, gold = model.answer(row), str(row.answer or row.label)
        same.append(mean(score(model.answer(copy), own) for copy in copies))
        right.append(mean(score(model.answer(copy), gold) for copy in copies))
        lost.append(score(own, gold) - right[-1])
        for copy in copies:
            by_edit[copy.id.split("#")[1]].append(score(model.answer(copy), own))
    gold_metric = "f1" if task == "qa" else "accuracy"
    assert value(result, "consistency").value == pytest.approx(100 * mean(same), abs=1e-4)
    assert value(result, gold_metric).value == pytest.approx(100 * mean(right), abs=1e-4)
    assert value(result, f"{gold_metric}_loss").value == pytest.approx(100 * mean(lost), abs=1e-4)
    assert 0 < value(result, "consistency").value < 100
    for name, found in by_edit.items():
        of_edit = value(result, "consistency", f"perturbation: {name}")
        assert of_edit.n == len(found)
        assert of_edit.value == pytest.approx(100 * mean(found), abs=1e-4)
    assert result.details["copies"] == {one.name: len(by_edit[one.name]) for one in task_edits(ROBUSTNESS, spec)}
    for one in result.values:
        assert one.low is not None
        assert one.high is not None
        assert one.low <= one.value <= one.high


def test_originals_that_no_edit_changes_are_left_out(tmp_path: Path) -> None:
    spec = sentiment()
    plain = SeedRow("plain", "held_out", {"text": "The bus was late."}, "negative", None, None, {})
    gendered = SeedRow("gendered", "held_out", {"text": "My sister was late."}, "negative", None, None, {})
    result = measure(FAIRNESS, [plain, gendered], spec, tmp_path, LengthAnswerer(spec))
    assert value(result, "consistency").n == 1
    assert result.details["copies"] == {"names": 0, "gender": 1}
    nothing = measure(FAIRNESS, [plain], spec, tmp_path / "nothing", LengthAnswerer(spec))
    assert (nothing.values, bool(nothing.note)) == ([], True)


def test_a_language_without_perturbations_has_a_note_instead_of_figures(tmp_path: Path) -> None:
    spec = sentiment("fr")
    result = measure(FAIRNESS, rows_of(spec, 3), spec, tmp_path, LengthAnswerer(spec))
    assert (result.values, "fr" in result.note) == ([], True)
    both = spec.model_copy(update={"languages": ("en", "fr")})
    assert task_edits(FAIRNESS, both) == ()
    assert {one.name for one in task_edits(ROBUSTNESS, both)} == {one.name for one in task_edits(ROBUSTNESS, spec)}


def test_an_interrupted_pass_continues_and_copies_are_the_same_each_time(tmp_path: Path) -> None:
    spec = sentiment()
    rows, edits = rows_of(spec, 600), task_edits(FAIRNESS, spec)
    own = answer_pass(tmp_path / "own", LengthAnswerer(spec), spec, ())
    own.run(rows, lambda done: None)
    own.collect(tmp_path / "own.parquet")
    first, second, whole = LengthAnswerer(spec), LengthAnswerer(spec), LengthAnswerer(spec)

    def stop(done: int) -> None:
        if len(first.asked) > 600:
            raise KeyboardInterrupt

    stopped = copy_pass(tmp_path / "copies", first, edits, spec)
    with pytest.raises(KeyboardInterrupt):
        stopped.run(originals(rows, tmp_path / "own.parquet"), stop)
    # A part that a crash left incomplete is answered again.
    (tmp_path / "copies" / "part-000001.parquet").write_bytes(b"PAR1")
    copy_pass(tmp_path / "copies", second, edits, spec).run(
        originals(rows, tmp_path / "own.parquet"), lambda done: None
    )
    again = copy_pass(tmp_path / "whole", whole, edits, spec)
    again.run(originals(rows, tmp_path / "own.parquet"), lambda done: None)
    assert 0 < len(second.asked) < len(whole.asked)
    files = []
    for folder in ("copies", "whole"):
        copy_pass(tmp_path / folder, whole, edits, spec).collect(tmp_path / f"{folder}.parquet")
        files.append((tmp_path / f"{folder}.parquet").read_bytes())
    assert files[0] == files[1]


SHOUT = Edit(
    "shout", "robustness", "Ends with an exclamation mark.", "An exclamation mark is added at the end.",
    in_each_text(lambda text, _: [Change(len(text.content), len(text.content), "!")]),
    lambda before, after: (before, after) == ("", "!"),
)  # fmt: skip


def test_perturbations_of_other_packages_are_measured_and_change_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = sentiment()
    before = recipe(ROBUSTNESS, spec)
    entry = EntryPoint("shout", f"{__name__}:SHOUT", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    registry.all_edits.cache_clear()
    try:
        assert recipe(ROBUSTNESS, spec) != before
        result = measure(ROBUSTNESS, rows_of(spec, 4), spec, tmp_path, LengthAnswerer(spec))
        assert value(result, "consistency", "perturbation: shout").value == 0
    finally:
        registry.all_edits.cache_clear()
