import re
from collections import Counter
from pathlib import Path

import pytest

from plugin import reference

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted(DOCS.glob("*.md")),
]


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == reference.PAGES[name](), "run `make docs`"


def test_every_command_is_documented_with_a_sentence() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for path in ("templates list", "templates preview", "model train", "model predict", "doctor", "demo", "db upgrade"):
        assert f"## `outfox {path}`" in text


def test_every_error_code_belongs_to_one_class() -> None:
    codes = Counter(re.findall(r"^\| `(\w+)` \|", (DOCS / "errors.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert len(codes) > 50
    assert [code for code, number in codes.items() if number > 1] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^(    .*|```(?:.|\n)*?```)$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file) if file else page
        assert found.exists(), target
        if anchor:
            assert anchor in _anchors(found.read_text(encoding="utf-8")), target
