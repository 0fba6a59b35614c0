"""The first program in a sandbox: it isolates itself, starts the command that it is given, and waits for its end.

It runs as a script with the standard library only, before anything of the model is read. Linux only. As root, the
command runs as `nobody`; as another user, in a user namespace of its own. What it can see is a new root: the system's
programs, this Python and the named folders, all read-only, and a small scratch folder. It has a network namespace with
no interface, sees no other process, and can neither gain privileges nor make namespaces.

The command cannot outlive this process, which ends with its parent and after `seconds`.
"""

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any

# Exit codes of this program besides those of the command: it could not isolate itself; the command ended by itself
# with a code that means something else here.
NOT_ISOLATED = 125
ODD_CODE = 124
SIGNALLED = 128
NOBODY = 65_534

_NEW_USER, _NEW_PID, _NEW_NETWORK, _NEW_MOUNTS = 0x10000000, 0x20000000, 0x40000000, 0x00020000
_NEW_IPC, _NEW_UTS, _NEW_CGROUP = 0x08000000, 0x04000000, 0x02000000
_ALL = _NEW_PID | _NEW_NETWORK | _NEW_MOUNTS | _NEW_IPC | _NEW_UTS | _NEW_CGROUP
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_BIND, _RECURSIVE, _PRIVATE = 4_096, 16_384, 1 << 18
_DETACH = 2
_AT_CWD, _AT_RECURSIVE = -100, 0x8000
_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_NO_NEW_PRIVILEGES = 1, 4, 38
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442
_DEVICES = ("null", "zero", "random", "urandom")
_SCRATCH = "/tmp"  # noqa: S108 - the sandbox's own
# The numbers of processors, which runtimes read.
_PROCESSORS = "/sys/devices/system/cpu"


class _Attributes(ctypes.Structure):
    """`struct mount_attr` of mount_setattr(2)."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def main() -> None:
    """Isolate this process, run the command, and exit with its code."""
    plan: dict[str, Any] = json.loads(sys.argv[1])
    _call("prctl", _SET_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != plan["parent"]:
        os._exit(NOT_ISOLATED)
    user, group = os.geteuid(), os.getegid()
    is_root = user == 0
    started, starting = os.pipe()
    try:
        _call("unshare", _ALL if is_root else _ALL | _NEW_USER)
        if not is_root:
            _map_user(user, group)
        child = os.fork()
    except OSError as error:
        _fail(f"cannot make namespaces: {error.strerror}")
    if child == 0:
        try:
            _run(plan, is_root=is_root)
        except OSError as error:
            os.write(starting, f"{error.strerror}: {error.filename or ''}".encode()[:400])
        except BaseException as error:  # noqa: BLE001 - the edge of the process
            os.write(starting, type(error).__name__.encode())
        os._exit(NOT_ISOLATED)
    os.close(starting)
    _supervise(child, started, plan["seconds"])


def _supervise(child: int, started: int, seconds: int) -> None:
    """Wait for the command, kill it when this process is asked to end or its time is over, and exit with its code."""

    def kill(*_signal: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, kill)
    signal.alarm(seconds)
    # Their ends belong to the command alone.
    os.close(0)
    os.close(1)
    # Closed without a word as soon as the command runs.
    problem = os.read(started, 400)
    _, status = os.waitpid(child, 0)
    if problem:
        _fail(problem.decode(errors="replace"))
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if 0 <= code < ODD_CODE else ODD_CODE if code > 0 else SIGNALLED - code)


def _run(plan: dict[str, Any], *, is_root: bool) -> None:
    """Become the command, isolated; the first process of its namespace: all others in it end with it."""
    _call("prctl", _SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    with contextlib.suppress(OSError):
        # If memory is short, this process is the one to kill.
        _write("/proc/self/oom_score_adj", "1000")
    _build_root(plan)
    socket.sethostname("sandbox")
    _set_limits(plan)
    if is_root:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        _call("prctl", _SET_DUMPABLE, 1, 0, 0, 0)
        _call("unshare", _NEW_USER)
        _map_user(NOBODY, NOBODY)
    # Counted in this namespace, which the command cannot leave.
    _write("/proc/sys/user/max_user_namespaces", "0")
    _call("prctl", _SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _call("prctl", _SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    os.umask(0o077)
    nothing = os.open("/dev/null", os.O_WRONLY)
    os.dup2(nothing, 2)
    # A user other than root loses every capability here.
    os.execve(plan["command"][0], plan["command"], plan["environment"])  # noqa: S606 - no shell is wanted


def _build_root(plan: dict[str, Any]) -> None:
    """Make a new root of what the command may see, and leave the old one."""
    root = plan["root"]
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    _mount("tmpfs", root, "tmpfs", _NO_SUID, "mode=755,size=1m")
    for name, target in plan["links"]:
        Path(root + name).symlink_to(target)
    for name in ("/proc", _SCRATCH):
        Path(root + name).mkdir(0o755)
    # Before all others, because this Python can be below the same folder.
    scratch = f"mode=1777,size={plan['scratch_bytes']},nr_inodes=10000"
    _mount("tmpfs", root + _SCRATCH, "tmpfs", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS, scratch)
    devices = [[f"/dev/{name}", f"/dev/{name}"] for name in _DEVICES]
    processors = [[_PROCESSORS, _PROCESSORS]] if Path(_PROCESSORS).is_dir() else []
    for source, target in [*plan["mounts"], *devices, *processors]:
        place = Path(root + target)
        (place if Path(source).is_dir() else place.parent).mkdir(0o755, parents=True, exist_ok=True)
        if not place.exists():
            place.touch(0o644)
        _mount(source, root + target, None, _BIND | _RECURSIVE)
    _change(root, _AT_RECURSIVE, _Attributes(set=_READ_ONLY | _NO_SUID))
    _change(root + _SCRATCH, 0, _Attributes(clear=_READ_ONLY))
    _mount("proc", root + "/proc", "proc", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS)
    os.chdir(root)
    _call("syscall", ctypes.c_long(_PIVOT_ROOT[platform.machine()]), b".", b".")
    _call("umount2", b".", _DETACH)
    os.chdir(_SCRATCH)


def _set_limits(plan: dict[str, Any]) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, plan["memory_bytes"]),
        (resource.RLIMIT_CPU, plan["processor_seconds"]),
        (resource.RLIMIT_FSIZE, plan["scratch_bytes"]),
        (resource.RLIMIT_NPROC, plan["processes"]),
        (resource.RLIMIT_NOFILE, plan["files"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        resource.setrlimit(limit, (value, value))


def _map_user(user: int, group: int) -> None:
    """Be `nobody` in the new user namespace."""
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{NOBODY} {user} 1")
    _write("/proc/self/gid_map", f"{NOBODY} {group} 1")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    try:
        _call("mount", *texts[:3], ctypes.c_ulong(flags), texts[3])
    except OSError as error:
        raise OSError(error.errno, f"cannot mount ({error.strerror})", source or target) from error


def _change(mount: str, flags: int, attributes: _Attributes) -> None:
    """Change a mount, with the flag for recursion also those below it."""
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    number = ctypes.c_long(_MOUNT_SETATTR)
    _call("syscall", number, _AT_CWD, mount.encode(), flags, ctypes.byref(attributes), size)


def _call(name: str, *arguments: Any) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _fail(text: str) -> None:
    os.write(2, text.encode()[:400])
    os._exit(NOT_ISOLATED)


if __name__ == "__main__":
    main()
