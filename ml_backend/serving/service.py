"""The verdict service: from what a call asks to what its people read, with nothing of HTTP in it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.errors import RequestRefused
from ml_backend.serving.gate import Gate
from ml_backend.serving.notes import OwnNotes
from ml_backend.serving.questions import Call, Question, QuestionReader
from ml_backend.serving.recollection import Recollection
from ml_backend.serving.replies import Json, Replies, reply, versions_named
from ml_backend.serving.sink import Sink
from ml_backend.targets.target import Target
from ml_backend.verdict import Verdict, judge
from templates.pack import Pack
from templates.spec import TaskSpec
from templates.written import TooLong

SOURCE = "label_studio"
# Rows of a bulk call that are asked in one turn: whoever writes just now waits no longer than these take.
ROWS_IN_A_TURN = 16
# Seconds until a call is given up: somebody waits for an interactive one; Label Studio gives a bulk one 100 seconds.
PATIENCE = 10.0
BULK_PATIENCE = 90.0


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """This moment, aware, in UTC."""
        ...


class UtcClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """This moment, aware, in UTC."""
        return datetime.now(UTC)


class Pinned(Protocol):
    """The model versions that answer a task, or one of its rounds, just now."""

    @property
    def generation(self) -> int:
        """Which pinning this is; every later one has a greater number."""
        ...

    @property
    def predictors(self) -> tuple[Target, ...]:
        """The versions' predictors, in the order in which they are pinned."""
        ...


class Shelf(Protocol):
    """Where the models stand ready; asking costs microseconds."""

    def models_for(self, task: str, round_number: int | None = None, /) -> Pinned:
        """What answers now; a BackendError whose `retry` says whether waiting helps."""
        ...

    def state(self) -> Any:
        """What is loaded, since when, and what went wrong last, for people to read."""
        ...


@dataclass(frozen=True)
class _Task:
    spec: TaskSpec
    questions: QuestionReader
    replies: Replies
    joins: bool
    passage: str | None


def _tell_nobody(_verdict: Verdict) -> None:
    """Where nobody counts."""


