"""`make bench-serve`: our backend, the official SDK's request path, plain torch behind Flask, the bare forward pass.

One model, one machine, one load generator. The contenders run beside each other and are asked in turn, so that
whatever else the machine does meets all of them. Label Studio's interactive call is sent: about 6 kB, most of it the
labelling config.
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
TASK = "sentiment"
CONTENDERS = {
    "ours": "outfox ml-backend",
    "sdk": "label-studio-ml SDK's request path, pipeline cached, threads tuned",
    "plain": "plain torch behind Flask",
}
CONCURRENCY = (1, 8, 32)
SECONDS_TO_START = 180


class Contender:
    """A server under test."""

    def __init__(self, name: str, home: Path, version: str) -> None:
        self.name = name
        self.port = free_port()
        log = home / f"{name}.log"
        arguments = [sys.executable, str(PROGRAM), name, str(self.port), str(home / "models"), version]
        if name == "ours":
            # The command with its defaults: every attempt is stored in the database.
            arguments = _outfox(home, "ml-backend", "--port", str(self.port), "--tasks", TASK)
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
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text(encoding="ascii")
        return max(_resident(one) for one in (str(self._process.pid), *children.split())) / 1e6

    def end(self) -> None:
        """Stop the server."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def main() -> int:
    """Run the benchmark; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, help="a folder of trained models; default: one is trained")
    parser.add_argument("--turns", type=int, default=5, help="how often each contender is asked")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each time")
    chosen = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    pack = find_pack(TASK)
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        version = _version(pack, home, chosen.models)
        texts = [row.fields["text"] for row in pack.seed if row.split == "held_out"][:200]
        bare = Bare(home / "models" / TASK / version, texts, pack.spec.model.max_length)
        contenders = [Contender(name, home, version) for name in CONTENDERS]
        try:
            for one in contenders:
                one.wait()
            memory = _compare(contenders, bare, requests(pack, texts), chosen.turns, chosen.seconds)
        finally:
            for one in contenders:
                one.end()
        stored = _stored(home)
    _tell(contenders, bare, memory)
    print(f"{stored:,} attempts are in the database.")
    _tell_figures(contenders, bare, memory)
    return 0


def _version(pack: Pack, home: Path, models: Path | None) -> str:
    """Return the version to serve: the newest of those given, or one that is trained now."""
    if models is not None:
        shutil.copytree(models / TASK, home / "models" / TASK)
    else:
        with ProgressBar() as progress:
            train(pack, home / "models", progress=progress)
    version = list_versions(home / "models", TASK)[0].version
    for arguments in (("task", "create", TASK), ("model", "rotate", TASK, version)):
        subprocess.run(_outfox(home, *arguments), check=True, stdout=sys.stderr)
    return version


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
                load(one.port, asked, connections, seconds, one.measured[connections])
    return {one.name: one.memory_mb() for one in contenders}


def _tell(contenders: list[Contender], bare: Bare, memory: dict[str, float]) -> None:
    rows: list[tuple[Any, ...]] = []
    for connections in CONCURRENCY:
        for one in contenders:
            found = one.measured[connections]
            times = [f"{found.share(percent):.2f}" for percent in (50, 90, 99)]
            rows.append((connections, CONTENDERS[one.name], f"{found.rate:.1f}", *times, f"{memory[one.name]:.0f}"))
    bare_row = (f"bare forward pass ({bare.what})", f"{1_000 / bare.p50_ms:.1f}", f"{bare.p50_ms:.2f}")
    rows.append(("", *bare_row, "", "", ""))
    console().print(table(("connections", "contender", "requests/s", "p50 ms", "p90 ms", "p99 ms", "MB"), rows))
    print(f"{os.cpu_count()} cores for the servers and the load generator; load average {os.getloadavg()[0]:.1f}.")
    print("The current SDK is not on the package index: its request path is rebuilt in tests/bench/serving/sdk.py.")


def _tell_figures(contenders: list[Contender], bare: Bare, memory: dict[str, float]) -> None:
    ours, sdk = contenders[0].measured, contenders[1].measured
    figures = {
        "rps_vs_sdk": {str(one): round(ours[one].rate / sdk[one].rate, 2) for one in CONCURRENCY},
        "p99_vs_sdk": {str(one): round(ours[one].share(99) / sdk[one].share(99), 3) for one in CONCURRENCY},
        "p50_vs_bare": round(ours[1].share(50) / bare.p50_ms, 3),
        "rss_mb": round(memory["ours"], 1),
    }
    print(json.dumps(figures))


def _resident(process: str) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
