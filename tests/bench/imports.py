"""`make bench-import`: 1,000,000 published rows imported into a database, against 100,000.

A separate process imports a file in ANLI's form, with three votes on every second row, as `outfox round import` does:
the file is read and hashed, every row is checked, the archive is written and its round added. The texts are then added
to the index that later examples are compared with, in a second stage that can be interrupted; it is timed on its own.
Memory is that of the whole process. The last line is one JSON object; the targets are 20,000 rows per second, and at
most 1.25 times the memory of a tenth.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.clock import SystemClock
from plugin.cli.output import console, table
from round_manager.archive.storage import open_archives
from round_manager.database.store import open_store
from round_manager.services import imports
from round_manager.services.archives import verify_round
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.imports import ImportRequest, import_rounds, index_texts
from tests.campaign import start_campaign

TASK, ROWS = "nli", 1_000_000
LETTERS = "enc"
SYLLABLES = [f"{one}{two}" for one in "bdfgklmnprstvw" for two in "aeiou"]
WORDS = [f"{one}{two}" for one in SYLLABLES for two in SYLLABLES]
LEAST_RATE, MOST_MEMORY = 20_000, 1.25


def write_rows(file: Path, rows: int) -> Path:
    """Write a file in ANLI's form."""
    chance = random.Random(7)
    with file.open("w", encoding="utf-8") as written:
        for number in range(rows):
            label = chance.choice(LETTERS)
            row: dict[str, Any] = {
                "uid": f"{chance.getrandbits(128):032x}",
                "context": f"Passage {number // 5}: {' '.join(chance.choices(WORDS, k=30))}.",
                "hypothesis": " ".join(chance.choices(WORDS, k=10)) + ".",
                "label": label,
                "model_label": chance.choice(LETTERS),
                "reason": "" if number % 4 else "The passage says so.",
                "genre": "wikipedia",
            }
            if number % 2:
                row["verifier labels"] = [label, label, chance.choice(LETTERS)]
            written.write(json.dumps(row) + "\n")
    return file


def import_here(file: Path, *, is_indexed: bool) -> None:
    """Import the file in this process, and print times and memory."""
    home = file.parent / f"home-{file.stem}"
    home.mkdir()
    request = ImportRequest(
        "anli", [file], "https://example.org/anli", "CC-BY-NC-4.0", splits=["train"], slices=["genre"]
    )
    indexing = imports.index_texts
    with open_store(f"sqlite:///{home / 'outfox.db'}", upgrade=True) as store:
        start_campaign(store, TASK, opened=False)
        context = ServiceContext(store, SystemClock())
        # In two calls, so that each stage has its own time.
        imports.index_texts = lambda *_arguments: 0
        begun, own = time.perf_counter(), time.process_time()
        done = import_rounds(context, Actor("bench"), TASK, request, open_archives(str(home / "archives")))
        imported, used = time.perf_counter() - begun, time.process_time() - own
        imports.index_texts = indexing
        begun = time.perf_counter()
        known = index_texts(context, TASK) if is_indexed else 0
        indexed = time.perf_counter() - begun
        memory = most_memory()
        valid = not verify_round(context, TASK).result.problems
    rows = sum(done.archives[0].examples.values())
    told = {"rows": rows, "import_s": imported, "cpu_s": used, "index_s": indexed, "known": known, "rss_mb": memory}
    print(json.dumps({**told, "valid": valid}))


def most_memory() -> float:
    """Return the peak memory of this process in megabytes; getrusage may report that of its parent."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    """Import both files, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--no-index", action="store_true", help="leave the second stage out")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.file:
        import_here(given.file, is_indexed=not given.no_index)
        return
    found = []
    with tempfile.TemporaryDirectory(prefix="outfox-bench-") as folder:
        for rows in (given.rows // 10, given.rows):
            file = write_rows(Path(folder) / f"{rows}.jsonl", rows)
            command = [sys.executable, __file__, "--file", str(file), *(["--no-index"] if given.no_index else [])]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
            file.unlink()
    columns = ("rows", "import s", "rows/s", "CPU s", "index s", "texts/s", "MB", "valid")
    lines = [
        (one["rows"], round(one["import_s"], 1), round(one["rows"] / one["import_s"]), round(one["cpu_s"], 1),
         round(one["index_s"], 1), round(one["known"] / one["index_s"]), round(one["rss_mb"]), one["valid"])
        for one in found
    ]  # fmt: skip
    console().print(table(columns, lines))
    small, large = found
    result = {
        "rows_per_s": round(large["rows"] / large["import_s"]),
        # What a busy machine distorts less: of all threads together.
        "rows_per_cpu_s": round(large["rows"] / large["cpu_s"]),
        "texts_per_s": round(large["known"] / large["index_s"]),
        "rss_mb": round(large["rss_mb"]),
        "memory_vs_tenth": round(large["rss_mb"] / small["rss_mb"], 2),
    }
    print(json.dumps(result))
    met = result["rows_per_s"] >= LEAST_RATE and result["memory_vs_tenth"] <= MOST_MEMORY
    sys.exit(0 if met and all(one["valid"] for one in found) else 1)


if __name__ == "__main__":
    main()
