"""Tiny models as other teams save them: a Hugging Face folder, and an ONNX file with its tokenizer."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import torch
from transformers import BertConfig, BertForQuestionAnswering, BertForSequenceClassification

from ml_backend.checkpoint import embedded_encoder
from ml_backend.targets.torch_runtime import open_tokenizer, text_encoder
from ml_backend.training.parity import export_fp32

SENTIMENT = ("negative", "neutral", "positive")


def save_huggingface(directory: Path, labels: Sequence[str] = SENTIMENT, *, seed: int = 3, qa: bool = False) -> Path:
    """Save a BERT of one small layer with random weights and these labels."""
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    if not qa:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: place for place, label in enumerate(labels)}
        config.num_labels = len(labels)
    made: Any = BertForQuestionAnswering if qa else BertForSequenceClassification
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made(config).save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(embedded_encoder() / name, directory / name)
    return directory


def save_onnx(directory: Path, labels: Sequence[str] = SENTIMENT) -> Path:
    """Export such a model to ONNX, without the padding id that our own exports name."""
    saved = save_huggingface(directory.with_name(f"{directory.name}-source"), labels)
    directory.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copyfile(saved / name, directory / name)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "pad_token_id": 0}))
    network: Any = BertForSequenceClassification
    encoder = text_encoder(open_tokenizer(saved), network.from_pretrained(saved), 64)
    export_fp32(network.from_pretrained(saved).eval(), encoder, "classification", directory / "model.onnx")
    model = onnx.load_model(directory / "model.onnx")
    del model.metadata_props[:]
    onnx.save_model(model, directory / "model.onnx")
    return directory
