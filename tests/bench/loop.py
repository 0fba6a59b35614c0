"""`make bench-loop`: the whole loop under SIGKILL.

A demo with a simulated crowd plays two rounds in peace; another one plays them while its processes are killed at random
moments: its servers, its trainings, Label Studio, and the demo itself, which is then started again. What must be true
in the end is the same for both. The last line is one JSON object.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from plugin.cli.output import console, table
from plugin.cli.progress import ProgressBar
from plugin.server_process import free_port
from tests.e2e.end_state import Figures, broken_promises, figures_of
from tests.e2e.killer import Killer, at_large
from tests.e2e.running_demo import RunningDemo, running_demo

ROUNDS = 2
SECONDS_BETWEEN_LOOKS = 1.0
LONGEST_NOTE = 100
MOST_TOLD = 2_000
# A demo that exits although nothing was killed is broken.
MOST_REVIVALS_IN_PEACE = 3


@dataclass(frozen=True)
class Run:
    """One demo from its first start to its report."""

    killed: dict[str, int]
    starts: int
    seconds: float
    figures: Figures
    broken: list[str]

    @property
    def kills(self) -> int:
        """Return how many of its processes were killed."""
        return sum(self.killed.values())


def main() -> int:
    """Exit with 1 if a run ended in the wrong state, or before all kills."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--peace", type=float, default=12.0, help="the most seconds between two kills")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, help="a folder in which the homes are kept")
    chosen = parser.parse_args()
    # The quality of the models does not matter here, so training is short.
    size = ("--rounds", ROUNDS, "--examples", chosen.examples, "--workers", chosen.workers, "--mode", "head")
    options = ("--simulate", *size)
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        # Runs share what they would compute again.
        os.environ["OUTFOX_CACHE_DIR"] = str(folder / "cache")
        runs = [play(folder / str(kills), kills, (chosen.seed, chosen.peace), options) for kills in (0, chosen.kills)]
    show(runs)
    print(f"seed {chosen.seed}; killed: {', '.join(f'{name} {n}' for name, n in sorted(runs[1].killed.items()))}")
    if runs[1].kills < chosen.kills:
        print(f"both rounds were over before the {chosen.kills} kills: choose less --peace or more --examples")
    same = not any(run.broken for run in runs) and len({run.figures.rounds for run in runs}) == 1
    apart = sum(run.figures.ledger_diff_cents for run in runs)
    found = {"kills": runs[1].kills, "rounds": runs[1].figures.rounds, "same_state": same, "ledger_diff_cents": apart}
    print(json.dumps(found))
    return int(not same or bool(apart) or runs[1].kills < chosen.kills)


def play(folder: Path, kills: int, chance: tuple[int, float], options: tuple[object, ...]) -> Run:
    """Run a demo in the folder with the given number of kills; `chance` has their seed and the longest pause."""
    seed, peace = chance
    folder.mkdir(parents=True)
    home, began, revivals = folder / "home", time.monotonic(), 0
    with ProgressBar() as progress, running_demo(home, free_port(), *options, "--until-ready") as demo:
        progress.start(0, f"two rounds with {kills} kills (seed {seed})")
        while not demo.is_playing:
            if demo.ended() is not None:
                raise RuntimeError(f"the demo ended before a process was killed: {demo.said[-MOST_TOLD:]}")
            _wait(demo, progress, 0)
        killer = Killer(demo, Random(seed), peace)
        with at_large(killer, lambda: killer.kill_any(kills)):
            while demo.ended() != 0:
                revivals += demo.revive() and len(killer.killed) >= kills
                if revivals > MOST_REVIVALS_IN_PEACE:
                    raise RuntimeError(f"the demo gives up again and again: {demo.said[-MOST_TOLD:]}")
                _wait(demo, progress, len(killer.killed))
        progress.finish()
    killed = Counter(name for name, _ in killer.killed)
    broken = broken_promises(home, rounds=ROUNDS)
    return Run(dict(killed), demo.starts, time.monotonic() - began, figures_of(home), broken)


def show(runs: list[Run]) -> None:
    """Return a table of the runs' results."""
    rows = [
        ("processes killed", *(run.kills for run in runs)),
        ("starts of the demo", *(run.starts for run in runs)),
        ("seconds", *(round(run.seconds) for run in runs)),
        ("rounds closed and frozen", *(run.figures.rounds for run in runs)),
        ("examples", *(run.figures.examples for run in runs)),
        ("of them fooling and verified", *(run.figures.verified_fooling for run in runs)),
        ("votes", *(run.figures.votes for run in runs)),
        ("cents paid", *(run.figures.paid_cents for run in runs)),
        ("cents between ledger and marketplace", *(run.figures.ledger_diff_cents for run in runs)),
        ("promises broken", *(len(run.broken) for run in runs)),
    ]
    console().print(table(("", "in peace", "under SIGKILL"), rows))
    for run in runs:
        for text in run.broken:
            print(f"broken with {run.kills} kills: {text}")


def _wait(demo: RunningDemo, progress: ProgressBar, killed: int) -> None:
    lines = demo.said.splitlines()
    progress.advance(0, f"{killed} kills; {lines[-1][:LONGEST_NOTE] if lines else ''}")
    time.sleep(SECONDS_BETWEEN_LOOKS)


if __name__ == "__main__":
    sys.exit(main())
