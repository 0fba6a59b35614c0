import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoTokenizer

from ml_backend import label_predictor, span_predictor
from ml_backend.answers import LabelAnswer, SpanAnswer
from ml_backend.errors import BackendError, ModelError
from ml_backend.network import open_network, open_tokenizer
from ml_backend.predictor import Predictor, open_checkpoint_predictor
from ml_backend.text import normalise
from ml_backend.torch_runtime import text_encoder
from tests.unit.ml_backend.conftest import MakePack

Save = Callable[..., Path]

LONG = "The harbour was quiet 🎉. " * 60 + "Anna Keel painted the ferry green. " + "Nobody came on Sunday. " * 60


@pytest.fixture
def save(tiny_base: Path, tmp_path: Path) -> Save:
    """Saves the tiny model with an output layer, as if somebody else had trained it."""

    def save(auto: Any, **config: Any) -> Path:
        directory = tmp_path / "foreign"
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
def labeller(foreign: Path, make_pack: MakePack) -> Predictor:
    return open_checkpoint_predictor(str(foreign), make_pack("sentiment").spec)


@pytest.fixture
def answerer(save: Save, make_pack: MakePack) -> Predictor:
    return open_checkpoint_predictor(str(save(AutoModelForQuestionAnswering)), make_pack("qa", doc_stride=16).spec)


def labels_of(predictor: Predictor, texts: list[str]) -> list[LabelAnswer]:
    answers = predictor.predict([{"text": text} for text in texts])
    assert all(isinstance(answer, LabelAnswer) for answer in answers)
    return [answer for answer in answers if isinstance(answer, LabelAnswer)]


def span_of(predictor: Predictor, passage: str, question: str = "Who painted it?") -> SpanAnswer:
    (answer,) = predictor.predict([{"passage": passage, "question": question}])
    assert isinstance(answer, SpanAnswer)
    return answer


def test_no_rows_have_no_answers(labeller: Predictor, answerer: Predictor) -> None:
    assert labeller.predict([]) == []
    assert answerer.predict([]) == []


def test_every_label_of_the_task_has_a_probability_and_they_sum_to_one(labeller: Predictor) -> None:
    for answer in labels_of(labeller, ["A fine day.", "", "x " * 500, "🎉"]):
        assert set(answer.probabilities) == {"positive", "negative", "neutral"}
        assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-12)
        assert answer.confidence == max(answer.probabilities.values())


def test_answers_are_those_of_the_model_itself(labeller: Predictor, foreign: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(foreign)
    model = AutoModelForSequenceClassification.from_pretrained(foreign).eval()
    text = "A fine 🎉 day in the old harbour."
    with torch.inference_mode():
        logits = model(**tokenizer(normalise(text), return_tensors="pt")).logits[0]
    expected = dict(zip(["neutral", "positive", "negative"], logits.softmax(-1).tolist(), strict=True))
    (answer,) = labels_of(labeller, [text])
    assert answer.probabilities == pytest.approx(expected, abs=1e-5)


def test_answers_keep_the_order_of_rows_and_do_not_hang_on_their_neighbours(
    labeller: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_predictor, "ROWS_AT_A_TIME", 7)
    monkeypatch.setattr(label_predictor, "TOKENS_IN_A_PASS", 40)
    texts = [f"Row {number} " + "and more " * (number * 7 % 23) for number in range(30)]
    together = labels_of(labeller, texts)
    for text, answer in zip(texts, together, strict=True):
        (alone,) = labels_of(labeller, [text])
        assert alone.probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_threads_can_share_a_predictor(labeller: Predictor) -> None:
    texts = [f"Row {number} " + "more " * (number % 13) for number in range(60)]
    alone = [labels_of(labeller, [text])[0].probabilities for text in texts]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: labels_of(labeller, [text])[0], texts))
    for answer, expected in zip(answers, alone, strict=True):
        assert answer.probabilities == pytest.approx(expected, abs=1e-5)


def test_a_row_without_a_field_is_an_error_that_names_it(labeller: Predictor) -> None:
    with pytest.raises(BackendError, match="row 1 has no text in `text`"):
        labeller.predict([{"text": "x"}, {"txt": "x"}])


@pytest.mark.parametrize("lengths", [(10, 10), (100, 3), (3, 100), (100, 100), (40, 30), (31, 60), (30, 31)])
def test_two_texts_that_are_too_long_are_cut_as_transformers_does(tiny_base: Path, lengths: tuple[int, int]) -> None:
    tokenizer = open_tokenizer(tiny_base)
    pair = ("cat " * lengths[0], "dog " * lengths[1])
    expected = tokenizer(*pair, truncation="longest_first", max_length=64)
    (tokens,) = text_encoder(tokenizer, open_network(tiny_base, "qa").network, 64).texts([pair])
    assert (tokens.ids, tokens.type_ids) == (expected["input_ids"], expected["token_type_ids"])


def test_one_text_that_is_too_long_loses_its_end(tiny_base: Path) -> None:
    tokenizer = open_tokenizer(tiny_base)
    text = " ".join(f"word {number}" for number in range(99))
    (tokens,) = text_encoder(tokenizer, open_network(tiny_base, "qa").network, 64).texts([(text,)])
    assert tokens.ids == tokenizer(text, truncation=True, max_length=64)["input_ids"]


