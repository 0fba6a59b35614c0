from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel

from ml_backend.errors import ModelMismatch, TrainingCancelled, TrainingDataInvalid, TrainingDiverged
from ml_backend.evaluation import Metrics
from ml_backend.targets.loading import load_target
from ml_backend.targets.target import LabelPrediction, SpanPrediction
from ml_backend.targets.torch_runtime import open_network, open_tokenizer, text_encoder
from ml_backend.text import align, normalise
from ml_backend.training import TrainingResult, fine_tuning, run, train
from ml_backend.training.data import TrainingData
from ml_backend.training.examples import LabelExamples, spans_of
from ml_backend.training.fine_tuning import rate_at, shuffled_batches
from ml_backend.training.start import ProgressMonitor
from templates import Pack, SeedRow
from tests.unit.ml_backend.conftest import (
    MakePack,
    ProgressLog,
    label_row,
    nli_rows,
    qa_rows,
    quick,
    sentiment_rows,
    visible,
)

ROWS: dict[str, list[SeedRow]] = {"sentiment": sentiment_rows(12), "nli": nli_rows(12), "qa": qa_rows(12)}


def weights(trained: TrainingResult) -> dict[str, torch.Tensor]:
    return load_file(trained.directory / "model.safetensors")


@pytest.mark.parametrize("mode", ["full", "head"])
@pytest.mark.parametrize("task", ["sentiment", "nli", "qa"])
def test_every_kind_of_task_is_trained_in_both_modes_and_two_runs_give_identical_weights_and_one_version(
    make_pack: MakePack, tmp_path: Path, task: str, mode: str
) -> None:
    pack = make_pack(task)
    seen = ProgressLog()
    trained = train(pack, tmp_path, mode=mode, rows=ROWS[task], settings=quick(), progress=seen)
    manifest = trained.manifest
    assert (manifest.task, manifest.mode, manifest.base, manifest.parent) == (task, mode, "tiny", None)
    assert manifest.train.rows == len([row for row in ROWS[task] if row.split == "train"])
    assert trained.metrics == manifest.metrics
    assert seen.finished == len(seen.stages) > 0
    assert seen.steps == sum(seen.totals), "the time left needs every step"
    row = ROWS[task][0]
    (answer,) = load_target(trained.directory).predict([row.fields])
    assert isinstance(answer, SpanPrediction if task == "qa" else LabelPrediction)
    assert visible(tmp_path) == [manifest.version]

    again = train(pack, tmp_path / "again", mode=mode, rows=ROWS[task][::-1], settings=quick())
    assert again.manifest.version == manifest.version, "the order of rows in a file means nothing"
    first, second = weights(trained), weights(again)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_another_seed_gives_other_weights(make_pack: MakePack, tmp_path: Path) -> None:
    pack = make_pack("sentiment")
    one, two = (train(pack, tmp_path, rows=ROWS["sentiment"], settings=quick(seed=seed)) for seed in (1, 2))
    assert one.manifest.version != two.manifest.version


