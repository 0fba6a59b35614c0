# ruff: noqa: INP001 - a script, run by its path
"""Write the locks: every package that Outfox needs, with its version and the hashes of its files.

python deploy/lock.py [--upgrade]

It needs uv on the PATH, and an index. The locks are valid for Linux and macOS. PyTorch and the CUDA packages that it
brings are left out: a machine with another kind of processor needs another build of them. constraints.txt pins the
version of PyTorch.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from requirements import requirements

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "plugin" / "locks"
AUDIT = ROOT / "deploy" / "audit.txt"
# Each lock contains what the earlier ones do not; `runtime` is what an image for production installs.
GROUPS = {"runtime": ["label-studio", "postgres"], "ray": ["ray"], "test": ["test"]}
NEWEST_PYTHON = "3.14"
SUPPORTED = f"python_full_version < '{NEWEST_PYTHON}'"
# Some packages have other requirements on PyPy, for which PyTorch has no files.
CPYTHON = f"{SUPPORTED} and implementation_name == 'cpython' and platform_python_implementation == 'CPython'"
ON_PLATFORMS = [f"{CPYTHON} and sys_platform == '{name}'" for name in ("linux", "darwin")]
EVERYWHERE = f" ; ({CPYTHON} and sys_platform == 'darwin') or ({CPYTHON} and sys_platform == 'linux')"
LEFT_OUT = re.compile(r"torch|triton|nvidia-.*|cuda-.*")
HEADER = """# {what}
# Written by `make lock`. PyTorch is not in it: constraints.txt has its version.
"""
WHAT = {
    "runtime": "What Outfox needs in production, with Label Studio and PostgreSQL.",
    "ray": "What the extra `ray` needs in addition.",
    "test": "What the tests need in addition.",
}


def compile_lock(wanted: list[str], constraints: str, *, upgrade: bool) -> str:
    """Return the lock of these requirements, as uv writes it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        platforms = ", ".join(f'"{one}"' for one in ON_PLATFORMS)
        project = '[project]\nname = "outfox"\nversion = "0"\nrequires-python = ">=3.11"\n'
        (folder / "pyproject.toml").write_text(f"{project}[tool.uv]\nenvironments = [{platforms}]\n", encoding="utf-8")
        (folder / "requirements.in").write_text("\n".join(wanted), encoding="utf-8")
        (folder / "constraints.txt").write_text(constraints, encoding="utf-8")
        options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url"]
        options += [
            "--no-emit-find-links",
            "--no-header",
            "--no-annotate",
            "--quiet",
            "--constraints",
            "constraints.txt",
        ]
        options += ["--upgrade"] if upgrade else []
        command = ["uv", "pip", "compile", *options, "--output-file", "lock.txt", "requirements.in"]
        subprocess.run(command, cwd=folder, check=True)
        return (folder / "lock.txt").read_text(encoding="utf-8")


def entries(lock: str) -> dict[str, str]:
    """Return the entries of a lock: the lines of each pinned package, by `name==version ; marker`."""
    found: dict[str, str] = {}
    for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock):
        if "==" in entry and not LEFT_OUT.fullmatch(entry.partition("==")[0]):
            short = entry.replace(EVERYWHERE, "").rstrip() + "\n"
            found[short.partition("\\")[0].strip()] = short
    return found


def _pins(lock: str) -> str:
    """Return the versions of a lock as constraints; markers only where a package has several versions."""
    found = list(entries(lock))
    names = Counter(one.partition("==")[0] for one in found)
    return "".join((one if names[one.partition("==")[0]] > 1 else one.partition(" ;")[0]) + "\n" for one in found)


def write_locks(*, upgrade: bool) -> None:
    """Resolve everything at once, so that all locks agree, then write each group's part."""
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    if not upgrade:
        # Versions change only when they have to.
        pins += _pins("".join(path.read_text(encoding="utf-8") for path in sorted(LOCKS.glob("*.txt"))))
    every = compile_lock(requirements(setup, list(chain(*GROUPS.values()))), pins, upgrade=upgrade)
    agreed = pins + _pins(every)
    written: set[str] = set()
    extras: list[str] = []
    for group, more in GROUPS.items():
        extras += more
        found = entries(
            every if group == list(GROUPS)[-1] else compile_lock(requirements(setup, extras), agreed, upgrade=False)
        )
        new = [lines for name, lines in found.items() if name not in written]
        written.update(found)
        LOCKS.mkdir(exist_ok=True)
        (LOCKS / f"{group}.txt").write_text(HEADER.format(what=WHAT[group]) + "".join(new), encoding="utf-8")
        print(f"{group}: {len(new)} packages")


def write_audit_lock(*, upgrade: bool) -> None:
    """Write the lock of pip-audit, which has a separate environment: it must not decide what we install."""
    pins = "" if upgrade or not AUDIT.is_file() else _pins(AUDIT.read_text(encoding="utf-8"))
    found = entries(compile_lock(["pip-audit"], pins, upgrade=upgrade))
    what = "What `make audit` needs, in a separate environment."
    AUDIT.write_text(HEADER.format(what=what) + "".join(found.values()), encoding="utf-8")


if __name__ == "__main__":
    write_locks(upgrade="--upgrade" in sys.argv[1:])
    write_audit_lock(upgrade="--upgrade" in sys.argv[1:])
