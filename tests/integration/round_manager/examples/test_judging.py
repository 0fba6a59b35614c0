from pathlib import Path

import pytest

from ml_backend.errors import ModelError
from ml_backend.judge import Judge, JudgeRequest, RegistryJudge
from ml_backend.registry.local import LocalRegistry
from ml_backend.targets.target import Target
from templates import find_pack
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.registry import ROW, corrupt, load_fixed, make_version

SPEC = find_pack("sentiment").spec


class Loads:
    """Loads versions and records every load."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def __call__(self, directory: Path) -> Target:
        self.loaded.append(directory.name)
        return load_fixed(directory)


def judge_of(models: Path, load: Loads, max_loaded: int = 8) -> Judge:
    return RegistryJudge(lambda: LocalRegistry(models), load, now=SettableClock().now, max_loaded=max_loaded)


def test_the_pinned_versions_judge_in_their_order(tmp_path: Path) -> None:
    right, wrong = make_version(tmp_path, "positive"), make_version(tmp_path, "negative")
    verdict = judge_of(tmp_path, Loads()).judge(JudgeRequest(SPEC, 1, [wrong, right], ROW, "positive"))
    assert [(one.version, one.prediction, one.fooled) for one in verdict.outputs] == [
        (wrong, "negative", True),
        (right, "positive", False),
    ]
    assert verdict.is_about(SPEC, ROW, "positive")
    assert verdict.judged_at == NOON


def test_a_version_is_loaded_once_however_often_it_judges(tmp_path: Path) -> None:
    version, load = make_version(tmp_path), Loads()
    judge = judge_of(tmp_path, load)
    ids = {judge.judge(JudgeRequest(SPEC, 1, [version], ROW, "positive")).id for _ in range(3)}
    assert load.loaded == [version]
    assert len(ids) == 3


def test_at_most_max_loaded_versions_stay_loaded(tmp_path: Path) -> None:
    first, second, third = (make_version(tmp_path, note=note) for note in "abc")
    load = Loads()
    judge = judge_of(tmp_path, load, max_loaded=2)
    for version in (first, second, first, third, first, second):
        judge.judge(JudgeRequest(SPEC, 1, [version], ROW, "positive"))
    assert load.loaded == [first, second, third, second]


def test_a_version_with_changed_files_gives_no_verdict(tmp_path: Path) -> None:
    version = make_version(tmp_path)
    corrupt(tmp_path / "sentiment" / version)
    with pytest.raises(ModelError):
        judge_of(tmp_path, Loads()).judge(JudgeRequest(SPEC, 1, [version], ROW, "positive"))
