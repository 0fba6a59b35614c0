"""Programs and paths as they can be typed in the current folder."""

import os
import sys
from pathlib import Path

import pytest

from plugin.demo.welcome import shell_path, shell_program

HERE = Path(sys.executable).parent


def test_a_program_on_the_path_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(HERE))
    assert shell_program("outfox") == "outfox"


@pytest.mark.parametrize("there", ["none", "another"])
def test_a_program_off_the_path_is_shown_with_its_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: str
) -> None:
    if there == "another":
        (tmp_path / "outfox").write_text("#!/bin/sh\n")
        (tmp_path / "outfox").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), str(HERE)]) if there == "another" else str(tmp_path))
    monkeypatch.chdir(HERE.parent.parent)
    assert shell_program("outfox") == f"{HERE.parent.name}/{HERE.name}/outfox"
    monkeypatch.chdir(HERE)
    assert shell_program("outfox") == "./outfox"
    monkeypatch.chdir("/")
    assert shell_program("outfox") == str(HERE / "outfox")[1:]


def test_a_path_is_as_short_as_it_can_be_and_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "one" / "two" / "three").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert shell_path(tmp_path / "one" / "a file") == "'one/a file'"
    monkeypatch.chdir(tmp_path / "one" / "two" / "three")
    assert shell_path(Path("/x")) == "/x"
