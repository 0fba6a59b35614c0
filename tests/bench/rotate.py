"""`make bench-rotate`: models replaced under load, by the real command, behind the real server.

Two serving processes, 16 clients that ask without a pause, 100 rotations between two models that answer differently.
Every answer is compared with what its version says, and every answer to what was asked after a rotation had returned
with the version that was then to answer. The last line is one JSON object.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from ml_backend.targets.loading import load_target
from ml_backend.training import train
from plugin.cli.output import console
from plugin.cli.progress import ProgressBar
from templates import Pack, find_pack
from tests.bench.rotation import Clients, questions_about, rotate_under_load, servers

TASK = "sentiment"
ROWS = 240
TEXTS = 60
MOST_P99_RATIO = 3.0


def two_models(pack: Pack, models: Path) -> list[str]:
    """Return two versions; the second was trained on shifted labels, so that they rarely agree."""
    names = pack.spec.label_names
    neighbours = dict(zip(names, (*names[1:], names[0]), strict=True))
    rows = pack.seed[:ROWS]
    swapped = [dataclasses.replace(row, label=neighbours[str(row.label)]) for row in rows]
    with ProgressBar() as progress:
        return [
            train(pack, models, mode="head", rows=taught, progress=progress).manifest.version
            for taught in (rows, swapped)
        ]


def outfox(home: Path, *arguments: str) -> list[str]:
    """Run the command in a separate home."""
    return [str(Path(sys.executable).parent / "outfox"), "--home", str(home), *arguments]


def main() -> int:
    """Return exit code 1 if something failed or the slowest requests took too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rotations", type=int, default=100)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quiet-seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    pack = find_pack(TASK)
    with tempfile.TemporaryDirectory() as folder, ProgressBar() as progress:
        home = Path(folder)
        versions = two_models(pack, home / "models")
        texts = [row.fields["text"] for row in pack.seed[-TEXTS:]]
        predictors = [load_target(home / "models" / TASK / version) for version in versions]
        questions = questions_about(pack, texts, predictors)

        def rotate(version: str) -> None:
            command = outfox(home, "model", "rotate", TASK, version, "--json")
            subprocess.run(command, check=True, capture_output=True)

        rotate(versions[0])
        with servers(outfox(home, "ml-backend", "--port", "0", "--tasks", TASK), chosen.processes) as ports:
            clients = Clients(ports, f"/tasks/{TASK}/predict", questions, chosen.concurrency)
            progress.start(chosen.rotations, "Rotations under load")
            report = rotate_under_load(
                clients,
                versions,
                rotate,
                rotations=chosen.rotations,
                quiet_seconds=chosen.quiet_seconds,
                tell=lambda _: progress.advance(1),
            )
            progress.finish()
    for line in report.lines():
        console().print(line)
    summary = report.summary()
    print(json.dumps(summary))
    wrong = summary["failed"] + summary["mismatched"] + summary["stale"]
    return 0 if not wrong and summary["p99_ratio"] <= MOST_P99_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
