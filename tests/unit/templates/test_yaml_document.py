from pathlib import Path

import pytest
import yaml

from templates import BUILT_IN, yaml_document
from templates.errors import PackError
from templates.yaml_document import YamlDocument
from tests.conftest import PACKS

MISTAKES = {
    "a tab for a space": ("kind:", "kind:\t"),
    "a sign": ("kind: ", "kind: %"),
    "a quote": ("kind: ", 'kind: "'),
    "a colon": ("kind: ", "kind: a: "),
    "a brace": ("kind: ", "kind: {"),
    "an indented key": ("kind:", " kind:"),
    "a bell": ("kind: ", "kind: \x07"),
    "an alias": ("kind: ", "kind: *a #"),
    "an unknown tag": ("kind: ", "kind: !!nobody "),
    "an invalid number": ("kind: ", "kind: !!int "),
    "an impossible date": ("kind: ", "kind: 2027-13-45 #"),
    "a repeated key": ("kind:", "kind: qa\nkind:"),
}


def read(path: Path) -> tuple[object, ...]:
    """Return the values of a file with their lines, or its problems."""
    try:
        found = YamlDocument(path)
    except PackError as error:
        return (str(error),)
    return found.value, found._lines


@pytest.mark.parametrize("name", PACKS)
def test_both_loaders_read_the_same_values_and_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = read(BUILT_IN / name / "task.yaml")
    assert len(fast) == 2
    monkeypatch.setattr(yaml_document, "FAST_LOADER", yaml.SafeLoader)
    assert read(BUILT_IN / name / "task.yaml") == fast


@pytest.mark.parametrize(("old", "new"), MISTAKES.values(), ids=MISTAKES.keys())
def test_both_loaders_report_the_same_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    text = (BUILT_IN / "nli" / "task.yaml").read_text(encoding="utf-8")
    (tmp_path / "task.yaml").write_text(text.replace(f"\n{old}", f"\n{new}", 1), encoding="utf-8")
    fast = read(tmp_path / "task.yaml")
    assert len(fast) == 1
    monkeypatch.setattr(yaml_document, "FAST_LOADER", yaml.SafeLoader)
    assert read(tmp_path / "task.yaml") == fast
