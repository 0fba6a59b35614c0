"""A tiny network with random weights, and small tasks that it can learn in a second."""

import dataclasses
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

# Before the libraries that read it are imported: nothing here may reach for the network.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import BertConfig, BertModel

from ml_backend.checkpoint import embedded_encoder
from ml_backend.training import parity, train
from templates import Pack, SeedRow, find_pack
from templates.rows import Split
from templates.spec import TrainingSettings

MakePack = Callable[..., Pack]
# The folders of trained versions by task and precision.
Versions = dict[tuple[str, str], Path]


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two small layers with the embedded encoder's tokenizer."""
    directory = tmp_path_factory.mktemp("bases") / "tiny"
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        made: Any = BertModel
        made(config).save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(embedded_encoder() / name, directory / name)
    return directory


@pytest.fixture(scope="session")
def make_pack(tiny_base: Path) -> MakePack:
    """Makes a built-in pack over another base model, the tiny one by default."""

    def make_pack(name: str, base: Path | str = tiny_base, **model: Any) -> Pack:
        pack = find_pack(name)
        settings = pack.spec.model.model_copy(update={"base": str(base), "max_length": 64, **model})
        return dataclasses.replace(pack, spec=pack.spec.model_copy(update={"model": settings}))

    return make_pack


def label_row(number: int, label: str, split: Split = "train", **fields: str) -> SeedRow:
    return SeedRow(f"row-{number}", split, fields, label, None, None, {})


def sentiment_rows(each: int, held_out: int = 4) -> list[SeedRow]:
    """Rows whose label hangs on one word."""
    words = {"positive": "lovely", "negative": "awful", "neutral": "weekday"}
    places = ("cafe", "train", "hotel", "park", "museum", "shop", "school", "river")
    rows: list[SeedRow] = []
    for label, word in words.items():
        for number in range(each + held_out):
            text = f"A {word} {places[number % len(places)]}, visit {number}."
            split: Split = "train" if number < each else "held_out"
            rows.append(label_row(len(rows), label, split, text=text))
    return rows


def nli_rows(each: int, held_out: int = 4) -> list[SeedRow]:
    said = {"entailment": "It was cold.", "contradiction": "It was hot.", "neutral": "It was Monday."}
    rows: list[SeedRow] = []
    for label, hypothesis in said.items():
        for number in range(each + held_out):
            split: Split = "train" if number < each else "held_out"
            premise = f"On day {number} the lake was frozen."
            rows.append(label_row(len(rows), label, split, premise=premise, hypothesis=hypothesis))
    return rows


def qa_rows(count: int, held_out: int = 4, *, before: str = "") -> list[SeedRow]:
    rows = []
    for number in range(count + held_out):
        passage = f"{before}The old ferry of harbour {number} was built by Anna Keel {number} and painted green."
        answer = f"Anna Keel {number}"
        split: Split = "train" if number < count else "held_out"
        fields = {"passage": passage, "question": f"Who built the ferry of harbour {number}?"}
        rows.append(SeedRow(f"row-{number}", split, fields, None, answer, passage.index(answer), {}))
    return rows


def quick(**changed: Any) -> TrainingSettings:
    """Settings with which the tiny network learns the rows above."""
    return TrainingSettings(**{"epochs": 3, "learning_rate": 0.01, "batch_size": 8, "patience": 5, **changed})


class ProgressLog:
    """A Progress that records its calls."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.totals: list[int] = []
        self.steps = 0
        self.finished = 0

    def start(self, total_steps: int, what: str) -> None:
        self.stages.append(what)
        self.totals.append(total_steps)

    def advance(self, steps: int = 1, note: str = "") -> None:
        self.steps += steps

    def finish(self) -> None:
        self.finished += 1


def visible(models: Path) -> Sequence[str]:
    """The folders below the models' folder that look like versions."""
    return sorted(path.name for path in models.glob("*/*") if not path.name.startswith(".") and path.is_dir())


EXPORT_ROWS = {
    "sentiment": sentiment_rows(12),
    "nli": nli_rows(12),
    "qa": qa_rows(12, before="Boats came in summer. " * 30),
}


@pytest.fixture(scope="session")
def versions(make_pack: MakePack, tmp_path_factory: pytest.TempPathFactory) -> Versions:
    """A trained version of each task in int8 and in fp32, whatever their agreement with PyTorch."""
    found = {}
    root = tmp_path_factory.mktemp("versions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parity, "MAX_LOSS", 100.0)
        for precision, least in (("int8", 0.0), ("fp32", 101.0)):
            patch.setattr(parity, "MIN_AGREEMENT", {"int8": least, "fp32": 99.9})
            for task, rows in EXPORT_ROWS.items():
                made = train(make_pack(task, doc_stride=16), root, mode="head", rows=rows, settings=quick())
                assert made.manifest.serving is not None
                assert (made.manifest.serving.runtime, made.manifest.serving.precision) == ("onnx", precision)
                found[task, precision] = made.directory
    return found
