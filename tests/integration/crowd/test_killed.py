"""Payments under SIGKILL; `make bench-crash` runs the long version, on PostgreSQL too."""

from pathlib import Path

from tests.bench.crashing.chaos import survive


def test_every_hit_approval_bonus_and_top_up_happens_once_however_often_two_managers_are_killed(
    tmp_path: Path,
) -> None:
    found = survive(tmp_path, f"sqlite:///{tmp_path / 'outfox.db'}", kills=3, seed=11, fooling=1)
    books = found.books
    assert (found.kills, books.difference_cents, books.lost, books.doubled) == (3, 0, [], [])
    assert books.approvals == found.crew.submitted > 0
    assert books.bonuses > 0
    assert books.top_ups > 0
    assert found.jumps > 0
    assert found.calls > 0
