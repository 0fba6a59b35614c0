"""`make bench-crash`: money under SIGKILL.

A process posts HITs, approves and pays them, and is killed at random moments, through a proxy that throttles, fails
after the effect and drops answers, with events that come twice. In the end the marketplace must have every HIT,
approval and bonus exactly once, and the ledger must agree to the cent. The last line is one JSON object.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugin.cli.output import console, table
from plugin.cli.progress import ProgressBar
from tests.bench.crashing.chaos import survive


def main() -> int:
    """Run the benchmark; return exit code 1 if anything is missing or doubled, or if a cent is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hits", type=int, default=200)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ProgressBar() as progress:
        progress.start(chosen.kills, f"killing (seed {chosen.seed})")
        found = survive(
            Path(folder), hits=chosen.hits, kills=chosen.kills, seed=chosen.seed, told=lambda _: progress.advance()
        )
        progress.finish()
    rows = [
        ("HITs", chosen.hits, found.hits),
        ("approvals", chosen.hits, found.approvals),
        ("bonuses", chosen.hits, found.bonuses),
        ("cents between ledger and marketplace", 0, found.ledger_diff_cents),
    ]
    console().print(table(("", "wanted", "found"), rows))
    console().print(
        f"{found.kills} kills, {found.in_flight} of them with calls on their way; {found.calls} calls,"
        f" {found.faults} of them faulty; {found.events} events; seed {chosen.seed};"
        f" {time.monotonic() - started:.0f} s"
    )
    figures = {"kills": found.kills, "hits": found.hits, "approvals": found.approvals, "bonuses": found.bonuses}
    print(json.dumps({**figures, "ledger_diff_cents": found.ledger_diff_cents}))
    return int(any(wanted != there for _, wanted, there in rows))


if __name__ == "__main__":
    sys.exit(main())
