import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoTokenizer

from ml_backend.errors import ModelInputInvalid, ModelMismatch, TrainingDiverged
from ml_backend.targets import trained
from ml_backend.targets.target import LabelPrediction, SpanPrediction, Target
from ml_backend.targets.torch_runtime import TorchNetwork, open_network, open_tokenizer, task_labels, text_encoder
from ml_backend.targets.trained import SpanTable, TrainedClassifier, TrainedSpanFinder
from ml_backend.text import normalise
from templates.spec import TaskSpec
from tests.unit.ml_backend.conftest import MakePack

Save = Callable[..., Path]

LONG = "The harbour was quiet 🎉. " * 60 + "Anna Keel painted the ferry green. " + "Nobody came on Sunday. " * 60


def target_in(directory: Path, spec: TaskSpec) -> Target:
    """The target of any transformers model whose labels are the task's."""
    opened = open_network(directory, spec.kind)
    encoder = text_encoder(open_tokenizer(directory), opened.network, spec.model.max_length)
    network = TorchNetwork(opened.network, spec.kind)
    if spec.kind == "qa":
        return TrainedSpanFinder("foreign", network, encoder, spec.model_input, spec.model.doc_stride)
    labels = task_labels(opened.network, spec.label_names)
    return TrainedClassifier("foreign", network, encoder, labels, spec.model_input)


@pytest.fixture(scope="module")
def save(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Save:
    """Saves the tiny model with an output layer, as if it had been trained elsewhere."""

    def save(auto: Any, **config: Any) -> Path:
        directory = tmp_path_factory.mktemp("foreign")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            auto.from_pretrained(tiny_base, **config).save_pretrained(directory)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(tiny_base / name, directory / name)
        return directory

    return save


@pytest.fixture
def foreign(save: Save) -> Path:
    labels = {0: "NEUTRAL", 1: "Positive", 2: "negative"}
    return save(AutoModelForSequenceClassification, num_labels=3, id2label=labels)


@pytest.fixture
def classifier(foreign: Path, make_pack: MakePack) -> Target:
    return target_in(foreign, make_pack("sentiment").spec)


@pytest.fixture(scope="module")
def span_finder(save: Save, make_pack: MakePack) -> Target:
    return target_in(save(AutoModelForQuestionAnswering), make_pack("qa", doc_stride=16).spec)


def labels_of(target: Target, texts: list[str]) -> list[LabelPrediction]:
    answers = target.predict([{"text": text} for text in texts])
    assert all(isinstance(answer, LabelPrediction) for answer in answers)
    return [answer for answer in answers if isinstance(answer, LabelPrediction)]


def span_of(target: Target, passage: str, question: str = "Who painted it?") -> SpanPrediction:
    (answer,) = target.predict([{"passage": passage, "question": question}])
    assert isinstance(answer, SpanPrediction)
    return answer


def test_no_rows_have_no_predictions(classifier: Target, span_finder: Target) -> None:
    assert classifier.predict([]) == []
    assert span_finder.predict([]) == []


def test_every_label_of_the_task_has_a_probability_and_they_sum_to_one(classifier: Target) -> None:
    for answer in labels_of(classifier, ["A fine day.", "", "x " * 500, "🎉"]):
        assert set(answer.probabilities) == {"positive", "negative", "neutral"}
        assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-12)
        assert answer.confidence == max(answer.probabilities.values())


def test_predictions_equal_those_of_transformers(classifier: Target, foreign: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(foreign)
    model = AutoModelForSequenceClassification.from_pretrained(foreign).eval()
    text = "A fine 🎉 day in the old harbour."
    with torch.inference_mode():
        logits = model(**tokenizer(normalise(text), return_tensors="pt")).logits[0]
    expected = dict(zip(["neutral", "positive", "negative"], logits.softmax(-1).tolist(), strict=True))
    (answer,) = labels_of(classifier, [text])
    assert answer.probabilities == pytest.approx(expected, abs=1e-5)


def test_predictions_keep_the_order_of_rows_and_do_not_depend_on_other_rows(
    classifier: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trained, "LABEL_ROWS_HELD", 7)
    monkeypatch.setattr(trained, "TOKENS_PER_PASS", 40)
    texts = [f"Row {number} " + "and more " * (number * 7 % 23) for number in range(30)]
    together = labels_of(classifier, texts)
    for text, answer in zip(texts, together, strict=True):
        (alone,) = labels_of(classifier, [text])
        assert alone.probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_threads_can_share_a_target(classifier: Target) -> None:
    texts = [f"Row {number} " + "more " * (number % 13) for number in range(60)]
    alone = [labels_of(classifier, [text])[0].probabilities for text in texts]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: labels_of(classifier, [text])[0], texts))
    for answer, expected in zip(answers, alone, strict=True):
        assert answer.probabilities == pytest.approx(expected, abs=1e-5)


