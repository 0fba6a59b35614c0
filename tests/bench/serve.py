"""`make bench-serve`: our backend, the official SDK's request path, plain torch behind Flask, the bare forward pass.

The base model of each pack, one machine, one load generator. The contenders of a pack run beside each other and are
asked in turn, so that whatever else the machine does meets all of them. Label Studio's interactive call is sent: about
6 kB, most of it the labelling config. Training the four models takes about four minutes, if none are given, and
the measurement about twelve.
"""

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ml_backend.artefact import list_versions
from ml_backend.training import train
from plugin.cli.output import console, table
from plugin.cli.progress import ProgressBar
from plugin.server_process import free_port
from templates import Pack, find_pack
from tests.bench.serving.bare import Bare
from tests.bench.serving.load import Measured, load, requests

PROGRAM = Path(__file__).with_name("serving") / "contenders.py"
# The first pack's figures are also those of the benchmark as a whole, and only there plain torch is measured.
PACKS = ("sentiment", "hate_speech", "nli", "qa")
CONTENDERS = {
    "ours": "outfox ml-backend",
    "sdk": "label-studio-ml SDK's request path, pipeline cached, threads tuned",
    "plain": "plain torch behind Flask",
}
CONCURRENCY = (1, 8, 32)
SECONDS_TO_START = 180


class Contender:
    """A server under test."""

    def __init__(self, name: str, home: Path, folder: Path) -> None:
        self.name = name
        self.port = free_port()
        task = folder.parent.name
        log = home / f"{task}-{name}.log"
        arguments = [sys.executable, str(PROGRAM), name, str(self.port), task, str(folder)]
        if name == "ours":
            # The command with its defaults: every attempt is stored in the database.
            arguments = _outfox(home, "ml-backend", "--port", str(self.port), "--tasks", task)
        with log.open("wb") as out:
            self._process = subprocess.Popen(arguments, stdout=out, stderr=out, start_new_session=True)
        self._log = log
        self.measured = {connections: Measured() for connections in CONCURRENCY}

    def wait(self) -> None:
        """Wait until it answers."""
        end = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.2)
        raise SystemExit(f"{self.name} did not start:\n{self._log.read_text(encoding='utf-8')[-2000:]}")

    def memory_mb(self) -> float:
        """Return the memory of its largest process."""
        return max(_resident(one) for one in self._processes()) / 1e6

    def measure(self, asked: list[bytes], connections: int, seconds: float) -> None:
        """Send requests for some seconds."""
        into, before = self.measured[connections], self._cpu_seconds()
        load(self.port, asked, connections, seconds, into)
        into.cpu_seconds += self._cpu_seconds() - before

    def _cpu_seconds(self) -> float:
        """Return the processor time of its processes."""
        ticks = 0
        for one in self._processes():
            stat = Path(f"/proc/{one}/stat").read_text(encoding="utf-8")
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _processes(self) -> list[str]:
        own = str(self._process.pid)
        return [own, *Path(f"/proc/{own}/task/{own}/children").read_text(encoding="ascii").split()]

    def end(self) -> None:
        """Stop the server."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


@dataclass(frozen=True)
class Outcome:
    """What was measured with the model of one pack; memory is in MB."""

    pack: str
    contenders: list[Contender]
    bare: Bare
    memory: dict[str, float]

    def figures(self) -> dict[str, Any]:
        """Return our figures relative to the SDK's request path and to the bare forward pass."""
        ours, sdk = self.contenders[0].measured, self.contenders[1].measured
        return {
            "rps_vs_sdk": {str(one): round(ours[one].rate / sdk[one].rate, 2) for one in CONCURRENCY},
            "p99_vs_sdk": {str(one): round(ours[one].share(99) / sdk[one].share(99), 3) for one in CONCURRENCY},
            "cpu_vs_sdk": {str(one): round(ours[one].cpu_ms / sdk[one].cpu_ms, 3) for one in CONCURRENCY},
            "p50_vs_bare": round(ours[1].share(50) / self.bare.p50_ms, 3),
            "rss_mb": round(self.memory["ours"], 1),
        }

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Return the rows of the table."""
        for connections in CONCURRENCY:
            for one in self.contenders:
                found = one.measured[connections]
                times = [f"{found.share(percent):.2f}" for percent in (50, 90, 99)]
                own = f"{found.cpu_ms:.1f}", f"{self.memory[one.name]:.0f}"
                yield self.pack, str(connections), CONTENDERS[one.name], f"{found.rate:.1f}", *times, *own
        passes = f"{1_000 / self.bare.p50_ms:.1f}"
        yield self.pack, "", f"bare forward pass ({self.bare.what})", passes, f"{self.bare.p50_ms:.2f}", "", "", "", ""


def main() -> int:
    """Run the benchmark; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", nargs="*", default=PACKS, help="default: all")
    parser.add_argument("--models", type=Path, help="a folder of trained models, for example of bench-packs --models")
    parser.add_argument("--turns", type=int, default=5, help="how often each contender is asked")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each time")
    chosen = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        outcomes = []
        for pack in map(find_pack, chosen.packs):
            folder = _version(pack, home, chosen.models)
            outcomes.append(_measure(pack, home, folder, chosen.turns, chosen.seconds))
        stored = _stored(home)
    headings = ("pack", "connections", "contender", "requests/s", "p50 ms", "p90 ms", "p99 ms", "CPU ms", "MB")
    console().print(table(headings, [row for one in outcomes for row in one.rows()]))
    print(f"{os.cpu_count()} cores for the servers and the load generator; load average {os.getloadavg()[0]:.1f}.")
    print("The current SDK is not on the package index: its request path is rebuilt in tests/bench/serving/sdk.py.")
    print(f"{stored:,} attempts are in the database.")
    print(json.dumps({**outcomes[0].figures(), "packs": {one.pack: one.figures() for one in outcomes}}))
    return 0


