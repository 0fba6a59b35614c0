"""A judge whose models need no loading."""

from collections.abc import Callable, Mapping, Sequence

from ml_backend.verdict import Verdict, judge
from templates import TaskSpec
from tests.fakes.clock import NOON
from tests.fakes.target import FakeTarget


class FakeJudge:
    """Judges with FakePredictors of the versions that it is asked for; remembers what it was asked."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.asked: list[tuple[tuple[str, ...], dict[str, str], str | None]] = []
        self.before = before

    def judge(self, spec: TaskSpec, versions: Sequence[str], fields: Mapping[str, str], target: str | None) -> Verdict:
        self.before()
        self.asked.append((tuple(versions), dict(fields), target))
        answers = [(version, FakeTarget(spec, version).predict([fields])[0]) for version in versions]
        return judge(spec, fields, answers, target, now=NOON)
