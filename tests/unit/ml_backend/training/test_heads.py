import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoTokenizer

from ml_backend.checkpoint import embedded_encoder
from ml_backend.encoding import TextEncoder
from ml_backend.errors import ModelFileNotWritable
from ml_backend.targets.loading import load_target
from ml_backend.targets.target import LabelPrediction
from ml_backend.targets.torch_runtime import batch_of, open_network, open_tokenizer, text_encoder
from ml_backend.text import normalise
from ml_backend.training import features as features_module
from ml_backend.training import heads, train
from ml_backend.training.features import FeatureCache, Floats, FrozenNetwork
from ml_backend.training.heads import STRENGTHS, fit_logistic
from ml_backend.training.pooling import add_mean_pooling, add_pair_pooling
from ml_backend.training.start import ProgressMonitor
from templates import Pack, SeedRow, find_pack
from tests.fakes.trainer import without_quantisation
from tests.unit.ml_backend.conftest import MakePack, ProgressLog, label_row, nli_rows, qa_rows, quick, sentiment_rows

NOBODY = ProgressMonitor(None, None)


@pytest.fixture(autouse=True)
def _without_quantisation() -> Iterator[None]:
    with without_quantisation():
        yield


def two_label_rows() -> list[SeedRow]:
    names = {"positive": "hateful", "negative": "not_hateful"}
    rows = [row for row in sentiment_rows(10) if row.label in names]
    return [label_row(place, names[str(row.label)], row.split, **row.fields) for place, row in enumerate(rows)]


def some_of_the_seed(pack: Pack, each: int) -> list[SeedRow]:
    rows: list[SeedRow] = []
    for label in pack.spec.label_names:
        for split in ("train", "held_out"):
            rows += [row for row in pack.seed if (row.label, row.split) == (label, split)][:each]
    return rows


