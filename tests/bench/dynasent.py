"""`make bench-gap`: how much worse a model is on text that people wrote to fool one.

TrainingResult on DynaSent's round 1 (sentences found in reviews), measured on rows of round 1 that it never saw and on
round 2 (sentences that people wrote on Dynabench, model in the loop). The data stays where it is; none is shipped.
"""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from ml_backend.evaluation import Metrics, evaluate
from ml_backend.targets.loading import load_target
from ml_backend.training import train
from templates import SeedRow, find_pack
from templates.rows import Split

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
ROUND_1 = DATA / "dynasent-v1.1-round01-yelp-dev.jsonl"
ROUND_2 = DATA / "dynasent-v1.1-round02-dynabench-dev.jsonl"
LABELS = ("positive", "negative", "neutral")
# Of each 100 rows of round 1: rows for the evaluation, and rows to choose the epoch; the rest is for training.
MEASURED, CHOOSING = 20, 8


class Steps:
    """Print a line of progress for each tenth."""

    def start(self, total_steps: int, what: str) -> None:
        """Begin a stage."""
        self._what, self._total, self._done = what, total_steps, 0

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Print a line when another tenth is done."""
        before, self._done = self._done, self._done + steps
        if before * 10 // self._total != self._done * 10 // self._total:
            print(f"{self._what}: {100 * self._done // self._total} %, {note}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """End the stage."""


def rows_of(path: Path) -> Iterator[tuple[int, SeedRow]]:
    """Return the rows with one of the three gold labels, each with a number below 100 that follows from its text."""
    for line in path.read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        if found["gold_label"] in LABELS:
            text = str(found["sentence"])
            place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % 100
            split: Split = "held_out" if place < MEASURED + CHOOSING else "train"
            yield place, SeedRow(found["text_id"], split, {"text": text}, found["gold_label"], None, None, {})


def main() -> None:
    """Print a table, then one JSON object; or report that the data is missing."""
    missing = [path.name for path in (ROUND_1, ROUND_2) if not path.is_file()]
    if missing:
        print(f"skipped: {', '.join(missing)} is not in ../shared/data")
        return
    pack = find_pack("sentiment")
    first = list(rows_of(ROUND_1))
    seen = [row for place, row in first if place >= MEASURED]
    parts = {
        "round 1": [row for place, row in first if place < MEASURED],
        "round 2": [row for _, row in rows_of(ROUND_2)],
    }
    with tempfile.TemporaryDirectory() as folder:
        trained = train(pack, Path(folder), mode="full", rows=seen, progress=Steps())
        predictor = load_target(trained.directory)
        measured: dict[str, Metrics] = {name: evaluate(predictor, rows, pack.spec) for name, rows in parts.items()}
    print(f"trained on {trained.manifest.train.rows} rows of round 1 in {trained.seconds:.0f} s")
    print(f"{'':<10}{'rows':>6}{'accuracy':>10}{'macro F1':>10}")
    for name, metrics in measured.items():
        print(f"{name:<10}{metrics['rows']:>6}{metrics['accuracy']:>10.1f}{metrics['macro_f1']:>10.1f}")
    one, two = (float(metrics["accuracy"]) for metrics in measured.values())
    f1_gap = measured["round 1"]["macro_f1"] - measured["round 2"]["macro_f1"]
    print(f"{'gap':<10}{'':>6}{one - two:>10.1f}{f1_gap:>10.1f}")
    figures = {"round1_accuracy": round(one, 2), "round2_accuracy": round(two, 2), "gap_points": round(one - two, 2)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
