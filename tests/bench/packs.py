"""`make bench-packs`: every pack's base model, trained from its own seed data; writes each pack's MODEL_CARD.md.

With `--models`, the models are kept; `make bench-serve` can serve them.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from ml_backend.training import train
from plugin.cli.output import console, table
from plugin.cli.progress import ProgressBar
from templates import BUILT_IN, load_pack

# The goals of the packs: the measure, its minimum, and the maximum seconds of training on two cores.
PROMISES = {
    "sentiment": ("accuracy", 82.0),
    "hate_speech": ("accuracy", 82.0),
    "nli": ("accuracy", 55.0),
    "qa": ("f1", 25.0),
}
MOST_SECONDS = 240


def main() -> int:
    """Train the given packs, or all; return exit code 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", nargs="*", default=list(PROMISES), help="default: all")
    parser.add_argument("--models", type=Path, help="a folder in which the models are kept")
    given = parser.parse_args()
    rows, figures, kept = [], {}, True
    for name in given.packs:
        measure, least = PROMISES[name]
        folder = BUILT_IN / name
        with tempfile.TemporaryDirectory() as temporary, ProgressBar() as progress:
            trained = train(load_pack(folder), given.models or Path(temporary), progress=progress)
            shutil.copyfile(trained.directory / "README.md", folder / "MODEL_CARD.md")
        reached = trained.metrics[measure]
        good = reached >= least and trained.seconds <= MOST_SECONDS
        kept = kept and good
        serving = trained.manifest.serving
        form = f"{serving.precision}, {serving.fp32_products} in fp32" if serving else ""
        agreement = serving.agreement if serving else 100.0
        seconds = f"{trained.seconds:.0f}"
        rows.append((name, measure, f"{reached:.1f}", least, seconds, form, agreement, "yes" if good else "NO"))
        figures[name] = {measure: round(reached, 1), "seconds": round(trained.seconds)}
    console().print(table(("pack", "measure", "held out", "promised", "seconds", "served", "agreement", "kept"), rows))
    print(json.dumps(figures))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