def test_a_row_without_a_field_is_an_error(classifier: Target) -> None:
    with pytest.raises(ModelInputInvalid):
        classifier.predict([{"text": "x"}, {"txt": "x"}])


@pytest.mark.parametrize("lengths", [(10, 10), (100, 3), (3, 100), (100, 100), (40, 30), (31, 60), (30, 31)])
def test_two_texts_that_are_too_long_are_truncated_as_transformers_does(
    tiny_base: Path, lengths: tuple[int, int]
) -> None:
    tokenizer = open_tokenizer(tiny_base)
    pair = ("cat " * lengths[0], "dog " * lengths[1])
    expected = tokenizer(*pair, truncation="longest_first", max_length=64)
    (tokens,) = text_encoder(tokenizer, open_network(tiny_base, "qa").network, 64).texts([pair])
    assert (tokens.ids, tokens.type_ids) == (expected["input_ids"], expected["token_type_ids"])


def test_one_text_that_is_too_long_is_truncated(tiny_base: Path) -> None:
    tokenizer = open_tokenizer(tiny_base)
    text = " ".join(f"word {number}" for number in range(99))
    (tokens,) = text_encoder(tokenizer, open_network(tiny_base, "qa").network, 64).texts([(text,)])
    assert tokens.ids == tokenizer(text, truncation=True, max_length=64)["input_ids"]


def test_two_texts_are_read_as_a_pair(save: Save, make_pack: MakePack) -> None:
    names = {0: "entailment", 1: "neutral", 2: "contradiction"}
    directory = save(AutoModelForSequenceClassification, num_labels=3, id2label=names)
    target = target_in(directory, make_pack("nli").spec)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    row = {"premise": "The lake was frozen.", "hypothesis": "It was cold."}
    with torch.inference_mode():
        logits = model(**tokenizer(row["premise"], row["hypothesis"], return_tensors="pt")).logits[0]
    (answer,) = target.predict([row])
    assert isinstance(answer, LabelPrediction)
    expected = dict(zip(names.values(), logits.softmax(-1).tolist(), strict=True))
    assert answer.probabilities == pytest.approx(expected, abs=1e-5)


def test_a_model_with_other_labels_is_refused(save: Save, make_pack: MakePack) -> None:
    directory = save(AutoModelForSequenceClassification, num_labels=3)
    with pytest.raises(ModelMismatch):
        target_in(directory, make_pack("sentiment").spec)


def test_a_model_that_reads_fewer_tokens_than_the_task_needs_is_refused(foreign: Path, make_pack: MakePack) -> None:
    with pytest.raises(ModelMismatch):
        target_in(foreign, make_pack("sentiment", max_length=129).spec)


