"""The command as a process with a closed, full or limited output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Outfox

PROGRAM = Path(sys.executable).parent / "outfox"
FEW_CHARACTERS = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def _ran(home: Path, command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "OUTFOX_HOME": str(home), **settings}
    line = f"'{PROGRAM}' {command}"
    return subprocess.run(["/bin/sh", "-c", line], env=environment, capture_output=True, text=True, check=False)


def test_a_closed_output_does_not_stop_a_command(tmp_path: Path) -> None:
    ran = _ran(tmp_path, "templates list >&-")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("form", ["", "--json"])
def test_a_full_output_is_a_temporary_failure(tmp_path: Path, form: str) -> None:
    ran = _ran(tmp_path, f"templates list {form} >/dev/full")
    assert (ran.returncode, ran.stderr.count("\n")) == (3, 1)
    assert "No space left" in ran.stderr


@pytest.mark.sqlite("the command runs in a process of its own")
def test_characters_that_the_terminal_cannot_encode_are_escaped(outfox: Outfox, tmp_path: Path) -> None:
    context = tmp_path / "contexts.jsonl"
    context.write_text(json.dumps({"id": "caf\u00e9 \u2026", "prompt": "A prompt."}), encoding="utf-8")
    assert outfox("task", "create", "sentiment").code == 0
    assert outfox("context", "upload", "sentiment", context).code == 0
    for form in ("", "--json"):
        ran = _ran(tmp_path / "home", f"context list sentiment --most 100 {form}", **FEW_CHARACTERS)
        assert (ran.returncode, ran.stderr) == (0, "")
    (found,) = [one for one in json.loads(ran.stdout)["shown"] if one["id"].startswith("caf")]
    assert found["id"] == "caf\u00e9 \u2026"
