"""`make bench-pages`: what a worker's page weighs and how long it makes people wait.

Everything is real: the marketplace, the pages in its frame, Label Studio's editor, the model, a browser. A whole HIT is
weighed (opened, one try, handed in), first with an empty cache, then the same worker's next one; of the bytes, those
that the pages' own server sent. The last line is one JSON object.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from playwright.sync_api import expect, sync_playwright

from plugin.cli.output import console, table
from plugin.cli.progress import ProgressBar
from templates import find_pack
from tests.bench.page_visits import Bench, Measured, Scale, wait_out
from tests.e2e.browser import FLAGS, MILLISECONDS_TO_WAIT, find_chromium
from tests.e2e.plugin.web.work.stage import work_stage
from tests.e2e.taught import teach_in

TASK = "sentiment"
# Cross-site frames run in a separate process whose bytes the outer page does not see.
ONE_PROCESS = "--disable-site-isolation-trials"
MOST_FIRST_VISIT_BYTES = 2_200_000
MOST_NEXT_HIT_BYTES = 60_000
MOST_SECONDS = 3.0
ASKED = 5


def weigh(bench: Bench, texts: Iterator[str]) -> list[int]:
    """Return the bytes of a worker's first HIT and of the next one."""
    found = []
    with bench.worker("Weighed") as page:
        scale = Scale(page, bench.stage.settings.web_url)
        for _ in range(2):
            hit, _ = bench.open(page)
            bench.ask(hit, next(texts))
            # Files that are loaded late belong to the HIT too.
            page.wait_for_load_state("networkidle")
            bench.hand_in(hit)
            found.append(scale.take())
    return found


def time_visits(
    bench: Bench, texts: Iterator[str], visits: int, progress: ProgressBar
) -> tuple[list[float], list[float]]:
    """Return the seconds until each first visit was usable, and the milliseconds of each verdict."""
    usable, verdicts = [], []
    progress.start(visits, "first visits")
    for number in range(visits):
        with bench.worker(f"Visitor {number}") as page:
            hit, seconds = bench.open(page)
            usable.append(seconds)
            verdicts += [bench.ask(hit, next(texts)) for _ in range(ASKED)]
        progress.advance(1)
    progress.finish()
    return usable, verdicts


def measure(folder: Path, visits: int, away_seconds: float, progress: ProgressBar) -> Measured:
    """Measure everything on separate servers."""
    pack = find_pack(TASK)
    texts = (row.fields["text"] for row in pack.seed)
    with work_stage(folder) as stage, sync_playwright() as playwright:
        expect.set_options(timeout=MILLISECONDS_TO_WAIT)
        stage.open_task(TASK, model=teach_in(folder / "taught", TASK), work={"tries_before_skip": 1})
        chromium = find_chromium(playwright)
        with playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, ONE_PROCESS]) as browser:
            first, following = weigh(Bench(stage, browser, TASK, pack.spec.title), texts)
        with playwright.chromium.launch(executable_path=chromium, args=FLAGS) as browser:
            bench = Bench(stage, browser, TASK, pack.spec.title)
            usable, verdicts = time_visits(bench, texts, visits, progress)
            with bench.worker("Patient") as page:
                hit, _ = bench.open(page)
                back = wait_out(bench, hit, next(texts), away_seconds)
    return Measured(first, following, statistics.median(usable), statistics.median(verdicts), len(verdicts), back)


def main() -> int:
    """Run the benchmark; return exit code 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=7)
    parser.add_argument("--away-seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ProgressBar() as progress:
        found = measure(Path(folder), chosen.visits, chosen.away_seconds, progress)
    promises = [
        ("first visit, bytes over the wire", MOST_FIRST_VISIT_BYTES, found.first_visit_bytes),
        ("next HIT of the same worker, bytes", MOST_NEXT_HIT_BYTES, found.next_hit_bytes),
        (f"from accepting to typing, s (median of {chosen.visits})", MOST_SECONDS, round(found.usable_s, 2)),
    ]
    rows = [(what, f"{most:,}", f"{there:,}", "" if there <= most else "broken") for what, most, there in promises]
    rows.append((f"verdict after the keys, ms (median of {found.verdicts})", "", f"{found.verdict_ms:.0f}", ""))
    rows.append((f"verdict after {chosen.away_seconds:.0f} s without the model, s", "", f"{found.back_s:.1f}", ""))
    console().print(table(("", "promised", "measured", ""), rows))
    sizes = {"first_visit_bytes": found.first_visit_bytes, "next_hit_bytes": found.next_hit_bytes}
    print(json.dumps({**sizes, "usable_s": round(found.usable_s, 2), "verdict_ms": round(found.verdict_ms)}))
    return int(any(there > most for _, most, there in promises))


if __name__ == "__main__":
    sys.exit(main())
