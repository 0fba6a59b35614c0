"""`make bench-evaluate`: ten models on five rounds of 2,000 held-out rows.

The performance axis of each model is timed against a bare loop that loads the model, tokenises and answers the same
rows in batches of the same length; the two take turns, model by model, with one thread. Then the command runs again in
a process of its own, with everything in the cache. Two further processes evaluate one model on 2,000 and on ten times
as many rows, and report their peak memory. At last, a Ray cluster with one and one with two single-threaded workers
carry out the whole evaluation, unless `--without-workers` is given. The last line is one JSON object.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
# One thread: sums of time can be compared while the machine is busy, and workers share the processors.
os.environ["OMP_NUM_THREADS"] = os.environ["TOKENIZERS_PARALLELISM"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForSequenceClassification

import outfox
from ml_backend.checkpoint import embedded_encoder
from ml_backend.encoding import by_length
from ml_backend.targets.footprint import own_peak_bytes
from plugin.cli.output import console, table
from round_manager.evaluation.candidates import CandidateFinder
from round_manager.evaluation.data_sets import DataSets, recorded_spec
from round_manager.services.evaluations import EvaluationOrder, evaluate_models
from tests.bench.ray_workers import compare_workers

TASK, LABELS = "sentiment", ("negative", "neutral", "positive")
MODELS, ROUNDS, ROWS, LARGER = 10, 5, 2_000, 10
HIDDEN, LAYERS, HEADS = 192, 3, 3
ROWS_PER_BATCH, ROWS_SORTED = 64, 512
MOST_VS_BARE, MOST_CACHED, LEAST_TWO_WORKERS = 1.2, 2.0, 1.5
TEXT = (
    "the a this every some waiter kitchen room service evening music table window price menu staff was seemed felt "
    "became slow quick bright loud warm cold friendly careless ordinary splendid and but although because so we they "
    "nobody came stayed left waited asked again later twice without with near garden station harbour market"
)
WORDS = TEXT.split()


def make_rounds(place: Path, rounds: int, rows: int) -> None:
    """Write frozen rounds of held-out rows of 5 to 40 words."""
    draw = random.Random(7)
    frame = pd.DataFrame(
        {
            "id": f"r{number}-{row}",
            "round": number,
            "split": "held_out",
            "text": " ".join(draw.choices(WORDS, k=draw.randint(5, 40))) + f" {number} {row}.",
            "label": draw.choice(LABELS),
        }
        for number in range(1, rounds + 1)
        for row in range(rows)
    )
    for number, part in frame.groupby("round"):
        file = place.with_name(f"{place.name}-{number}.parquet")
        part.drop(columns="round").to_parquet(file)
        outfox.import_rounds(
            file, TASK, form="parquet", source="generated", licence="CC0-1.0", to=place, rounds=int(str(number)),
            labels=LABELS, inputs=["text"],
        )  # fmt: skip


def make_models(folder: Path, count: int) -> list[Path]:
    """Save models of three layers with random weights, as other teams save theirs."""
    config = BertConfig(
        vocab_size=30_522, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=4 * HIDDEN, max_position_embeddings=128, initializer_range=0.2, num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)), label2id={label: place for place, label in enumerate(LABELS)},
    )  # fmt: skip
    network: Any = BertForSequenceClassification
    found = []
    for number in range(count):
        torch.manual_seed(number)
        found.append(folder / f"model-{number}")
        network(config).save_pretrained(found[-1])
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(embedded_encoder() / name, found[-1] / name)
    return found


@dataclass(frozen=True)
class Setting:
    """Where the archives and unfinished answers are."""

    place: Path
    cache: Path

    def order(self, models: list[Path]) -> EvaluationOrder:
        """Return the evaluation of these models on all rounds."""
        spec = recorded_spec(str(self.place), TASK)
        found = CandidateFinder(spec).find([str(one) for one in models])
        data = DataSets(spec, str(self.place)).choose(["rounds"])
        return EvaluationOrder(TASK, found, data, ("performance",), str(self.place), self.cache)


def ours(setting: Setting, model: Path) -> None:
    """Evaluate the model on all rounds, as `outfox evaluate` does."""
    evaluate_models(setting.order([model]))


def bare(model: Path, rounds: list[list[str]]) -> float:
    """Answer all rows in batches, without anything else; return the seconds, with those of loading the model."""
    began = time.perf_counter()
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    opened: Any = AutoModelForSequenceClassification
    network = opened.from_pretrained(model).eval()
    with torch.inference_mode():
        for texts in rounds:
            for first in range(0, len(texts), ROWS_SORTED):
                held = texts[first : first + ROWS_SORTED]
                tokens = tokenizer(held, truncation=True, max_length=128)["input_ids"]
                for batch in by_length([len(one) for one in tokens], ROWS_PER_BATCH, 4_096):
                    padded = tokenizer.pad({"input_ids": [tokens[place] for place in batch]}, return_tensors="pt")
                    network(**padded).logits.argmax(-1).tolist()
    return time.perf_counter() - began


def timed(action: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds and the processor seconds of an action."""
    began, used = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - began, time.process_time() - used


