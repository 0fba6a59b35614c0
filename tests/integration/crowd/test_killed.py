"""Payments under SIGKILL; `make bench-crash` runs the long version."""

from pathlib import Path

from tests.bench.crashing.chaos import survive


def test_every_hit_approval_and_bonus_happens_once_however_often_the_process_is_killed(tmp_path: Path) -> None:
    found = survive(tmp_path, hits=4, kills=2, seed=11)
    assert (found.kills, found.hits, found.approvals, found.bonuses) == (2, 4, 4, 4)
    assert found.ledger_diff_cents == 0
    assert found.in_flight > 0
    assert found.faults > 0
    assert found.events > 0
