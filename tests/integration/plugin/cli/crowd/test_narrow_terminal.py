"""In a narrow terminal, ids can still be copied and headers can still be read."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from plugin.cli.output import table
from tests.integration.plugin.cli.crowd.crowd_commands import SENTIMENT, CrowdCommands

KEY, ASSIGNMENT = f"x-{'0a' * 16}", f"3{'ABC' * 9}XY"


def printed(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> list[str]:
    """The lines of a table in a terminal of that width."""
    out = io.StringIO()
    Console(file=out, width=width, markup=False).print(table(columns, rows))
    return out.getvalue().splitlines()


def words_of(lines: list[str]) -> set[str]:
    return {word for line in lines for word in line.split()}


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_word_is_broken_however_narrow_the_terminal(width: int) -> None:
    columns = ("key", "assignment", "costs", "approves itself", "why")
    row = (KEY, ASSIGNMENT, "$0.60", "2026-11-16 13:46 UTC", "the marketplace does not show it")
    lines = printed(columns, [row, row], width)
    assert max(map(len, lines)) <= width
    assert words_of(lines) >= {word for text in (*row, *columns[1:]) for word in text.split()}


def test_a_table_wraps_between_words_before_it_becomes_a_list() -> None:
    columns, row = ("worker", "to decide", "why"), ("A2EXAMPLE00001", 3, "copied from the web")
    assert [line.split() for line in printed(columns, [row], 39)] == [
        ["worker", "to", "decide", "why"],
        ["A2EXAMPLE00001", "3", "copied", "from"],
        ["the", "web"],
    ]
    assert [line.rstrip() for line in printed(columns, [row], 24)] == [
        "A2EXAMPLE00001",
        "  to decide 3 · why",
        "  copied from the web",
    ]


def test_a_row_that_begins_with_a_number_names_its_column() -> None:
    columns, rows = ("round", "state", "model"), [(1, "closed", "v1-0123456789ab"), (2, "open", "v2-ba9876543210")]
    assert printed(columns, rows, 20)[0].rstrip() == "round 1"
    assert "round 2" in [line.rstrip() for line in printed(columns, rows, 20)]


def test_a_column_without_a_header_shows_its_cells() -> None:
    assert [line.rstrip() for line in printed(("what", "", "found"), [("Python", "ok", "3.11.7")], 12)] == [
        "Python",
        "  ok · found",
        "  3.11.7",
    ]


def test_numbers_are_right_aligned_and_an_empty_table_has_headers() -> None:
    assert printed(("HITs",), [(7,), (10_000,)], 80) == ["  HITs", "     7", "10,000"]
    assert printed(("HITs", "kind"), [], 80) == ["HITs  kind"]


def test_at_80_columns_every_id_stays_whole_and_every_line_fits(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.post_hits(2)
    undecided, worker = commands.submit_hit(), commands.worker().id
    commands.run_json("block", worker, "--reason", "Copied.")
    commands.run_json("status")
    held = commands.owe_bonus(undecided)
    commands.mark_sent(held)
    monkeypatch.setenv("COLUMNS", "80")
    shown = {command: commands.run_text(*command.split()).splitlines() for command in (
        "workers", "status", "balance", "statement", f"post {SENTIMENT} --kind create --hits 3 --dry-run",
    )}  # fmt: skip
    for command, lines in shown.items():
        assert max(map(len, lines)) <= 80, command
    assert worker in words_of(shown["workers"])
    assert words_of(shown["status"]) >= {undecided, worker, held, "available", "pending", "approved", "rejected"}
    assert words_of(shown["statement"]) >= {"reserved", "released", "budget"}