def test_two_texts_are_read_as_a_pair(save: Save, make_pack: MakePack) -> None:
    names = {0: "entailment", 1: "neutral", 2: "contradiction"}
    directory = save(AutoModelForSequenceClassification, num_labels=3, id2label=names)
    predictor = open_checkpoint_predictor(str(directory), make_pack("nli").spec)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    row = {"premise": "The lake was frozen.", "hypothesis": "It was cold."}
    with torch.inference_mode():
        logits = model(**tokenizer(row["premise"], row["hypothesis"], return_tensors="pt")).logits[0]
    (answer,) = predictor.predict([row])
    assert isinstance(answer, LabelAnswer)
    expected = dict(zip(names.values(), logits.softmax(-1).tolist(), strict=True))
    assert answer.probabilities == pytest.approx(expected, abs=1e-5)


def test_a_model_with_other_labels_is_refused(save: Save, make_pack: MakePack) -> None:
    directory = save(AutoModelForSequenceClassification, num_labels=3)
    with pytest.raises(ModelError, match="labels are LABEL_0, LABEL_1, LABEL_2, the task's positive"):
        open_checkpoint_predictor(str(directory), make_pack("sentiment").spec)


def test_a_model_that_was_never_trained_for_the_task_is_refused(tiny_base: Path, make_pack: MakePack) -> None:
    with pytest.raises(ModelError, match="was not trained for qa"):
        open_checkpoint_predictor(str(tiny_base), make_pack("qa").spec)


def test_a_model_that_reads_less_than_the_task_wants_is_refused(foreign: Path, make_pack: MakePack) -> None:
    with pytest.raises(ModelError, match=r"reads 128 tokens; lower model\.max_length"):
        open_checkpoint_predictor(str(foreign), make_pack("sentiment", max_length=129).spec)


def test_weights_that_are_not_numbers_are_an_error_not_an_answer(
    foreign: Path, make_pack: MakePack, tmp_path: Path
) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(foreign)
    model.classifier.bias.data.fill_(float("nan"))
    model.save_pretrained(foreign)
    predictor = open_checkpoint_predictor(str(foreign), make_pack("sentiment").spec)
    with pytest.raises(ModelError, match="no numbers"):
        predictor.predict([{"text": "x"}])


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
def test_a_span_is_a_piece_of_the_passage_as_it_was_given(answerer: Predictor, passage: str, question: str) -> None:
    answer = span_of(answerer, passage, question)
    assert 0 <= answer.start < answer.end <= len(passage)
    assert passage[answer.start : answer.end] == answer.text
    assert 0 < answer.confidence <= 1


def test_an_empty_passage_is_an_error_that_says_so(answerer: Predictor) -> None:
    with pytest.raises(BackendError, match="passage is empty"):
        answerer.predict([{"passage": "  ", "question": "Who?"}])


@pytest.fixture
def finder(save: Save, make_pack: MakePack) -> Predictor:
    """A model that always answers with the word Keel: its layers let words through, and its output knows that one."""
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
    return open_checkpoint_predictor(str(directory), make_pack("qa", doc_stride=16).spec)


@pytest.mark.parametrize("before", [0, 1, 20, 49, 50, 51, 52, 90, 400])
@pytest.mark.parametrize("word", ["boat ", "🎉", "Zoe\u0308\u200b  ", "👩\u200d👩\u200d👧 "])
def test_an_answer_is_found_wherever_it_stands(finder: Predictor, before: int, word: str) -> None:
    passage = f"{word * before} Anna Keel painted it. {word * 70}"
    answer = span_of(finder, passage)
    assert (answer.text, answer.start) == ("Keel", passage.index("Keel"))
    assert answer.confidence > 0.9


def test_an_emoji_that_is_the_answer_is_given_whole(finder: Predictor) -> None:
    # Its name has the word in it, so that the span begins inside of what the emoji became.
    assert normalise("🛥️ Keel") == "motor boat Keel"
    assert span_of(finder, "First 🛥️Keel, then more 🛥️.").text == "Keel"


def test_windows_show_the_whole_passage_and_overlap(save: Save, make_pack: MakePack) -> None:
    predictor = open_checkpoint_predictor(str(save(AutoModelForQuestionAnswering)), make_pack("qa", doc_stride=16).spec)
    assert isinstance(predictor, span_predictor.SpanPredictor)
    read = predictor._encoder.windows("Who painted it?", normalise(LONG), 16)
    covered = {window.first + place for window in read.windows for place in range(window.size)}
    assert covered == set(range(len(read.offsets)))
    for before, after in zip(read.windows, read.windows[1:], strict=False):
        assert before.first + before.size - after.first == 16
    assert all(len(window.tokens) <= 64 for window in read.windows)


def test_a_foreign_version_is_named_by_its_weights(labeller: Predictor, foreign: Path, make_pack: MakePack) -> None:
    again = open_checkpoint_predictor(str(foreign), make_pack("sentiment").spec)
    assert labeller.version == again.version
    config = json.loads((foreign / "config.json").read_text())
    model = AutoModelForSequenceClassification.from_pretrained(foreign)
    model.classifier.bias.data += 1
    model.save_pretrained(foreign)
    assert config["id2label"]["0"] == "NEUTRAL"
    assert open_checkpoint_predictor(str(foreign), make_pack("sentiment").spec).version != again.version
