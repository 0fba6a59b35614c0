"""A short `make bench-rotate`: real servers over HTTP, with instant models."""

import sys
from pathlib import Path

from ml_backend.registry.registry import open_registry
from ml_backend.registry.rotation import rotate
from templates import find_pack
from tests.bench.rotation import Clients, questions_about, rotate_under_load, servers
from tests.fakes import rotating_backend
from tests.fakes.registry import TASK, load_fixed, make_version

ROTATIONS = 6


def test_rotations_behind_http_cause_no_failed_wrong_or_stale_answer(tmp_path: Path) -> None:
    models = tmp_path / "models"
    registry = open_registry(str(models), tmp_path)
    versions = [make_version(models, label) for label in ("positive", "negative")]
    targets = [load_fixed(models / TASK / version) for version in versions]
    questions = questions_about(find_pack(TASK), ["A fine day.", "A grey day."], targets)
    assert len(questions) == 2

    def rotate_to(version: str) -> None:
        rotate(registry, TASK, [version], load=load_fixed)

    rotate_to(versions[0])
    command = [sys.executable, rotating_backend.__file__, str(models), str(tmp_path / "cache")]
    with servers(command, 2) as ports:
        clients = Clients(ports, f"/tasks/{TASK}/predict", questions, concurrency=16)
        report = rotate_under_load(clients, versions, rotate_to, rotations=ROTATIONS, quiet_seconds=0.5)
        assert len(registry.heartbeats(TASK)) == 2, "both have said what they serve"

    summary = report.summary()
    assert (summary["failed"], summary["mismatched"], summary["stale"]) == (0, 0, 0), report.failures
    assert (summary["rotations"], len(report.calm)) == (ROTATIONS, ROTATIONS + 1)
    assert {one.version for one in report.asked} == set(versions)
    assert registry.heartbeats(TASK) == [], "both have taken their leave"