def compare(setting: Setting, models: list[Path]) -> tuple[list[list[str]], float]:
    """Time every model both ways, taking turns; return the rows of a table and the ratio of all."""
    rounds = [[row.fields["text"] for row in one.read()] for one in setting.order(models[:1]).data]
    sums = {"ours": 0.0, "bare": 0.0, "ours_cpu": 0.0, "bare_cpu": 0.0}
    rows = []
    for number, model in enumerate(models):
        actions: dict[str, Callable[[], Any]] = {
            "ours": partial(ours, setting, model),
            "bare": partial(bare, model, rounds),
        }
        found = {name: timed(actions[name]) for name in (actions if number % 2 else reversed(actions))}
        for name, (seconds, cpu) in found.items():
            sums[name] += seconds
            sums[f"{name}_cpu"] += cpu
        ratio = found["ours"][0] / found["bare"][0]
        cpu_ratio = found["ours"][1] / found["bare"][1]
        rows.append([model.name, *(f"{found[name][0]:.1f}" for name in actions), f"{ratio:.2f}", f"{cpu_ratio:.2f}"])
    total = [sums["ours"] / sums["bare"], sums["ours_cpu"] / sums["bare_cpu"]]
    rows.append(["all", f"{sums['ours']:.1f}", f"{sums['bare']:.1f}", f"{total[0]:.2f}", f"{total[1]:.2f}"])
    return rows, total[0]


def cached_seconds(setting: Setting, models: list[Path], home: Path) -> tuple[float, float]:
    """Return the seconds of the command with everything in the cache, and those of it in a running process."""
    program = "from plugin.cli import main; main()"
    command = [sys.executable, "-c", program, "--home", str(home), "evaluate", TASK, *map(str, models)]
    environment = {**os.environ, "OUTFOX_ARCHIVES": str(setting.place)}
    options = ["--on", "rounds", "--axes", "performance", "--json"]
    found = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run([*command, *options], env=environment, capture_output=True, check=True)
        found.append(time.perf_counter() - began)
        assert len(json.loads(done.stdout)["results"]) > len(models) * ROUNDS
    here, _ = timed(lambda: evaluate_models(setting.order(models)))
    return min(found), here


def peak_of_child(setting: Setting, model: Path) -> float:
    """Return the peak MiB of a fresh process that evaluates one model."""
    command = [sys.executable, __file__, "--child", str(setting.place), str(setting.cache), str(model)]
    return float(subprocess.run(command, capture_output=True, check=True).stdout.splitlines()[-1])


def main() -> None:
    """Run everything and print a table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--without-workers", action="store_true")
    parser.add_argument("--child", nargs=3, metavar=("PLACE", "CACHE", "MODEL"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.child:
        place, cache, model = map(Path, given.child)
        evaluate_models(Setting(place, cache).order([model]))
        print(own_peak_bytes() / (1 << 20))
        return
    with tempfile.TemporaryDirectory(prefix="outfox-bench-") as name:
        folder = Path(name)
        make_rounds(folder / "archives", ROUNDS, given.rows)
        for times, size in ((1, "few"), (LARGER, "many")):
            make_rounds(folder / size, 1, given.rows * times)
        models = make_models(folder, given.models)
        setting = Setting(folder / "archives", folder / "cache")
        rows, ratio = compare(setting, models)
        console().print(table(("model", "ours s", "bare s", "ratio", "ratio of CPU"), rows))
        own = own_peak_bytes() / (1 << 20)
        cached, here = cached_seconds(setting, models, folder / "home")
        print(f"from the cache: {cached:.2f} s as a command, {here:.2f} s in a running process", flush=True)
        two = None if given.without_workers else compare_workers(setting.order(models), folder / "workers", print)
        few, many = (peak_of_child(replace(setting, place=folder / one), models[0]) for one in ("few", "many"))
    print(f"peak memory: {few:.0f} MiB for {given.rows:,} rows, {many:.0f} MiB for {given.rows * LARGER:,} rows")
    print(
        f"goals: {MOST_VS_BARE} x the bare passes, {MOST_CACHED} s from the cache, {LEAST_TWO_WORKERS} x with two "
        f"workers on two idle processors; this process: {own:.0f} MiB"
    )
    last = {"vs_bare": round(ratio, 3), "cached_s": round(cached, 2), "rss_mb": round(many)}
    print(json.dumps({**last, "two_workers": two and round(two, 2)}))


if __name__ == "__main__":
    main()
