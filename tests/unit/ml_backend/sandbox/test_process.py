"""A hostile program in the sandbox: what it cannot reach, and what happens when it breaks its limits."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ml_backend.errors import (
    BackendError,
    ModelMemoryExceeded,
    ModelOutputInvalid,
    ModelProcessEnded,
    ModelTimeExceeded,
    SandboxUnavailable,
)
from ml_backend.sandbox import isolation
from ml_backend.sandbox.process import Sandbox, SandboxLimits, _descendants, check_sandbox

SMALL = SandboxLimits(memory_bytes=256 << 20, seconds=60, processes=8, scratch_bytes=1 << 20)
MOST = 100_000


@pytest.fixture(scope="module", autouse=True)
def _sandbox() -> None:
    try:
        check_sandbox()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine has no namespaces for a sandbox: {error}")


def hostile(code: str, limits: SandboxLimits = SMALL, read_only: dict[str, str] | None = None) -> Sandbox:
    """Start a program."""
    return Sandbox([sys.executable, "-I", "-S", "-c", textwrap.dedent(code)], limits, read_only)


def answer(code: str, read_only: dict[str, str] | None = None) -> Any:
    """Return what a program prints as JSON."""
    with closing(hostile(code, read_only=read_only)) as sandbox:
        return json.loads(sandbox.ask(b"go", MOST))


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server on this machine that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_program_reaches_no_network(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        listener.accept()[0].close()
    found = answer(
        f"""
        import json, os, socket
        errors = []
        for place in (("127.0.0.1", {port}), ("192.0.2.1", 80), ("8.8.8.8", 53)):
            try:
                socket.create_connection(place, timeout=5)
            except OSError as error:
                errors.append(error.errno)
        print(json.dumps([errors, [name for _, name in socket.if_nameindex()]]))
        """
    )
    assert len(found[0]) == 3
    assert set(found[1]) <= {"lo"}


def test_a_program_sees_no_secret_and_no_file_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_SECRET", "a-secret")
    (tmp_path / "secret").write_text("a-secret")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    code = f"""
        import json, os
        tried = {{}}
        for path in ({str(tmp_path / "secret")!r}, "/etc/passwd", "/root/.bashrc", "/proc/1/root/etc/passwd"):
            try:
                tried[path] = open(path).read()
            except OSError as error:
                tried[path] = error.errno
        for path in ("/model/x", "/usr/x", "/x", "/proc/sys/user/max_user_namespaces"):
            try:
                tried[path] = open(path, "w").write("1")
            except OSError as error:
                tried[path] = error.errno
        print(json.dumps([dict(os.environ), tried, os.listdir("/model"), os.getuid(), len(os.listdir("/proc/self/fd")),
            [one for one in os.listdir("/proc") if one.isdigit()]]))
        """
    environment, tried, there, user, files, processes = answer(code, read_only={str(folder): "/model"})
    assert not [name for name in environment if name.startswith(("OUTFOX", "AWS"))]
    assert all(isinstance(one, int) for one in tried.values()), tried
    assert (there, user, files, processes) == (["config.json"], 65_534, 4, ["1"])


def test_programs_below_the_scratch_folder_are_found_and_cannot_be_changed(tmp_path: Path) -> None:
    folder = tmp_path / "installed"
    folder.mkdir()
    (folder / "module.py").write_text("")
    place = "/tmp/installed/here"
    code = f"""
        import json, os
        errors = {{}}
        for path in ("{place}/new", "{place}/module.py", "/tmp/own"):
            try:
                open(path, "w").write("1")
            except OSError as error:
                errors[path] = error.errno
        print(json.dumps([os.listdir("{place}"), errors]))
        """
    there, errors = answer(code, read_only={str(folder): place})
    assert there == ["module.py"]
    assert set(errors) == {f"{place}/new", f"{place}/module.py"}


def test_a_program_gains_no_privilege() -> None:
    found = answer(
        """
        import ctypes, json
        libc = ctypes.CDLL(None, use_errno=True)
        calls = {
            "user": libc.unshare(0x10000000), "mounts": libc.unshare(0x00020000),
            "mount": libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None), "chroot": libc.chroot(b"/tmp"),
            "hostname": libc.sethostname(b"x", 1),
        }
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        print(json.dumps([calls, [status[name].strip() for name in ("CapEff", "CapPrm", "CapAmb", "NoNewPrivs")]]))
        """
    )
    assert set(found[0].values()) == {-1}
    assert found[1] == ["0" * 16, "0" * 16, "0" * 16, "1"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("x = bytearray(1 << 30); print(len(x))", ModelProcessEnded),
        # Each of several processes stays below its own limit.
        (
            """
            import os, time
            for _ in range(4):
                if not os.fork():
                    x = b"x" * (120 << 20)
                    break
            time.sleep(60)
            """,
            ModelMemoryExceeded,
        ),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", ModelOutputInvalid),
        ("import os\nfor fd in (0, 1): os.close(fd)\nwhile True: pass", ModelOutputInvalid),
        ("print('one')\nprint('two', flush=True)\ninput(); input()", ModelOutputInvalid),
        ("import os; os._exit(125)", ModelProcessEnded),
        ("import os; os.kill(os.getpid(), 9); os.abort()", ModelProcessEnded),
        ("import ctypes; ctypes.string_at(0)", ModelProcessEnded),
    ],
    ids=["memory", "memory of several", "flood", "closed", "two lines", "odd code", "abort", "crash"],
)
def test_a_program_that_breaks_its_limits_is_ended(code: str, error: type[BackendError]) -> None:
    with closing(hostile(code)) as sandbox, pytest.raises(error):
        [sandbox.ask(b"go", MOST) for _ in range(3)]


def test_an_endless_loop_ends_in_time() -> None:
    limits = SandboxLimits(memory_bytes=SMALL.memory_bytes, seconds=1)
    with closing(hostile("while True: pass", limits)) as sandbox, pytest.raises(ModelTimeExceeded):
        sandbox.ask(b"go", MOST)


def test_a_fork_bomb_is_bounded_and_ends_with_the_program() -> None:
    code = """
        import json, os, time
        made = 0
        try:
            for _ in range(100):
                if not os.fork():
                    os.setsid()
                    time.sleep(600)
                made += 1
        except OSError:
            pass
        print(json.dumps(made), flush=True)
        time.sleep(600)
        """
    sandbox = hostile(code)
    pid = sandbox._process.pid
    assert json.loads(sandbox.ask(b"go", MOST)) < SMALL.processes
    inside = _descendants(pid)
    assert len(inside) > 2
    sandbox.close()
    assert not [one for one in inside if _lives(one)]


def test_a_program_fills_no_disk() -> None:
    found = answer(
        """
        import json
        total = 0
        try:
            for number in range(100):
                with open(f"/tmp/{number}", "wb") as file:
                    total += file.write(b"x" * 100_000)
        except OSError as error:
            pass
        print(json.dumps(total))
        """
    )
    assert found <= SMALL.scratch_bytes


def test_a_program_ends_when_the_process_that_asks_it_is_killed(tmp_path: Path) -> None:
    code = """
        import sys, time
        from ml_backend.sandbox.process import Sandbox, SandboxLimits
        loop = "print(1, flush=True)\\nwhile True: pass"
        sandbox = Sandbox([sys.executable, "-I", "-S", "-c", loop], SandboxLimits())
        sandbox.ask(b"", 10)
        print(sandbox._process.pid, flush=True)
        time.sleep(600)
        """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path.cwd(), env={**os.environ}) as asking:
        assert asking.stdout
        pid = int(asking.stdout.readline())
        inside = _descendants(pid)
        assert inside
        asking.kill()
    end = time.monotonic() + 30
    while [one for one in (pid, *inside) if _lives(one)]:
        assert time.monotonic() < end
        os.sched_yield()


def test_without_namespaces_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_backend.sandbox.process.SYSTEM", ())
    with pytest.raises(SandboxUnavailable) as raised:
        check_sandbox()
    assert (raised.value.code, raised.value.retry) == ("sandbox_unavailable", False)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_user_without_privileges_can_isolate_programs_too(tmp_path: Path) -> None:
    python = shutil.which("python3", path="/usr/bin")
    if os.geteuid() or not python:
        pytest.skip("needs root, to become a user without privileges, and the system's Python")
    root = Path(tempfile.mkdtemp())
    os.chown(root, 65_533, 65_533)
    code = "grep CapEff /proc/self/status; cat /proc/net/dev | wc -l; touch /x /usr/x; ls /; echo $SECRET"
    plan = {
        "links": [[f"/{one}", f"usr/{one}"] for one in ("bin", "lib", "lib64") if Path("/", one).is_symlink()],
        "mounts": [["/usr", "/usr"]],
        "memory_bytes": 1 << 30,
        "seconds": 60,
        "processor_seconds": 60,
        "processes": 20,
        "files": 100,
        "scratch_bytes": 1 << 20,
        "root": str(root),
        "environment": {},
        "command": ["/bin/sh", "-c", code],
    }
    start = (
        "import json, os, subprocess, sys; plan = json.loads(sys.argv[2]); plan['parent'] = os.getpid(); "
        "sys.exit(subprocess.call([sys.executable, '-c', sys.argv[1], json.dumps(plan)]))"
    )
    program = Path(isolation.__file__).read_text(encoding="utf-8")
    command = [python, "-I", "-c", start, program, json.dumps(plan)]
    done = subprocess.run(
        command,
        user=65_533,
        group=65_533,
        extra_groups=[],
        cwd="/",
        env={"SECRET": "x"},
        capture_output=True,
        check=False,
    )
    root.rmdir()
    if done.returncode == isolation.NOT_ISOLATED and b"namespaces" in done.stderr:
        pytest.skip("this machine allows no user namespaces")
    lines = done.stdout.decode().splitlines()
    assert lines[0].split() == ["CapEff:", "0" * 16], done
    assert "x" not in lines
    assert lines[-1] == ""
