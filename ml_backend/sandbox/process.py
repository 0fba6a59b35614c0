"""A process in a sandbox, asked in lines: one line is sent, one line of bounded length comes back in bounded time.

Everything that comes back is the text of a stranger. A process that breaks a rule is killed with all that it started.
"""

import contextlib
import importlib.util
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ml_backend.errors import (
    ModelMemoryExceeded,
    ModelOutputInvalid,
    ModelProcessEnded,
    ModelTimeExceeded,
    SandboxUnavailable,
)
from ml_backend.sandbox import isolation

# What our own programs in the sandbox import.
PACKAGES = ("common", "ml_backend", "outfox", "templates")
SYSTEM = ("bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr")
SYSTEM_FILES = ("/etc/ld.so.cache",)
# How often the memory is looked at while the process works.
LOOK_SECONDS = 0.2
STOP_SECONDS = 10.0
PIECE = 1 << 16
THREADS = 2
PROC = Path("/proc")
PEAK = "VmHWM:"
_FIRST_SECONDS = 30


@dataclass(frozen=True)
class SandboxLimits:
    """What a program in the sandbox may use; `processes` counts threads too."""

    memory_bytes: int = 4 << 30
    seconds: int = 3_600
    processes: int = 64
    scratch_bytes: int = 64 << 20
    files: int = 256


class Sandbox:
    """A command in a sandbox. `read_only` are the folders and files it may read, by the paths where it finds them."""

    def __init__(
        self, command: Sequence[str], limits: SandboxLimits, read_only: Mapping[str, str] | None = None
    ) -> None:
        self._limits = limits
        self._end = time.monotonic() + limits.seconds
        self._received = bytearray()
        root = tempfile.mkdtemp(prefix="outfox-sandbox-")
        plan = {
            **_surroundings(read_only or {}),
            **asdict(limits),
            "command": list(command),
            "environment": _environment(),
            "parent": os.getpid(),
            # Time is limited by the clock; this is for what escapes it.
            "processor_seconds": limits.seconds * THREADS * 2,
            "root": root,
        }
        # Isolated from the environment and from site-packages: nothing but the standard library is imported.
        start = [sys.executable, "-I", "-S", str(Path(isolation.__file__).resolve()), json.dumps(plan)]
        try:
            self._process = subprocess.Popen(
                start,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(root, ignore_errors=True)
            raise SandboxUnavailable(f"cannot start a process: {error.strerror}") from error
        self._stop = weakref.finalize(self, _stop, self._process, root)
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]

    def ask(self, line: bytes, most_bytes: int) -> bytes:
        """Send a line and return the line that comes back; raise ModelError if none of that length comes in time."""
        try:
            return self._ask(line + b"\n", most_bytes)
        except BaseException:
            self.close()
            raise

    def peak_bytes(self) -> int:
        """Return the peak resident bytes of the command's process so far, as the system counts them."""
        return max((_peak_bytes(one) for one in _descendants(self._process.pid)), default=0)

    def memory_exceeded(self) -> ModelMemoryExceeded:
        """Return the error of a process that needs more memory than it may use."""
        limit = f"{self._limits.memory_bytes >> 20:,} MB"
        return ModelMemoryExceeded(f"the model needs more than {limit} of memory; use a smaller model")

    def close(self) -> None:
        """Kill the process and everything that it started."""
        self._stop()

    def _ask(self, line: bytes, most_bytes: int) -> bytes:
        assert self._process.stdin is not None  # noqa: S101 - for the types
        assert self._process.stdout is not None  # noqa: S101 - for the types
        to_send, looked = memoryview(line), time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            selector.register(self._process.stdin, selectors.EVENT_WRITE)
            while (end := self._received.find(b"\n")) < 0:
                ready = {key.fileobj for key, _ in selector.select(LOOK_SECONDS)}
                if self._process.stdin in ready:
                    to_send = self._send(to_send)
                    if not to_send:
                        selector.unregister(self._process.stdin)
                if self._process.stdout in ready:
                    self._receive()
                if len(self._received) > most_bytes:
                    raise ModelOutputInvalid(f"the model's process answers with more than {most_bytes:,} bytes")
                now = time.monotonic()
                if now > self._end:
                    raise ModelTimeExceeded(
                        f"the model took longer than {self._limits.seconds:,} seconds; use a smaller model"
                    )
                if now - looked > LOOK_SECONDS:
                    looked = now
                    self._check_memory()
        answer = bytes(self._received[:end])
        del self._received[: end + 1]
        if to_send or self._received:
            raise ModelOutputInvalid("the model's process answers what it was not asked")
        return answer

    def _send(self, rest: memoryview) -> memoryview:
        assert self._process.stdin  # noqa: S101 - for the types
        try:
            return rest[os.write(self._process.stdin.fileno(), rest[:PIECE]) :]
        except BlockingIOError:
            return rest
        except BrokenPipeError:
            # What it has written before may say why.
            return rest[len(rest) :]

    def _receive(self) -> None:
        assert self._process.stdout  # noqa: S101 - for the types
        with contextlib.suppress(BlockingIOError):
            piece = os.read(self._process.stdout.fileno(), PIECE)
            if not piece:
                self._report_end()
            self._received += piece

    def _report_end(self) -> None:
        """Raise the error that says why the process has ended, or has closed its output."""
        try:
            code = self._process.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            self._check_memory()
            raise ModelOutputInvalid("the model's process has closed its output") from None
        if code == isolation.NOT_ISOLATED:
            assert self._process.stderr  # noqa: S101 - for the types
            why = self._process.stderr.read(400).decode("utf-8", "replace") or "its parent has ended"
            raise SandboxUnavailable(f"models of strangers cannot be run here: {why}")
        memory = f"the limits are {self._limits.memory_bytes >> 20:,} MB and {self._limits.processes} threads"
        raise ModelProcessEnded(f"the model's process ended unexpectedly ({_end_of(code)}); {memory}")

    def _check_memory(self) -> None:
        if _resident_bytes(self._process.pid) > self._limits.memory_bytes:
            raise self.memory_exceeded()