def check_parity(pack: Pack, rows: list[SeedRow], models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored model answers as the regression that was fitted, on the features that it was fitted on."""
    fitted: list[Any] = []
    features: list[Any] = []
    fit = fit_logistic

    def spy(seen: Any, *rest: Any, **options: Any) -> Any:
        fitted.append(fit(seen, *rest, **options))
        features.append(seen)
        return fitted[-1]

    monkeypatch.setattr(heads, "fit_logistic", spy)
    trained = train(pack, models, mode="head", rows=rows, settings=quick())
    model = AutoModelForSequenceClassification.from_pretrained(trained.directory).eval()
    written = model.classifier.weight.detach().numpy()
    ((weights, biases),) = [one for one in fitted if np.allclose(one[0], written, atol=1e-6)]
    expected = np.sort(heads._softmax(features[0] @ weights.T + biases), axis=0)

    inputs = [row.fields for row in rows if row.split == "train"]
    answers = load_target(trained.directory, "torch").predict(inputs)
    said = [list(answer.probabilities.values()) for answer in answers if isinstance(answer, LabelPrediction)]
    # Training sorts its rows; sorted columns compare without knowing how.
    assert np.sort(np.array(said), axis=0) == pytest.approx(expected, abs=2e-4)

    tokenizer = AutoTokenizer.from_pretrained(trained.directory)
    texts = [normalise(inputs[0][name]) for name in pack.spec.model_input]
    with torch.inference_mode():
        plain = model(**tokenizer(*texts, return_tensors="pt")).logits.softmax(-1)[0]
    assert said[0] == pytest.approx(plain.tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("task", "rows"), [("sentiment", sentiment_rows(10)), ("nli", nli_rows(10)), ("hate_speech", two_label_rows())]
)
def test_a_head_model_predicts_as_the_fitted_regression(
    make_pack: MakePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, rows: list[SeedRow]
) -> None:
    check_parity(make_pack(task), rows, tmp_path, monkeypatch)


def test_a_head_on_the_embedded_encoder_predicts_as_the_fitted_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = find_pack("nli")
    check_parity(pack, some_of_the_seed(pack, 6), tmp_path, monkeypatch)


def test_a_span_head_is_an_ordinary_model(make_pack: MakePack, tmp_path: Path) -> None:
    trained = train(make_pack("qa"), tmp_path, mode="head", rows=qa_rows(10), settings=quick())
    model = AutoModelForQuestionAnswering.from_pretrained(trained.directory)
    assert float(model.qa_outputs.weight.detach().abs().max()) > 0


def test_a_span_head_finds_what_it_was_fitted_on(make_pack: MakePack, tmp_path: Path) -> None:
    trained = train(make_pack("qa"), tmp_path, mode="head", rows=qa_rows(30, 8), settings=quick())
    assert trained.metrics["f1"] > 50


def test_cached_rows_are_not_read_again(make_pack: MakePack, tmp_path: Path) -> None:
    pack, rows = make_pack("sentiment"), sentiment_rows(8)
    read = []
    for given in (rows, rows, [*rows, label_row(99, "neutral", text="A new weekday row.")]):
        seen = ProgressLog()
        train(
            pack,
            tmp_path / "models",
            mode="head",
            rows=given,
            settings=quick(),
            cache=tmp_path / "cache",
            progress=seen,
        )
        read.append(seen.totals[seen.stages.index("Reading the training data with the base model")])
    assert read == [len(rows), 0, 1]


def test_another_encoder_does_not_use_these_features(make_pack: MakePack, tmp_path: Path) -> None:
    pack, rows = make_pack("sentiment"), sentiment_rows(8)
    parent = train(pack, tmp_path, mode="full", rows=rows, settings=quick(epochs=1))
    read = []
    for start in (None, parent.directory):
        seen = ProgressLog()
        train(pack, tmp_path, mode="head", rows=rows, settings=quick(), parent=start, progress=seen)
        read.append(seen.totals[0])
    assert read == [len(rows), len(rows)]


def test_a_corrupt_cache_is_replaced(make_pack: MakePack, tmp_path: Path) -> None:
    pack, rows = make_pack("sentiment"), sentiment_rows(8)
    first = train(pack, tmp_path / "one", mode="head", rows=rows, settings=quick(), cache=tmp_path / "cache")
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b"not a database" * 100)
    again = train(pack, tmp_path / "two", mode="head", rows=rows, settings=quick(), cache=tmp_path / "cache")
    assert again.manifest.version == first.manifest.version


def test_a_locked_cache_is_waited_for_and_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FeatureCache(tmp_path, width=1).put([(b"k", np.ones((1, 1), dtype=np.float32))])
    monkeypatch.setattr(features_module, "LOCK_SECONDS", 0.05)
    with sqlite3.connect(tmp_path / "features.sqlite", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ModelFileNotWritable):
            FeatureCache(tmp_path, width=1).put([(b"new", np.ones((1, 1), dtype=np.float32))])
        other.execute("ROLLBACK")
    assert FeatureCache(tmp_path, width=1).missing([b"k"]) == set()


def test_token_states_beyond_the_memory_limit_are_read_from_the_cache(
    make_pack: MakePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack, rows = make_pack("qa"), qa_rows(10)
    kept = train(pack, tmp_path / "kept", mode="head", rows=rows, settings=quick())
    monkeypatch.setattr(heads, "MAX_BYTES", 0)
    streamed = train(pack, tmp_path / "streamed", mode="head", rows=rows, settings=quick())
    assert streamed.manifest.version == kept.manifest.version


def test_a_cache_drops_the_least_recently_used_rows(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path, width=4)
    array = np.ones((10, 4), dtype=np.float32)
    for key in (b"a", b"b", b"c"):
        cache.put([(key, array)])
    cache.trim([b"a"], max_bytes=2 * array.nbytes)
    assert cache.missing([b"a", b"b", b"c"]) == {b"b"}
    assert np.array_equal(cache.get([b"a"])[0], array)


def test_the_cache_holds_plain_numbers_only(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path, width=2)
    cache.put([(b"k", np.array([[1.5, -2.0]], dtype=np.float32))])
    with sqlite3.connect(tmp_path / "features.sqlite") as store:
        ((data,),) = store.execute("SELECT data FROM features").fetchall()
    assert np.frombuffer(data, dtype="<f4").tolist() == [1.5, -2.0]


def test_features_do_not_depend_on_other_rows(tmp_path: Path) -> None:
    network = open_network(embedded_encoder(), "classification", ["a", "b"]).network
    encoder = text_encoder(open_tokenizer(embedded_encoder()), network, 64)
    texts = encoder.texts([(f"Row {number} was " + "really " * (number % 6) + "fine.",) for number in range(24)])
    said = []
    for name, parts in (("alone", [[text] for text in texts]), ("together", [texts])):
        cache = FeatureCache(tmp_path / name, 384)
        frozen = FrozenNetwork(network, encoder, cache)
        for part in parts:
            frozen.read(part, NOBODY)
        said.append(cache.get(frozen.keys(texts)))
    assert max(float(np.abs(one - two).max()) for one, two in zip(*said, strict=True)) < 1e-6


def pooled(network: Any, encoder: TextEncoder, *texts: str) -> Any:
    with torch.inference_mode():
        return network.base_model(**batch_of(encoder, encoder.texts([texts]))).pooler_output[0]


def test_mean_pooling_shows_the_output_layer_the_mean_of_the_token_states() -> None:
    network = open_network(embedded_encoder(), "classification", ["a", "b"]).network
    encoder = text_encoder(open_tokenizer(embedded_encoder()), network, 64)
    text = "The soup tastes like home."
    with torch.inference_mode():
        mean = network.base_model(**batch_of(encoder, encoder.texts([(text,)]))).last_hidden_state[0].mean(0)
    add_mean_pooling(network)
    expected = torch.tanh(0.1 * torch.nn.functional.layer_norm(mean, mean.shape))
    assert torch.cosine_similarity(pooled(network, encoder, text), expected, dim=0) > 0.99


def test_pair_pooling_puts_each_text_into_one_half() -> None:
    pack = find_pack("nli")
    network = open_network(embedded_encoder(), "classification", pack.spec.label_names).network
    encoder = text_encoder(open_tokenizer(embedded_encoder()), network, 128)
    rows = [(row.fields["premise"], row.fields["hypothesis"]) for row in pack.seed[:40]]
    add_pair_pooling(network, encoder, encoder.texts(rows))
    assert network.config.num_hidden_layers < 7, "layers that mix the texts are dropped"
    bert: Any = network.base_model
    tokens = encoder.texts(rows[:8])
    agreement = []
    for row, one in zip(rows, tokens, strict=False):
        with torch.inference_mode():
            states = network.base_model(**batch_of(encoder, [one]), output_hidden_states=True).hidden_states[-2][0]
        second = torch.tensor(one.type_ids) == 1
        half = network.config.hidden_size // 2
        turn = bert.encoder.layer[-1].attention.self.value.weight.detach()[:half]
        apart = turn @ (states[second].mean(0) - states[~second].mean(0))
        seen = pooled(network, encoder, *row)
        agreement.append(float(torch.cosine_similarity(seen[:half] - seen[half:], apart, dim=0)))
    assert min(agreement) > 0.5, "the first half is the second text's mean, the second half the first one's"
    assert sum(agreement) / len(agreement) > 0.75


ROWS, WIDTH = 120, 16


@pytest.mark.parametrize("class_weights", [True, False])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_it_finds_the_weights_that_scikit_learn_finds(classes: int, class_weights: bool) -> None:
    dice = np.random.default_rng(classes)
    features = dice.normal(size=(ROWS, WIDTH)).astype(np.float32)
    # Some classes are rarer than others.
    labels = np.minimum(dice.integers(0, classes, ROWS), dice.integers(0, classes, ROWS))
    for strength in STRENGTHS:
        weights, biases = fit_logistic(features, labels, classes, strength, class_weights=class_weights)
        weighted = "balanced" if class_weights else None
        theirs = LogisticRegression(C=strength, class_weight=weighted, tol=1e-9, max_iter=10_000)
        theirs.fit(features.astype(np.float64), labels)
        assert (weights.shape, biases.shape) == ((classes, WIDTH), (classes,))
        assert _shares(features @ weights.T + biases) == pytest.approx(theirs.predict_proba(features), abs=1e-3)


def test_the_same_rows_give_the_same_weights_to_the_last_bit() -> None:
    dice = np.random.default_rng(7)
    features, labels = dice.normal(size=(ROWS, WIDTH)).astype(np.float32), dice.integers(0, 3, ROWS)
    first, second = (fit_logistic(features, labels, 3, 1.0, class_weights=True) for _ in range(2))
    assert all(np.array_equal(*both) for both in zip(first, second, strict=True))


def test_a_label_that_no_row_has_is_never_the_likeliest() -> None:
    dice = np.random.default_rng(7)
    features, labels = dice.normal(size=(ROWS, WIDTH)).astype(np.float32), dice.integers(0, 2, ROWS)
    weights, biases = fit_logistic(features, labels, 3, 1.0, class_weights=True)
    assert (features @ weights.T + biases).argmax(axis=1).max() == 1


def _shares(logits: Floats) -> Floats:
    grown = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))