def test_training_restores_the_settings_of_torch(make_pack: MakePack, tmp_path: Path) -> None:
    torch.manual_seed(42)
    before = torch.get_rng_state(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    train(make_pack("sentiment"), tmp_path, rows=ROWS["sentiment"], settings=quick(epochs=1))
    after = torch.get_rng_state(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


class ThreadCounts(ProgressLog):
    """Records how many threads PyTorch has whenever the training reports."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def start(self, total_steps: int, what: str) -> None:
        self.seen.add(torch.get_num_threads())

    def advance(self, steps: int = 1, note: str = "") -> None:
        self.seen.add(torch.get_num_threads())


@pytest.mark.parametrize("mode", ["full", "head"])
def test_the_recipe_and_not_the_machine_decides_how_many_threads_a_training_has(
    make_pack: MakePack, tmp_path: Path, mode: str
) -> None:
    pack, before, found = make_pack("sentiment"), torch.get_num_threads(), dict[tuple[int, int], str]()
    for machine, wanted in ((1, 2), (3, 2), (1, 3)):
        counts = ThreadCounts()
        torch.set_num_threads(machine)
        try:
            settings = quick(epochs=1, threads=wanted)
            trained = train(
                pack, tmp_path / f"{machine}", mode=mode, rows=ROWS["sentiment"], settings=settings, progress=counts
            )
            assert (counts.seen, torch.get_num_threads()) == ({wanted}, machine)
        finally:
            torch.set_num_threads(before)
        assert trained.manifest.training.threads == wanted
        found[machine, wanted] = trained.manifest.version
    assert found[1, 2] == found[3, 2] != found[1, 3]


def test_versions_that_are_older_than_the_number_of_threads_keep_their_hashes() -> None:
    assert "threads" not in quick().model_dump(mode="json")
    assert quick(threads=3).model_dump(mode="json")["threads"] == 3
    assert type(quick()).model_validate(quick().model_dump(mode="json")).threads == 2


def test_the_network_learns(make_pack: MakePack, tmp_path: Path) -> None:
    trained = train(make_pack("sentiment"), tmp_path, rows=sentiment_rows(24, 8), settings=quick(epochs=12))
    assert trained.metrics["accuracy"] > 80, "three labels that hang on one word: a third is chance"


def test_word_embeddings_are_frozen_and_the_rest_is_trained(
    make_pack: MakePack, tmp_path: Path, tiny_base: Path
) -> None:
    trained = weights(train(make_pack("sentiment"), tmp_path, rows=ROWS["sentiment"], settings=quick()))
    base = load_file(tiny_base / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(trained[f"bert.{name}"], base[name])
    deep = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(trained[f"bert.{deep}"], base[deep])


@pytest.mark.parametrize("mode", ["full", "head"])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_cancelled_training_stops_at_the_next_step_and_writes_nothing(
    make_pack: MakePack, tmp_path: Path, mode: str, after: int
) -> None:
    asked = 0

    def cancel() -> bool:
        nonlocal asked
        asked += 1
        return asked > after

    with pytest.raises(TrainingCancelled):
        train(make_pack("sentiment"), tmp_path, mode=mode, rows=ROWS["sentiment"], settings=quick(), cancel=cancel)
    assert asked == after + 1
    assert visible(tmp_path) == []


@pytest.fixture(scope="module")
def parent(make_pack: MakePack, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    return train(
        make_pack("sentiment"), tmp_path_factory.mktemp("parent"), rows=ROWS["sentiment"], settings=quick(epochs=6)
    )


def test_a_warm_start_begins_with_the_parents_weights(
    make_pack: MakePack, tmp_path: Path, parent: TrainingResult
) -> None:
    settings = quick(epochs=1, learning_rate=1e-9)
    child = train(make_pack("sentiment"), tmp_path, rows=ROWS["sentiment"], settings=settings, parent=parent.directory)
    assert (child.manifest.parent, child.manifest.base) == (parent.manifest.version, "tiny")
    assert child.metrics["accuracy"] == parent.metrics["accuracy"]
    theirs, ours = weights(parent), weights(child)
    assert max(float((theirs[name] - ours[name]).abs().max()) for name in theirs) < 1e-6


def test_a_head_is_fitted_on_the_features_of_the_parent(
    make_pack: MakePack, tmp_path: Path, parent: TrainingResult
) -> None:
    child = train(
        make_pack("sentiment"), tmp_path, mode="head", rows=ROWS["sentiment"], settings=quick(), parent=parent.directory
    )
    theirs, ours = weights(parent), weights(child)
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs if not name.startswith("classifier"))
    assert not torch.equal(theirs["classifier.weight"], ours["classifier.weight"])


def test_a_parent_trained_in_head_mode_can_be_fine_tuned(make_pack: MakePack, tmp_path: Path) -> None:
    pack = make_pack("nli")
    head = train(pack, tmp_path, mode="head", rows=ROWS["nli"], settings=quick())
    child = train(pack, tmp_path, mode="full", rows=ROWS["nli"], settings=quick(), parent=head.directory)
    assert child.manifest.parent == head.manifest.version


def test_a_parent_with_other_labels_is_refused(make_pack: MakePack, tmp_path: Path, parent: TrainingResult) -> None:
    rows = [label_row(0, "hateful", text="x"), label_row(1, "not_hateful", text="y")]
    rows += [label_row(2, "hateful", "held_out", text="z"), label_row(3, "not_hateful", "held_out", text="w")]
    with pytest.raises(ModelMismatch):
        train(make_pack("hate_speech"), tmp_path / "other", rows=rows, settings=quick(), parent=parent.directory)
    assert visible(tmp_path / "other") == []


def test_a_parent_of_another_kind_is_refused(make_pack: MakePack, tmp_path: Path, parent: TrainingResult) -> None:
    with pytest.raises(ModelMismatch):
        train(make_pack("qa"), tmp_path / "other", rows=ROWS["qa"], settings=quick(), parent=parent.directory)


def scripted(monkeypatch: pytest.MonkeyPatch, points: list[float]) -> list[dict[str, torch.Tensor]]:
    """Replaces the held-out metrics; returns the weights at each evaluation."""
    left = list(points)
    taken: list[dict[str, torch.Tensor]] = []

    def fine_tune(network: Any, examples: Any, settings: Any, measure: Callable[[], Metrics], monitor: Any) -> Metrics:
        def told() -> Metrics:
            state = {name: value.detach().clone() for name, value in network.state_dict().items()}
            taken.append(state)
            return {**measure(), "macro_f1": left.pop(0)}

        return fine_tuning.fine_tune(network, examples, settings, told, monitor)

    monkeypatch.setattr(run, "fine_tune", fine_tune)
    return taken


def test_training_stops_early_and_keeps_the_best_epoch(
    make_pack: MakePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = scripted(monkeypatch, [50, 70, 60, 70, 99])
    settings = quick(epochs=9, patience=2)
    trained = train(make_pack("sentiment"), tmp_path, rows=ROWS["sentiment"], settings=settings)
    assert len(taken) == 4, "two epochs without progress after the second"
    assert trained.metrics["epoch"] == 2
    written = weights(trained)
    assert all(torch.equal(written[name], taken[1][name]) for name in written)


def test_progress_resets_patience(make_pack: MakePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = scripted(monkeypatch, [50, 40, 60, 55, 65, 10, 10])
    train(make_pack("sentiment"), tmp_path, rows=ROWS["sentiment"], settings=quick(epochs=9, patience=2))
    assert len(taken) == 7


def test_class_weights_balance_rare_labels(make_pack: MakePack) -> None:
    spec = make_pack("sentiment").spec
    rows = [label_row(number, "positive", text=f"p{number}") for number in range(6)]
    rows += [
        label_row(10, "negative", text="n"),
        label_row(11, "neutral", text="m"),
        label_row(12, "neutral", text="k"),
    ]
    rows.append(label_row(13, "positive", "held_out", text="h"))
    weighed = TrainingData.of(rows, spec).class_weights()
    assert weighed == pytest.approx({"positive": 0.5, "negative": 3.0, "neutral": 1.5})


def test_the_loss_of_a_row_is_weighted_by_its_label(tiny_base: Path) -> None:
    network = open_network(tiny_base, "classification", ["a", "b"]).network
    encoder = text_encoder(open_tokenizer(tiny_base), network, 64)
    labels, weighed = torch.tensor([0, 1, 1]), torch.tensor([3.0, 0.5])
    examples = LabelExamples(encoder, encoder.texts([("one",), ("two",), ("three",)]), labels, weighed)
    with torch.no_grad():
        alone = [float(examples.cost(network, [place])) for place in range(3)]
        plain = LabelExamples(encoder, examples.tokens, labels, torch.ones(2))
        unweighed = [float(plain.cost(network, [place])) for place in range(3)]
        together = float(examples.cost(network, [0, 1, 2]))
    assert alone == pytest.approx([3 * unweighed[0], 0.5 * unweighed[1], 0.5 * unweighed[2]])
    assert together == pytest.approx(sum(alone), rel=1e-4)
    assert examples.weight([0, 1, 2]) == pytest.approx(4.0)


def test_a_batch_too_large_for_memory_is_split_with_the_same_gradient(
    tiny_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = []
    for most_tokens in (10_000, 30):
        monkeypatch.setattr(fine_tuning, "TOKENS_PER_PASS", most_tokens)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            network = open_network(tiny_base, "classification", ["a", "b"]).network
        encoder = text_encoder(open_tokenizer(tiny_base), network, 64)
        texts = [("word " * (number % 5 + 1),) for number in range(12)]
        labels = torch.tensor([number % 2 for number in range(12)])
        examples = LabelExamples(encoder, encoder.texts(texts), labels, torch.tensor([3.0, 0.5]))
        learning = list(network.parameters())
        # Plain gradient descent: the weights then show the gradient.
        loss = fine_tuning._step(network, examples, list(range(12)), torch.optim.SGD(learning, lr=1.0), learning)
        after.append((loss, [parameter.detach().clone() for parameter in learning]))
    assert after[0][0] == pytest.approx(after[1][0], rel=1e-4)
    assert all(torch.allclose(one, two, atol=1e-5) for one, two in zip(after[0][1], after[1][1], strict=True))


class Nonsense:
    """Examples whose cost is not a number."""

    lengths = (1, 1)

    def weight(self, places: Sequence[int]) -> float:
        return float(len(places))

    def cost(self, network: PreTrainedModel, places: Sequence[int]) -> torch.Tensor:
        last: torch.Tensor = list(network.parameters())[-1]
        return last.sum() * float("nan")


def test_a_training_that_diverges_is_an_error(tiny_base: Path) -> None:
    network = open_network(tiny_base, "classification", ["a", "b"]).network
    with pytest.raises(TrainingDiverged):
        fine_tuning.fine_tune(network, Nonsense(), quick(), dict, ProgressMonitor(None, None))


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row for row in ROWS["sentiment"] if row.split == "train"],
        [row for row in ROWS["sentiment"] if row.split == "held_out"],
        [row for row in ROWS["sentiment"] if row.label != "neutral"],
    ],
    ids=["none", "nothing held out", "nothing to train on", "a label without rows"],
)
def test_unusable_rows_are_an_error(make_pack: MakePack, tmp_path: Path, rows: list[SeedRow]) -> None:
    with pytest.raises(TrainingDataInvalid):
        train(make_pack("sentiment"), tmp_path, rows=rows, settings=quick())


def test_an_answer_deep_in_a_long_passage_with_emoji_is_learned(make_pack: MakePack, tmp_path: Path) -> None:
    rows = qa_rows(6, 2, before="Many boats 🎉 came\u200b in   summer. " * 30)
    pack = make_pack("qa", doc_stride=16)
    found = spans_in(pack, rows)
    assert [text for text, _ in found] == [answer for _, answer in found]
    assert train(pack, tmp_path, rows=rows, settings=quick(epochs=1)).manifest.train.rows == 6


def spans_in(pack: Pack, rows: list[SeedRow]) -> list[tuple[str, str]]:
    """What the examples' tokens stand for in the original passages, beside the right answers."""
    base = Path(pack.model_base())
    encoder = text_encoder(open_tokenizer(base), open_network(base, "qa").network, 64)
    data = TrainingData.of(rows, pack.spec)
    found = []
    for row, one in zip(data.train, spans_of(data, encoder, 16, held_out=False), strict=True):
        passage = align(row.fields["passage"])
        read = encoder.windows(normalise(row.fields["question"]), passage.text, 16)
        shift = one.window.first - one.window.place
        begin, end = read.offsets[one.first + shift][0], read.offsets[one.last + shift][1]
        start, stop = passage.original(begin, end)
        found.append((row.fields["passage"][start:stop], str(row.answer)))
    return found


def test_the_learning_rate_rises_and_falls_linearly() -> None:
    rates = [rate_at(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == pytest.approx(1.0)
    assert rates.index(max(rates)) in (9, 10)
    assert rates[-1] == pytest.approx(1 / 90)


def test_an_epoch_has_every_row_once_and_similar_lengths_together() -> None:
    lengths = [number % 37 + 3 for number in range(500)]
    batches = list(shuffled_batches(lengths, 10, torch.Generator().manual_seed(1)))
    assert sorted(place for batch in batches for place in batch) == list(range(500))
    padded = sum(max(lengths[place] for place in batch) * len(batch) for batch in batches)
    assert padded < 1.15 * sum(lengths)
    again = list(shuffled_batches(lengths, 10, torch.Generator().manual_seed(1)))
    assert again == batches
    assert list(shuffled_batches(lengths, 10, torch.Generator().manual_seed(2))) != batches