def check_sandbox() -> None:
    """Raise SandboxUnavailable unless a program can be isolated on this machine, and finds our packages."""
    if sys.platform != "linux":
        raise SandboxUnavailable("models of strangers are run on Linux only, which can isolate them")
    limits = SandboxLimits(memory_bytes=1 << 30, seconds=_FIRST_SECONDS)
    command = [sys.executable, "-P", "-c", "import ml_backend.errors; print('isolated')"]
    with contextlib.closing(Sandbox(command, limits)) as sandbox:
        try:
            sandbox.ask(b"", 100)
        except ModelProcessEnded as error:
            text = "Python cannot be started in a sandbox; its files must be readable by other users"
            raise SandboxUnavailable(text) from error


def _stop(process: subprocess.Popen[bytes], root: str) -> None:
    """End the process, which kills the command first; a command cannot survive it."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        for child in _descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    # Empty: what was mounted on it was only seen by the process.
    with contextlib.suppress(OSError):
        Path(root).rmdir()


def _end_of(code: int) -> str:
    number = code - isolation.SIGNALLED
    if number > 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(number).name
    return f"exit code {code}"


def _resident_bytes(pid: int) -> int:
    """Return the memory of all processes that this one has started; shared pages count for each of them."""
    pages = 0
    for one in _descendants(pid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages += int((PROC / str(one) / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _peak_bytes(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith(PEAK))
    except (OSError, StopIteration):
        return 0  # It has just ended.


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for path in (PROC / str(waiting.pop()) / "task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(one) for one in path.read_text().split()]
                found += children
                waiting += children
    return found


def _environment() -> dict[str, str]:
    """Return the whole environment of a command: no setting and no secret of this process."""
    return {
        "HOME": "/tmp",  # noqa: S108 - the sandbox's own
        "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "USER": "nobody",
        "PYTHONPATH": os.pathsep.join(_package_parents()),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(THREADS),
        "TOKENIZERS_PARALLELISM": "false",
        "MALLOC_ARENA_MAX": "2",
    }


def _surroundings(read_only: Mapping[str, str]) -> dict[str, Any]:
    """Return what is mounted: the system's programs, this Python, our packages, and the named paths."""
    links: list[list[str]] = []
    mounts: list[list[str]] = [[path, path] for path in SYSTEM_FILES if Path(path).is_file()]
    for name in SYSTEM:
        place = Path("/") / name
        if place.is_symlink():
            links.append([str(place), str(place.readlink())])
        elif place.is_dir():
            mounts.append([str(place), str(place)])
    prefixes = (sys.prefix, sys.base_prefix, sys.base_exec_prefix)
    for path in sorted({*prefixes, *map(os.path.realpath, prefixes), *_packages()}):
        if not any(Path(path).is_relative_to(known) for known, _ in mounts):
            mounts.append([path, path])
    mounts += [[source, target] for source, target in read_only.items()]
    return {"links": links, "mounts": mounts}


@lru_cache(maxsize=1)
def _packages() -> tuple[str, ...]:
    specs = [importlib.util.find_spec(name) for name in PACKAGES]
    return tuple(str(Path(one.origin).resolve().parent) for one in specs if one and one.origin)


def _package_parents() -> list[str]:
    return sorted({str(Path(one).parent) for one in _packages()})
