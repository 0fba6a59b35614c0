from pathlib import Path

import pytest
import yaml

from templates import BUILT_IN, yaml_lines
from templates.errors import PackError
from templates.yaml_lines import LinedYaml
from tests.conftest import PACKS

SPOILED = {
    "a tab for a space": ("kind:", "kind:\t"),
    "a sign": ("kind: ", "kind: %"),
    "a quote": ("kind: ", 'kind: "'),
    "a colon": ("kind: ", "kind: a: "),
    "a brace": ("kind: ", "kind: {"),
    "an indented key": ("kind:", " kind:"),
    "a bell": ("kind: ", "kind: \x07"),
    "an alias": ("kind: ", "kind: *a #"),
    "a tag of nobody's": ("kind: ", "kind: !!nobody "),
    "a number that is none": ("kind: ", "kind: !!int "),
    "a date of no calendar": ("kind: ", "kind: 2027-13-45 #"),
    "a key again": ("kind:", "kind: qa\nkind:"),
}


def read(path: Path) -> tuple[object, ...]:
    """What is in the file and where, or what is said to be wrong with it."""
    try:
        found = LinedYaml(path)
    except PackError as error:
        return (str(error),)
    return found.value, found._lines


@pytest.mark.parametrize("name", PACKS)
def test_without_libyaml_a_pack_has_the_same_values_on_the_same_lines(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = read(BUILT_IN / name / "task.yaml")
    assert len(quick) == 2
    monkeypatch.setattr(yaml_lines, "QUICK", yaml.SafeLoader)
    assert read(BUILT_IN / name / "task.yaml") == quick


@pytest.mark.parametrize(("old", "new"), SPOILED.values(), ids=SPOILED.keys())
def test_without_libyaml_the_same_is_wrong_with_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    text = (BUILT_IN / "nli" / "task.yaml").read_text(encoding="utf-8")
    (tmp_path / "task.yaml").write_text(text.replace(f"\n{old}", f"\n{new}", 1), encoding="utf-8")
    quick = read(tmp_path / "task.yaml")
    assert len(quick) == 1
    monkeypatch.setattr(yaml_lines, "QUICK", yaml.SafeLoader)
    assert read(tmp_path / "task.yaml") == quick
