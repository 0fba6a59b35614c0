from pathlib import Path

import pytest

from plugin.reference import pages

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_generated_page_is_as_it_would_be_written_now(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == pages()[name], "run `make docs`"


def test_every_command_is_documented_with_a_sentence() -> None:
    text = pages()["cli.md"]
    for path in ("templates list", "templates preview", "model train", "model predict", "doctor", "demo", "db upgrade"):
        assert f"## `outfox {path}`" in text
