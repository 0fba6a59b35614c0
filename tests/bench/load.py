"""`make bench-load`: how many workers the pages hold.

Workers open pages over real HTTP, ask the model three times, submit and finish, against `outfox serve` and
`outfox ml-backend` on SQLite and then on PostgreSQL. Each number of workers works first without a pause and then with a
think time before each step. A 503 that succeeds on retry counts as retried, not as an error. Lost are examples that
were acknowledged and are not stored. The last line is one JSON object: `rps` is over all stages without a think time.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from plugin.cli.output import console, table
from tests.bench.databases import KINDS, empty_database
from tests.bench.loading.generator import LoadResult, run_stage
from tests.bench.loading.site import load_site

WORKERS = (20, 100, 300, 1_000)
THINK_SECONDS = 20.0
# Stages without a pause need less time: each worker makes many requests.
SECONDS, THINK_STAGE_SECONDS = 25.0, 60.0
LEAST_RPS, MOST_P95_MS = 120.0, 500.0
COLUMNS = (
    "database",
    "workers",
    "think",
    "requests",
    "req/s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "CPU ms",
    "retried",
    "errors",
)


def measure(kind: str, folder: Path, chosen: argparse.Namespace) -> tuple[list[LoadResult], int]:
    """Return the results of every stage on one kind of database, and how many examples were lost."""
    home = folder / kind
    with empty_database(kind, home) as url, load_site(home, url, chosen.processes) as site:
        stages = [(count, think) for think in (0.0, chosen.think) for count in chosen.workers]
        found = []
        for count, think in stages:
            seconds = chosen.think_seconds if think else chosen.seconds
            found.append(run_stage(site, count, think, seconds))
            print(
                f"{kind}: {count} workers, think time {think:.0f} s: {found[-1].rate:.0f} requests/s", file=sys.stderr
            )
        acknowledged = sum(one.acknowledged for one in found)
        # A submission that is stored and whose answer was lost is not acknowledged: more may be stored, never fewer.
        return found, max(0, acknowledged - site.examples())


def _row(kind: str, one: LoadResult) -> tuple[str, ...]:
    figures = [f"{one.percentile(percent):,.0f}" for percent in (50, 95, 99)]
    counts = (str(one.retried), str(one.errors.total()))
    head = (kind, f"{one.workers:,}", f"{one.think:.0f} s", f"{len(one.times):,}", f"{one.rate:.1f}")
    return (*head, *figures, f"{one.cpu_ms:.1f}", *counts)


def main() -> int:
    """Run the benchmark; return exit code 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS))
    parser.add_argument("--databases", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a stage without think time")
    parser.add_argument("--think", type=float, default=THINK_SECONDS)
    parser.add_argument("--think-seconds", type=float, default=THINK_STAGE_SECONDS, help="of a stage with think time")
    parser.add_argument("--processes", type=int, help="of `outfox serve`; default: its own")
    chosen = parser.parse_args()
    began, found, lost = time.monotonic(), dict[str, list[LoadResult]](), 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in chosen.databases:
            found[kind], missing = measure(kind, Path(folder), chosen)
            lost += missing
    stages = [(kind, one) for kind, results in found.items() for one in results]
    console().print(table(COLUMNS, [_row(kind, one) for kind, one in stages]))
    for kind, one in stages:
        for what, count in one.errors.most_common(3):
            print(f"{kind}, {one.workers} workers: {count} times: {what}", file=sys.stderr)
    busy = {kind: [one for one in results if not one.think] for kind, results in found.items()}
    rps = {
        kind: round(sum(len(one.times) for one in some) / sum(one.seconds for one in some), 1)
        for kind, some in busy.items()
    }
    most = max(chosen.workers)
    p95 = max(one.percentile(95) for _, one in stages if one.think and one.workers == most)
    requests = sum(len(one.times) for _, one in stages)
    summary = {
        "rps": rps,
        "think_1000_p95_ms": round(p95),
        "errors": sum(one.errors.total() for _, one in stages),
        "retried": sum(one.retried for _, one in stages),
        "lost": lost,
        "cpu_ms_per_request": round(1_000 * sum(one.cpu_seconds for _, one in stages) / max(1, requests), 2),
    }
    print(f"it took {(time.monotonic() - began) / 60:.1f} minutes", file=sys.stderr)
    print(json.dumps(summary))
    met = min(rps.values()) >= LEAST_RPS and p95 < MOST_P95_MS and not summary["errors"] and not lost
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
