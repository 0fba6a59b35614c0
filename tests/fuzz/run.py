"""Generated requests to every route of the three servers, in batches whose seeds are kept.

python -m tests.fuzz.run --requests 1000000

A run continues where the last one stopped. A batch that fails is kept with its seed and the smallest failing request.
The last line is JSON.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from common.progress import Progress
from tests.fuzz.raw import PASSWORD, PLANTED, RealServer, check_health, raw_bytes, real_servers, send_raw
from tests.fuzz.requests import requests
from tests.fuzz.sent import FuzzFailure, Secrets, check, send
from tests.fuzz.world import World, open_world

STATE = Path("build/fuzz/state.json")
BATCH, RAW_IN_BATCH = 1_000, 50
# A new world for this many batches, because requests fill its databases.
BATCHES_PER_WORLD = 20
RAW = "raw"


@dataclass
class State:
    """What was run so far; batch number N has the seed N."""

    batches: int = 0
    requests: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0
    # Answers by server and status.
    answers: dict[str, dict[str, int]] = field(default_factory=dict)
    # Requests by server and route.
    routes: dict[str, dict[str, int]] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "State":
        """Return the stored state, or a new one."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else cls()

    def write(self, path: Path) -> None:
        """Store the state; a killed run loses at most one batch."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        draft.replace(path)

    def count(self, server: str, route: str, status: str, seconds: float) -> None:
        """Count one answer."""
        self.requests += 1
        self.slowest_seconds = round(max(self.slowest_seconds, seconds), 2)
        for table, key in ((self.answers, status), (self.routes, route)):
            row = table.setdefault(server, {})
            row[key] = row.get(key, 0) + 1


class Batches:
    """Runs batches against one world and the real servers."""

    def __init__(self, world: World, servers: dict[str, RealServer], state: State, *, slow: bool = True) -> None:
        self._world = world
        self._servers = servers
        self._state = state
        self._raw_secrets = Secrets(answered=[PLANTED, PASSWORD], logged=[])
        self._read = Counter[str]()
        self._requests = requests(world)
        self._raw_bytes = raw_bytes(slow=slow)

    def run(self, number: int, count: int, raw: int) -> None:
        """Run one batch; raise a FuzzFailure with the smallest request that fails."""
        _generated(number, count - raw, self._requests, self._check)
        if self._servers:
            _generated(number, raw, self._raw_bytes, self._check_raw)
            for server in self._servers.values():
                check_health(server)
                self._check_log(server)

    def _check(self, sent: Any) -> None:
        began = time.monotonic()
        answer = send(self._world.apps[sent.server], sent)
        self._state.count(sent.server, sent.route, str(answer.status), time.monotonic() - began)
        check(sent, answer, self._world.secrets)
        self._world.secrets.check_log(self._world.log.take())

    def _check_raw(self, raw: Any) -> None:
        began = time.monotonic()
        status = send_raw(self._servers[raw.server], raw, self._raw_secrets)
        self._state.count(raw.server, RAW, f"{RAW} {status}", time.monotonic() - began)

    def _check_log(self, server: RealServer) -> None:
        with server.log.open("rb") as file:
            file.seek(self._read[server.name])
            text = file.read()
        self._read[server.name] += len(text)
        self._raw_secrets.check_log(text)


def _generated(number: int, count: int, strategy: Any, run: Callable[[Any], None]) -> None:
    """Run generated examples of a strategy; a failing one is shrunk."""

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(strategy)
    def each(example: Any) -> None:
        try:
            run(example)
        except FuzzFailure as error:
            error.add_note(f"the request was {example!r:.4000}")
            raise

    each()


def run_all(wanted: int, path: Path, progress: Progress) -> State:
    """Run batches until that many requests were made in all; a batch that failed before is repeated first."""
    state = State.read(path)
    failed = [failure["batch"] for failure in state.failures]
    state.failures = []
    progress.start(wanted, "Sending requests")
    while (state.requests < wanted or failed) and not state.failures:
        with tempfile.TemporaryDirectory(prefix="outfox-fuzz-") as name:
            folder = Path(name)
            with open_world(folder / "world") as world, real_servers(folder / "servers") as servers:
                batches = Batches(world, servers, state)
                for _ in range(BATCHES_PER_WORLD):
                    number = failed.pop(0) if failed else state.batches
                    _one_batch(batches, state, path, number)
                    progress.advance(BATCH, f"{state.requests:,} requests")
                    if state.failures or (state.requests >= wanted and not failed):
                        break
    progress.finish()
    return state


def _one_batch(batches: Batches, state: State, path: Path, number: int) -> None:
    began = time.monotonic()
    try:
        batches.run(number, BATCH, RAW_IN_BATCH)
    except FuzzFailure as error:
        notes = [*getattr(error, "__notes__", ())]
        state.failures.append({"batch": number, "error": str(error)[:2_000], "notes": notes})
    state.seconds = round(state.seconds + time.monotonic() - began, 1)
    state.batches = max(state.batches, number + 1)
    state.write(path)


def table(state: State) -> str:
    """Return the answers by server and status."""
    lines = []
    for server, answers in sorted(state.answers.items()):
        row = "  ".join(f"{status}: {count:,}" for status, count in sorted(answers.items()))
        lines += [f"{server} ({len(state.routes[server])} routes and operations)", f"  {row}"]
    return "\n".join(lines)


class _Lines:
    """Progress as lines."""

    def start(self, total_steps: int, what: str) -> None:
        """Say what is done."""
        print(f"{what}: {total_steps:,} in all", flush=True)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Say how many are done."""
        print(f"  {note}", flush=True)

    def finish(self) -> None:
        """Say nothing."""


def main() -> None:
    """Run, print the table and the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000, help="how many to make in all, with earlier runs")
    parser.add_argument("--state", type=Path, default=STATE, help="where the seeds and counts are kept")
    chosen = parser.parse_args()
    state = run_all(chosen.requests, chosen.state, _Lines())
    print(table(state))
    for failure in state.failures:
        print(f"batch {failure['batch']} failed: {failure['error']}", *failure["notes"], sep="\n")
    last = {
        "requests": state.requests,
        "batches": state.batches,
        "failures": len(state.failures),
        "slowest_seconds": state.slowest_seconds,
        "seconds": state.seconds,
    }
    print(json.dumps(last))
    sys.exit(1 if state.failures else 0)


if __name__ == "__main__":
    main()
