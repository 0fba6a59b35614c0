"""`make bench-rounds`: large rounds frozen, loaded and looked at.

What people look at is asked of an open round with 1,000,000 examples on 100,000 contexts and of one with 10,000 on
1,000: what the owner sees, and a worker's pages over HTTP. Then the large round, with three votes on each example, is
closed, split and frozen by a separate process whose memory is measured, and compared with a round a tenth as large,
which may need little less; freezing is timed from the first row that is read to the archive in its place, and splitting
(with the search for duplicates) separately. `--tries` adds questions to the model that are frozen too. The archive's
examples are loaded by `outfox.load` and by bare pandas, taking turns. The last line is one JSON object.
"""

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pandas as pd

import outfox
from common.clock import SystemClock
from plugin.cli import run
from plugin.cli.output import console, table
from plugin.cli.progress import ProgressBar
from round_manager.archive.storage import open_archives
from round_manager.database.store import open_store
from round_manager.models import Round, Task
from round_manager.services.archives import freeze_round, split_round
from round_manager.services.context import Actor, ServiceContext
from tests.bench.big_round import close_round, fill_round
from tests.bench.round_pages import page_times

TASK = "sentiment"
EXAMPLES, VOTES, SMALL = 1_000_000, 3, 10_000
COLUMNS = ["id", "text", "label", "gold_label", "status", "split", "fooled", "confidence", "author", "submitted_at"]
TURNS = 5
MOST_LOAD, LEAST_FREEZE, MOST_STATUS, MOST_MEMORY = 1.3, 50_000, 2.0, 1.25
# With --json, so that formatting takes no time.
LOOKS = (("status",), ("task", "list"), ("round", "list", TASK), ("round", "show", TASK))


def made(home: Path, examples: int, tries: int) -> Path:
    """Return a home whose database has an open round of the given size."""
    home.mkdir()
    fill_round(home / "outfox.db", examples, VOTES, tries)
    return home


def freeze_here(home: Path) -> None:
    """Split and freeze the round of a home in this process, and print time and memory."""
    close_round(home / "outfox.db")
    with open_store(f"sqlite:///{home / 'outfox.db'}") as store:
        context, actor = ServiceContext(store, SystemClock()), Actor("bench")
        with store.read() as session:
            task = session.get_one(Task, session.get_one(Round, 1).task_id).name
        begun = time.perf_counter()
        split_round(context, actor, 1)
        split = time.perf_counter()
        frozen = freeze_round(context, actor, task, open_archives(str(home / "archives")), reason="bench")
        ended = time.perf_counter()
    told = {"rows": frozen.rows["examples"], "split": split - begun, "freeze": ended - split, "rss_mb": most_memory()}
    print(json.dumps(told))


def most_memory() -> float:
    """Return the peak memory of this process in megabytes; getrusage may report that of its parent."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def frozen_by_another(home: Path) -> dict[str, float]:
    """Do the same in a separate process."""
    command = [sys.executable, __file__, "--freeze", str(home)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def seconds(do: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun


def load_ratio(home: Path) -> tuple[float, float, float]:
    """Return the seconds of `outfox.load` and of pandas alone, and the median of their ratios."""
    file = home / "archives" / TASK / "round-1" / "examples.parquet"
    ours, bare = [], []
    for _ in range(TURNS + 1):
        bare.append(seconds(lambda: pd.read_parquet(file, columns=COLUMNS)))
        ours.append(seconds(lambda: outfox.load(TASK, path=home / "archives", columns=COLUMNS)))
    # The first turn fills the system's file cache.
    ratios = [one / other for one, other in zip(ours[1:], bare[1:], strict=True)]
    return statistics.median(ours[1:]), statistics.median(bare[1:]), statistics.median(ratios)


def looked_at(home: Path, look: tuple[str, ...]) -> float:
    """Return the median seconds of one status query."""

    def ask() -> None:
        with redirect_stdout(StringIO()):
            code = run(["--home", str(home), *look, "--json"])
        if code:
            raise SystemExit(f"outfox {' '.join(look)} ended with {code}")

    ask()
    return statistics.median(seconds(ask) for _ in range(TURNS))


def main() -> int:
    """Run the benchmark; return exit code 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--tries", type=int, default=0, help="questions to the model for each example")
    parser.add_argument("--freeze", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    # Every page that is opened would say so.
    logging.disable(logging.INFO)
    if chosen.freeze:
        freeze_here(chosen.freeze)
        return 0
    with tempfile.TemporaryDirectory() as folder, ProgressBar() as progress:
        sizes = {"small": SMALL, "tenth": chosen.examples // 10, "large": chosen.examples}
        progress.start(len(sizes), f"rounds of {', '.join(f'{size:,}' for size in sizes.values())} examples")
        homes = {}
        for name, size in sizes.items():
            homes[name] = made(Path(folder) / name, size, chosen.tries)
            progress.advance()
        progress.finish()
        looks = {
            f"outfox {' '.join(look)}": (looked_at(homes["small"], look), looked_at(homes["large"], look))
            for look in LOOKS
        }
        few, many = (page_times(homes[size] / "outfox.db") for size in ("small", "large"))
        looks |= {f"a worker: {name}": (few[name], many[name]) for name in few}
        large, tenth = frozen_by_another(homes["large"]), frozen_by_another(homes["tenth"])
        ours, bare, ratio = load_ratio(homes["large"])
    rows = [
        (f"{one['rows']:,.0f}", round(one["split"], 1), round(one["freeze"], 1), round(one["rss_mb"]))
        for one in (tenth, large)
    ]
    console().print(table(("examples", "split s", "freeze s", "MB"), rows))
    grown, both = large["rss_mb"] / tenth["rss_mb"], large["rows"] / (large["split"] + large["freeze"])
    console().print(f"memory {grown:.2f} times a tenth's; split and frozen together {both:,.0f} examples/s")
    console().print(f"outfox.load {ours:.2f} s, pandas.read_parquet {bare:.2f} s, {len(COLUMNS)} columns")
    asked = [
        (name, f"{small * 1000:.1f}", f"{large_one * 1000:.1f}", f"{large_one / small:.2f}")
        for name, (small, large_one) in looks.items()
    ]
    console().print(table(("look", f"{SMALL:,}: ms", f"{chosen.examples:,}: ms", "ratio"), asked))
    figures = {
        "load_vs_parquet": round(ratio, 3),
        "freeze_rows_per_s": round(large["rows"] / large["freeze"]),
        "freeze_rss_mb": round(large["rss_mb"]),
        "status_1m_vs_10k": round(max(second / first for first, second in looks.values()), 2),
    }
    print(json.dumps(figures))
    kept = (
        ratio <= MOST_LOAD,
        figures["freeze_rows_per_s"] >= LEAST_FREEZE,
        figures["status_1m_vs_10k"] <= MOST_STATUS,
        large["rss_mb"] <= MOST_MEMORY * tenth["rss_mb"],
    )
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
