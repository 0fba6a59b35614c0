"""`make bench-crash`: money under SIGKILL.

Two managers post HITs, approve them and pay bonuses and top-ups on a separate `outfox marketplace`, round after round,
and are killed at random moments, one or both, through proxies that throttle, fail after the effect and drop
answers, with events that come twice and clocks that jump by up to an hour. It runs on SQLite and on PostgreSQL, with
half of the kills each. In the end the marketplace must have every HIT, approval, bonus and top-up exactly once, and
the ledger must agree to the cent. The last line is one JSON object.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugin.cli.output import console, table
from plugin.cli.progress import ProgressBar
from tests.bench.crashing.chaos import Survived, survive
from tests.bench.databases import KINDS, empty_database

# Problems that are listed by name; there should be none.
MOST_LISTED = 20


def measure(kind: str, kills: int, seed: int, folder: Path) -> Survived:
    """Run the benchmark on one kind of database."""
    folder.mkdir(parents=True)
    with ProgressBar() as progress, empty_database(kind, folder) as url:
        progress.start(kills, f"killing on {kind} (seed {seed})")
        done = 0

        def tell(now: int) -> None:
            nonlocal done
            progress.advance(now - done)
            done = now

        found = survive(folder, url, kills=kills, seed=seed, told=tell)
        progress.finish()
        return found


def main() -> int:
    """Run the benchmark; return exit code 1 if anything is missing or doubled, or if a cent is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="on all databases together")
    parser.add_argument("--databases", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    each, rest = divmod(chosen.kills, len(chosen.databases))
    found: dict[str, Survived] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, kind in enumerate(chosen.databases):
            found[kind] = measure(kind, each + (number < rest), chosen.seed + number, Path(folder) / kind)
            # A run that is stopped on the next database leaves the result of this one.
            print(f"{kind}: {json.dumps(asdict(found[kind]))}", file=sys.stderr)
    show(found)
    for kind, one in found.items():
        for problem in [*one.books.lost, *one.books.doubled][:MOST_LISTED]:
            print(f"{kind}: {problem}")
    print(f"seed {chosen.seed}")
    result = {
        "kills": {kind: one.kills for kind, one in found.items()},
        "hits": sum(one.books.hits for one in found.values()),
        "approvals": sum(one.books.approvals for one in found.values()),
        "bonuses": sum(one.books.bonuses for one in found.values()),
        "top_ups": sum(one.books.top_ups for one in found.values()),
        "difference_cents": sum(one.books.difference_cents for one in found.values()),
        "lost": sum(len(one.books.lost) for one in found.values()),
        "doubled": sum(len(one.books.doubled) for one in found.values()),
    }
    print(json.dumps(result))
    is_complete = sum(one.kills for one in found.values()) == chosen.kills and all(
        result[name] for name in ("hits", "approvals", "bonuses", "top_ups")
    )
    return int(not is_complete or bool(result["difference_cents"] or result["lost"] or result["doubled"]))


def show(found: dict[str, Survived]) -> None:
    """Print what happened on each database."""
    rows = [
        ("managers killed", [one.kills for one in found.values()]),
        ("both at once, times", [one.both for one in found.values()]),
        ("calls in doubt after the kill, times", [one.in_flight for one in found.values()]),
        ("clock jumps", [one.jumps for one in found.values()]),
        ("calls", [one.calls for one in found.values()]),
        ("calls that failed or lost their answer", [one.faults for one in found.values()]),
        ("events", [one.events for one in found.values()]),
        ("rounds", [one.crew.rounds for one in found.values()]),
        ("top-ups approved by the owner, times", [one.crew.approvals for one in found.values()]),
        ("HITs", [one.books.hits for one in found.values()]),
        ("approvals", [one.books.approvals for one in found.values()]),
        ("bonuses", [one.books.bonuses for one in found.values()]),
        ("top-ups", [one.books.top_ups for one in found.values()]),
        ("cents spent", [one.books.spent_cents for one in found.values()]),
        ("cents of difference", [one.books.difference_cents for one in found.values()]),
        ("lost", [len(one.books.lost) for one in found.values()]),
        ("doubled", [len(one.books.doubled) for one in found.values()]),
        ("seconds", [round(one.seconds) for one in found.values()]),
    ]
    console().print(table(("", *found), [(name, *(f"{value:,}" for value in values)) for name, values in rows]))


if __name__ == "__main__":
    sys.exit(main())