def _measure(pack: Pack, home: Path, folder: Path, turns: int, seconds: float) -> Outcome:
    task = pack.spec.name
    rows = [row.fields for row in pack.seed if row.split == "held_out"][:200]
    bare = Bare(folder, pack.spec, rows)
    contenders = [Contender(name, home, folder) for name in CONTENDERS if name != "plain" or task == PACKS[0]]
    try:
        for one in contenders:
            one.wait()
        print(f"{task}, {folder.name}", file=sys.stderr, flush=True)
        memory = _compare(contenders, bare, requests(pack, rows), turns, seconds)
    finally:
        for one in contenders:
            one.end()
    return Outcome(task, contenders, bare, memory)


def _version(pack: Pack, home: Path, models: Path | None) -> Path:
    """Return the folder of the version to serve: the newest of those given, or one that is trained now."""
    task = pack.spec.name
    if models is not None:
        shutil.copytree(models / task, home / "models" / task)
    else:
        with ProgressBar() as progress:
            train(pack, home / "models", progress=progress)
    version = list_versions(home / "models", task)[0].version
    for arguments in (("task", "create", task), ("model", "rotate", task, version)):
        subprocess.run(_outfox(home, *arguments), check=True, stdout=sys.stderr)
    return home / "models" / task / version


def _outfox(home: Path, *arguments: str) -> list[str]:
    return [str(Path(sys.executable).parent / "outfox"), "--home", str(home), *arguments]


def _stored(home: Path) -> int:
    with sqlite3.connect(home / "outfox.db") as database:
        return int(database.execute("SELECT count(*) FROM attempt").fetchone()[0])


def _compare(
    contenders: list[Contender], bare: Bare, asked: list[bytes], turns: int, seconds: float
) -> dict[str, float]:
    for one in contenders:
        load(one.port, asked, 8, seconds / 2, Measured())
    bare.run(seconds / 4)
    bare.times.clear()
    for turn in range(turns):
        print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
        for connections in CONCURRENCY:
            # The bare pass runs next to the single connection that it is compared with.
            if connections == 1:
                bare.run(seconds)
            for one in contenders[turn % len(contenders) :] + contenders[: turn % len(contenders)]:
                one.measure(asked, connections, seconds)
    return {one.name: one.memory_mb() for one in contenders}


def _resident(process: str) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
