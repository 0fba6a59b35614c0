"""`make bench-train`: our fine-tuning against a bare PyTorch loop, and what head mode costs.

Same rows, same model, same batch size, same padding policy, no held-out measuring in either. The two take turns, so
that what else the machine does hits both alike; the ratio is the median of the turns' ratios.
"""

import dataclasses
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ml_backend.checkpoint import open_checkpoint
from ml_backend.evaluation import Metrics
from ml_backend.targets.torch_runtime import open_network, open_tokenizer, quiet, text_encoder
from ml_backend.text import normalise
from ml_backend.training import train
from ml_backend.training.data import TrainingData
from ml_backend.training.examples import LabelExamples
from ml_backend.training.fine_tuning import BATCHES_PER_POOL, fine_tune
from ml_backend.training.run import reproducible
from ml_backend.training.start import ProgressMonitor
from templates import Pack, find_pack

TURNS = 7
# Short turns, so that other load on the machine changes little within a pair.
ROWS = 320
BATCH_SIZE = 32
MAX_LENGTH = 64
RATE = 2e-4


def ours(pack: Pack, directory: Path, data: TrainingData) -> float:
    """Seconds of one epoch of our loop, from rows to trained weights."""
    settings = pack.spec.training.model_copy(update={"epochs": 1, "batch_size": BATCH_SIZE, "learning_rate": RATE})
    network = open_network(directory, "classification", pack.spec.label_names).network
    tokenizer = open_tokenizer(directory)

    def no_measuring() -> Metrics:
        return {"macro_f1": 0.0}

    started = time.perf_counter()
    with reproducible(settings.seed, settings.threads):
        encoder = text_encoder(tokenizer, network, MAX_LENGTH)
        examples = LabelExamples.of(data, encoder, class_weights=True)
        fine_tune(network, examples, settings, no_measuring, ProgressMonitor(None, None))
    return time.perf_counter() - started


def bare(pack: Pack, directory: Path, data: TrainingData) -> float:
    """Seconds of one epoch of the shortest loop that trains the same: no schedule, no clipping, no class weights."""
    names = pack.spec.label_names
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(
            directory, num_labels=len(names), dtype=torch.float32
        )
        tokenizer = AutoTokenizer.from_pretrained(directory)
    model.eval()
    started = time.perf_counter()
    encoded = tokenizer(
        [normalise(row.fields["text"]) for row in data.train], truncation=True, max_length=MAX_LENGTH, padding=False
    )["input_ids"]
    labels = torch.tensor([names.index(str(row.label)) for row in data.train])
    model.get_input_embeddings().weight.requires_grad_(False)
    optimiser = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=RATE, fused=True)
    order = list(range(len(encoded)))
    random.Random(0).shuffle(order)
    batches = []
    for first in range(0, len(order), BATCH_SIZE * BATCHES_PER_POOL):
        pool = sorted(order[first : first + BATCH_SIZE * BATCHES_PER_POOL], key=lambda place: len(encoded[place]))
        batches += [pool[start : start + BATCH_SIZE] for start in range(0, len(pool), BATCH_SIZE)]
    random.Random(1).shuffle(batches)
    for batch in batches:
        rows = [torch.tensor(encoded[place]) for place in batch]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        logits = model(input_ids=ids, attention_mask=mask).logits
        loss = torch.nn.functional.cross_entropy(logits, labels[batch])
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    return time.perf_counter() - started


def head_seconds_per_1000(pack: Pack) -> float:
    """Seconds of a whole head training with an empty cache, from rows to stored model, for each 1,000 rows."""
    with tempfile.TemporaryDirectory() as folder:
        trained = train(pack, Path(folder), mode="head")
    return 1000 * trained.seconds / len(pack.seed)


def main() -> None:
    """Print a table, then one JSON object."""
    pack = find_pack("sentiment")
    whole = TrainingData.of(pack.seed, pack.spec)
    data = dataclasses.replace(whole, train=whole.train[:: len(whole.train) // ROWS][:ROWS])
    directory = open_checkpoint("embedded").directory
    loops: dict[str, Callable[[Pack, Path, TrainingData], float]] = {"ours": ours, "bare": bare}
    for loop in loops.values():
        loop(pack, directory, data)
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(TURNS):
        for name in sorted(loops, reverse=bool(turn % 2)):
            seconds[name].append(loops[name](pack, directory, data))
    ratios = [mine / theirs for mine, theirs in zip(seconds["ours"], seconds["bare"], strict=True)]
    steps = -(-len(data.train) // BATCH_SIZE)
    head = head_seconds_per_1000(pack)
    print(f"{len(data.train)} rows, {steps} steps of {BATCH_SIZE}, {TURNS} turns, {torch.get_num_threads()} threads")
    print(f"{'loop':<6}{'rows/s':>10}{'ms/step':>10}")
    for name, times in seconds.items():
        middle = statistics.median(times)
        print(f"{name:<6}{len(data.train) / middle:>10.1f}{1000 * middle / steps:>10.1f}")
    print(f"ours / bare, by turn: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(f"head mode, nothing cached: {head:.1f} s for 1,000 rows")
    print(json.dumps({"vs_bare_loop": round(statistics.median(ratios), 3), "head_seconds_per_1000": round(head, 2)}))


if __name__ == "__main__":
    main()
