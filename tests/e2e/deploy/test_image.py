"""What the Dockerfile promises, as far as one can see without building it; its steps are run where they can be."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from plugin.lock import LOCKS, read_lock
from tests.e2e.deploy.compose import ROOT

DOCKERFILE = ROOT / "Dockerfile"
PACKAGES = ("common", "crowd", "ml_backend", "mturk", "outfox", "plugin", "round_manager", "templates")
NOT_SHIPPED = {"__pycache__"}


def _steps() -> list[tuple[str, str]]:
    """Instruction and text of every step, lines put together."""
    text = re.sub(r"(?m)^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"))
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(line.split(None, 1)[0], re.sub(r"\s+", " ", line.split(None, 1)[1])) for line in lines]


def _of(kind: str) -> list[str]:
    return [text for one, text in _steps() if one == kind]


def test_both_stages_use_one_slim_base_image_of_a_full_version_and_any_digest() -> None:
    chosen = dict(text.split("=", 1) for text in _of("ARG"))
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", chosen["PYTHON_IMAGE"])
    assert chosen["PYTHON_DIGEST"] == ""
    assert [text.split()[0] for text in _of("FROM")] == ["${PYTHON_IMAGE}${PYTHON_DIGEST:+@${PYTHON_DIGEST}}"] * 2


def test_it_runs_as_an_unprivileged_user_and_in_exec_form() -> None:
    kinds = [kind for kind, _ in _steps()]
    assert _of("USER") == ["10001:10001"]
    assert set(kinds[kinds.index("USER") :]) == {"USER", "WORKDIR", "CMD"}
    assert json.loads(_of("CMD")[0]) == ["outfox", "--help"]
    assert "ADD" not in kinds


def test_without_a_command_it_lists_the_commands() -> None:
    program, *arguments = json.loads(_of("CMD")[0])
    command = [str(Path(sys.executable).parent / program), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    assert all(name in ran.stdout for name in ("serve", "ml-backend", "manage", "marketplace", "db"))


def test_dependencies_are_a_separate_layer_from_the_program_and_come_from_the_lock() -> None:
    steps = _steps()
    install = next(number for number, (kind, text) in enumerate(steps) if kind == "RUN" and "-r runtime.txt" in text)
    copied = [text for kind, text in steps[:install] if kind == "COPY"]
    assert copied == ["constraints.txt plugin/locks/runtime.txt ./"]
    locked, torch = steps[install][1].split("&&")
    assert "--require-hashes --no-deps" in locked
    assert "index" not in locked
    # Another index is asked for PyTorch alone, so that it cannot replace any other package.
    assert "--no-deps --index-url" in torch
    assert "grep '^torch==' constraints.txt" in torch
    assert "extra-index-url" not in DOCKERFILE.read_text(encoding="utf-8")


def test_its_packages_are_those_of_setup_cfg_without_test_dependencies() -> None:
    found = {package.name for package in read_lock(LOCKS / "runtime.txt")}
    assert {"flask", "label-studio", "psycopg-binary"} <= found
    assert not {"pytest", "ray", "torch"} & found


def test_the_image_gets_every_installed_file_and_no_secret() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "files that are not named are left out"
    let_in = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert {*PACKAGES, "setup.cfg", "pyproject.toml", "constraints.txt", "deploy", "README.md", "LICENSE"} <= let_in
    assert all((ROOT / name).exists() for name in let_in)
    assert not let_in & {".env", ".git", ".outfox", "tests"}


def test_the_installed_program_has_every_module_and_data_file(tmp_path: Path) -> None:
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    source = _copied(tmp_path / "source")
    subprocess.run([sys.executable, *build, "--wheel-dir", str(tmp_path), str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = set(packed.namelist())
    wanted = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and not NOT_SHIPPED & set(file.parts)
    }
    assert sorted(wanted - held) == []


def _copied(folder: Path) -> Path:
    """What the image is built from; building leaves files beside the source."""
    folder.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    return folder