class VerdictService:
    """Answers the predict calls of several tasks with whatever models their shelf holds."""

    def __init__(
        self,
        packs: Mapping[str, Pack],
        shelf: Shelf,
        sink: Sink,
        clock: Clock | None = None,
        *,
        gate: Gate | None = None,
        recollection: Recollection | None = None,
        told: Callable[[Verdict], None] = _tell_nobody,
        patience: float = PATIENCE,
        bulk_patience: float = BULK_PATIENCE,
    ) -> None:
        self.shelf = shelf
        self.sink = sink
        self.gate = gate or Gate(at_once=1, room=64)
        self.patience = patience
        self.bulk_patience = bulk_patience
        self._clock = clock or UtcClock()
        self._recollection = recollection or Recollection(OwnNotes())
        self._told = told
        self._packs = packs
        self._tasks = {name: _task(pack) for name, pack in packs.items()}
        self.first_tasks = frozenset(self._tasks)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that are served here: those of the beginning, and those whose packs came since."""
        return tuple(self._packs)

    def serves(self, task: str) -> bool:
        """Whether the task is served here."""
        return task in self._packs

    def predict(self, task: str, round_number: int | None, body: object, arrived: float) -> Json:
        """The reply to a call that arrived when time.monotonic() said so, or an error that says why there is none."""
        served = self._served(task)
        call = served.questions.read(body)
        if call.interactive:
            return self._interactive(served, round_number, call, arrived)
        return self._bulk(served, round_number, call, arrived + self.bulk_patience)

    def judge(
        self, task: str, round_number: int | None, fields: Mapping[str, str], target: str | None, arrived: float
    ) -> Verdict:
        """What the models say to one text, for whoever keeps it themselves: nothing is put into the sink."""
        spec = self._served(task).spec
        missing = [name for name in spec.model_input if not fields.get(name, "").strip()]
        if missing:
            raise RequestRefused(400, f"`{missing[0]}` is empty; the model reads {', '.join(spec.model_input)}")
        self.shelf.models_for(task, round_number)
        deadline = arrived + self.patience
        (verdict,) = self._judge(spec, round_number, [fields], [target], self._clock.now(), deadline)
        self._told(verdict)
        return verdict

    def check_setup(self, task: str, body: object) -> None:
        """Refuses a project whose labelling config is not the task's."""
        self._served(task).questions.check_setup(body)

    def versions(self, task: str, round_number: int | None) -> list[str]:
        """The versions that answer now."""
        self._served(task)
        return [predictor.version for predictor in self.shelf.models_for(task, round_number).predictors]

    def _interactive(self, served: _Task, round_number: int | None, call: Call, arrived: float) -> Json:
        version = self._ready(served, round_number)
        answers = []
        for question in call.questions:
            told = self._try(served, round_number, call.project, question, arrived) if call.shows_feedback else None
            answers.append(_answer(served.replies, told, version))
        return reply(answers, answers[-1]["model_version"] if answers else version)

    def _try(
        self, served: _Task, round_number: int | None, project: int | None, question: Question, arrived: float
    ) -> tuple[Verdict, int | None] | TooLong | None:
        """The verdict with the tries behind it; or what is too long for one; or nothing, while something is missing."""
        now = self._clock.now()
        key = None if project is None or question.task is None else (served.spec.name, project, question.task)
        inputs, target = question.inputs, question.target
        if key and served.joins and (inputs or target is not None):
            inputs, target = self._recollection.join(key, inputs, target, now.timestamp())
            if target is not None and served.passage and target not in question.context[served.passage]:
                target = None
        long = served.questions.too_long(inputs, target)
        if long is not None:
            return long
        if not served.questions.is_complete(inputs, question.context):
            return None
        fields = {**question.context, **inputs}
        (verdict,) = self._judge(served.spec, round_number, [fields], [target], now, arrived + self.patience)
        tries = self._recollection.count(key, verdict.inputs_hash, now.timestamp()) if key else None
        latency_us = int((time.monotonic() - arrived) * 1_000_000)
        self.sink.put(AttemptRecord(verdict, fields, round_number, latency_us, SOURCE, project, question.task))
        self._told(verdict)
        return verdict, tries

    def _bulk(self, served: _Task, round_number: int | None, call: Call, deadline: float) -> Json:
        """Answers for every task that holds all that the model reads; a task still to be written for gets none."""
        version = self._ready(served, round_number)
        answers = [served.replies.nothing(version) for _ in call.questions]
        ready = [
            place
            for place, question in enumerate(call.questions)
            if call.shows_feedback and served.questions.is_complete(question.inputs, question.context)
        ]
        for first in range(0, len(ready), ROWS_IN_A_TURN):
            places = ready[first : first + ROWS_IN_A_TURN]
            asked = [call.questions[place] for place in places]
            rows, targets = [{**one.context, **one.inputs} for one in asked], [one.target for one in asked]
            verdicts = self._judge(served.spec, round_number, rows, targets, self._clock.now(), deadline)
            for place, verdict in zip(places, verdicts, strict=True):
                answers[place] = served.replies.verdict(verdict, None)
        return reply(answers, answers[ready[-1]]["model_version"] if ready else version)

    def _ready(self, served: _Task, round_number: int | None) -> str:
        """The versions' name; where a model must be loaded first, that happens here and not while others wait."""
        return versions_named([one.version for one in self.shelf.models_for(served.spec.name, round_number).predictors])

    def _judge(
        self,
        spec: TaskSpec,
        round_number: int | None,
        rows: Sequence[Mapping[str, str]],
        targets: Sequence[str | None],
        now: datetime,
        deadline: float,
    ) -> list[Verdict]:
        with self.gate.turn(deadline):
            # Asked for only now: while this call waited, another version may have taken over.
            predictors = self.shelf.models_for(spec.name, round_number).predictors
            said = [(predictor.version, predictor.predict(rows)) for predictor in predictors]
        return [
            judge(spec, row, [(version, answers[place]) for version, answers in said], target, now=now)
            for place, (row, target) in enumerate(zip(rows, targets, strict=True))
        ]

    def _served(self, task: str) -> _Task:
        served = self._tasks.get(task)
        if served is None:
            pack = self._packs.get(task)
            if pack is None:
                here = f"this backend serves {', '.join(self._packs) or 'no task yet'}"
                raise RequestRefused(404, f"there is no task `{task}` here; {here}")
            served = self._tasks[task] = _task(pack)
        return served


def _answer(replies: Replies, told: tuple[Verdict, int | None] | TooLong | None, version: str) -> Json:
    if told is None:
        return replies.nothing(version)
    return replies.too_long(told, version) if isinstance(told, TooLong) else replies.verdict(*told)


def _task(pack: Pack) -> _Task:
    spec = pack.spec
    joins = spec.target.set_by == "annotator" or len(spec.with_role("input")) > 1
    passage = spec.model_input[1] if spec.kind == "qa" else None
    return _Task(spec, QuestionReader(spec), Replies(pack), joins, passage)
