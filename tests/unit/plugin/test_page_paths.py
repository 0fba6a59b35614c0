"""The pages about the code name modules and folders that exist, so that they cannot go stale."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("plugin", "round_manager", "ml_backend", "mturk", "crowd", "templates", "common", "outfox", "tests")
CONCEPTS, CONTRIBUTING = ROOT / "docs" / "concepts.md", ROOT / "CONTRIBUTING.md"
# A recipe proposes this folder for a new crowd.
NEW = {"crowd/prolific/"}
PATH = re.compile(r"`([\w.-]+/[\w./-]*|[\w-]+\.(?:py|js|html|cfg|md|toml))`")
DOTTED = re.compile(rf"\b(?:{'|'.join(PACKAGES)})(?:\.[a-z_]+)+")


def _paths(line: str) -> list[str]:
    return [path for path in PATH.findall(line) if path not in NEW]


def _exists(path: str, folders: list[str]) -> bool:
    return any((ROOT / folder / path).exists() for folder in ("", *folders))


@pytest.mark.parametrize("page", [CONCEPTS, CONTRIBUTING], ids=lambda page: page.name)
def test_every_path_on_the_page_exists(page: Path) -> None:
    inside = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        heading = re.match(r"Inside `(\w+)/`", line)
        inside = heading[1] if heading else "" if line.startswith("#") else inside
        paths = _paths(line)
        # In the map, the names after a folder are inside it.
        folders = [inside, paths[0]] if line.startswith("|") and paths else []
        missing = [path for path in paths if not _exists(path, folders)]
        assert not missing, line


@pytest.mark.parametrize("page", [CONCEPTS, CONTRIBUTING], ids=lambda page: page.name)
def test_every_dotted_name_on_the_page_exists(page: Path) -> None:
    text = re.sub(r"\S+/\S+|\S+\.(?:py|js|cfg|md|yaml)\b", "", page.read_text(encoding="utf-8"))
    for name in DOTTED.findall(text):
        place = ROOT / name.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").is_file(), name


def test_the_walk_of_one_example_counts_its_modules() -> None:
    text = CONCEPTS.read_text(encoding="utf-8")
    walk = text.split("## The walk of one example", 1)[1].split("\n### ", 1)[0]
    named = {path for path in _paths(walk) if path.startswith(PACKAGES)}
    rows = {path for line in walk.splitlines() if line.startswith("| `") for path in _paths(line)[:1]}
    total = re.search(r"In all (\d+) modules: (\d+) that hand the example on, and (\d+) helpers", walk)
    assert total is not None
    assert [int(number) for number in total.groups()] == [len(named), len(rows), len(named - rows)]