def test_scores_that_are_not_finite_are_an_error(foreign: Path, make_pack: MakePack, tmp_path: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(foreign)
    model.classifier.bias.data.fill_(float("nan"))
    model.save_pretrained(foreign)
    target = target_in(foreign, make_pack("sentiment").spec)
    with pytest.raises(TrainingDiverged):
        target.predict([{"text": "x"}])


@pytest.mark.parametrize(
    "passage",
    [
        "Anna Keel painted the ferry green.",
        "🎉 Anna Keel 👩‍👩‍👧 painted the 🚢 green ❤️ .",
        "🍕",
        "Zoe\u0308   Kay\u200b painted\tit.",
        "\u200b\u200b",
        LONG,
        "word" * 400,
    ],
)
@pytest.mark.parametrize("question", ["Who painted it?", "", "why " * 300])
def test_a_span_is_a_part_of_the_original_passage(span_finder: Target, passage: str, question: str) -> None:
    answer = span_of(span_finder, passage, question)
    assert 0 <= answer.start < answer.end <= len(passage)
    assert passage[answer.start : answer.end] == answer.text
    assert 0 < answer.confidence <= 1


def test_an_empty_passage_is_an_error(span_finder: Target) -> None:
    with pytest.raises(ModelInputInvalid):
        span_finder.predict([{"passage": "  ", "question": "Who?"}])


@pytest.fixture(scope="module")
def finder(save: Save, make_pack: MakePack) -> Target:
    """A model that always predicts the word Keel: its layers pass words through, and its output detects that one."""
    directory = save(AutoModelForQuestionAnswering)
    model = AutoModelForQuestionAnswering.from_pretrained(directory)
    (keel,) = AutoTokenizer.from_pretrained(directory)("keel", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "LayerNorm" not in name and "word_embeddings" not in name:
                parameter.zero_()
        words = model.get_input_embeddings().weight
        words[:, 0] = 0
        words[keel] = torch.eye(words.shape[1])[0] * 9
        model.qa_outputs.weight[:, 0] = 5
    model.save_pretrained(directory)
    return target_in(directory, make_pack("qa", doc_stride=16).spec)


@pytest.mark.parametrize("before", [0, 1, 20, 49, 50, 51, 52, 90, 400])
@pytest.mark.parametrize("word", ["boat ", "🎉", "Zoe\u0308\u200b  ", "👩\u200d👩\u200d👧 "])
def test_an_answer_is_found_anywhere_in_a_passage(finder: Target, before: int, word: str) -> None:
    passage = f"{word * before} Anna Keel painted it. {word * 70}"
    answer = span_of(finder, passage)
    assert (answer.text, answer.start) == ("Keel", passage.index("Keel"))
    assert answer.confidence > 0.9


def test_a_span_next_to_an_emoji_maps_back_to_the_original(finder: Target) -> None:
    # The emoji becomes two words, so positions in the normalised text differ from the original.
    assert normalise("🛥️ Keel") == "motor boat Keel"
    assert span_of(finder, "First 🛥️Keel, then more 🛥️.").text == "Keel"


def test_windows_cover_the_whole_passage_and_overlap(save: Save, make_pack: MakePack) -> None:
    target = target_in(save(AutoModelForQuestionAnswering), make_pack("qa", doc_stride=16).spec)
    assert isinstance(target, TrainedSpanFinder)
    read = target._encoder.windows("Who painted it?", normalise(LONG), 16)
    covered = {window.first + place for window in read.windows for place in range(window.size)}
    assert covered == set(range(len(read.offsets)))
    for before, after in zip(read.windows, read.windows[1:], strict=False):
        assert before.first + before.size - after.first == 16
    assert all(len(window.tokens) <= 64 for window in read.windows)


def test_the_best_span_has_the_highest_sum_and_does_not_run_backwards() -> None:
    table = SpanTable(4, 4)
    table.add(0, np.array([0.0, 9.0, 0.0, 0.0]), np.array([8.0, 0.0, 5.0, 0.0]))
    best = table.best()
    assert (best.first, best.last) == (1, 2)


def test_a_span_is_never_longer_than_allowed() -> None:
    table = SpanTable(6, 2)
    table.add(0, np.array([9.0, 0, 0, 0, 0, 0]), np.array([0, 0, 0, 0, 0, 9.0]))
    best = table.best()
    assert best.last - best.first + 1 <= 2


def test_the_probability_is_the_share_among_all_allowed_spans() -> None:
    table = SpanTable(2, 2)
    table.add(0, np.zeros(2), np.zeros(2))
    assert table.best().probability == pytest.approx(1 / 3), "three spans: the first, the second, both"


def test_a_span_in_two_windows_counts_once_with_its_best_score() -> None:
    table = SpanTable(3, 1)
    table.add(0, np.array([0.0, 0.0]), np.array([0.0, 0.0]))
    table.add(1, np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    best = table.best()
    assert (best.first, best.last) == (1, 1)
    assert best.probability == pytest.approx(np.exp(2) / (np.exp(2) + 2))
