"""A judge whose models need no loading."""

from collections.abc import Callable

from ml_backend.judge import JudgeRequest
from ml_backend.verdict import Verdict, judge
from tests.fakes.clock import NOON
from tests.fakes.target import FakeTarget


class FakeJudge:
    """Judges with FakePredictors of the versions that it is asked for; remembers what it was asked."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.asked: list[tuple[tuple[str, ...], dict[str, str], str | None]] = []
        self.before = before

    def judge(self, request: JudgeRequest) -> Verdict:
        self.before()
        spec, fields = request.spec, request.fields
        self.asked.append((tuple(request.versions), dict(fields), request.target))
        answers = [(version, FakeTarget(spec, version).predict([fields])[0]) for version in request.versions]
        return judge(spec, fields, answers, request.target, now=NOON)
