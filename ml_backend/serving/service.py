"""The verdict service: turns a parsed call into the reply that annotators read, independent of HTTP."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from common.clock import Clock
from ml_backend.errors import InvalidRequest, UnknownTask
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.feedback_cache import FeedbackCache, MemoryCache
from ml_backend.serving.limiter import ConcurrencyLimiter
from ml_backend.serving.outbox import AttemptSink
from ml_backend.serving.questions import PredictCall, PredictQuestion, QuestionReader
from ml_backend.serving.replies import Json, Replies, reply, versions_named
from ml_backend.targets.target import Target
from ml_backend.verdict import Verdict, judge
from templates.pack import Pack
from templates.spec import TaskSpec

SOURCE = "label_studio"
# Rows of a bulk call that are predicted in one slot: an interactive call waits no longer than these take.
ROWS_PER_SLOT = 16
# Seconds until a call times out. An annotator waits for an interactive one; Label Studio gives a bulk one 100 seconds.
TIMEOUT = 10.0
BULK_TIMEOUT = 90.0


class PinnedModels(Protocol):
    """The model versions that answer a task, or one of its rounds, at the moment."""

    @property
    def generation(self) -> int:
        """The generation of the pins; every later change has a greater one."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets, in the order in which they are pinned."""

    @property
    def concurrency(self) -> int | None:
        """How many calls may run at a time; None if this machine's processors set the limit."""


class ModelProvider(Protocol):
    """Provides loaded models; a lookup takes microseconds."""

    def models_for(self, task: str, round_number: int | None = None, /) -> PinnedModels:
        """Return the models that answer now; raise a BackendError whose `retry` says whether waiting helps."""

    def state(self) -> Any:
        """Return what is loaded, since when, and the last error, for operators."""


@dataclass(frozen=True)
class _ServedTask:
    spec: TaskSpec
    questions: QuestionReader
    replies: Replies
    joins: bool
    passage: str | None


def _no_count(_verdict: Verdict) -> None:
    """Count nothing."""


class VerdictService:
    """Answers the predict calls of several tasks with the models that are pinned for them."""

    def __init__(
        self,
        packs: Mapping[str, Pack],
        models: ModelProvider,
        sink: AttemptSink,
        clock: Clock,
        *,
        limiter: ConcurrencyLimiter | None = None,
        feedback_cache: FeedbackCache | None = None,
        on_verdict: Callable[[Verdict], None] = _no_count,
        timeout: float = TIMEOUT,
        bulk_timeout: float = BULK_TIMEOUT,
    ) -> None:
        self.models = models
        self.sink = sink
        self.limiter = limiter or ConcurrencyLimiter(at_once=1, room=64)
        self.timeout = timeout
        self.bulk_timeout = bulk_timeout
        self._clock = clock
        self._feedback_cache = feedback_cache or FeedbackCache(MemoryCache())
        self._on_verdict = on_verdict
        self._limiters: dict[tuple[str, ...], ConcurrencyLimiter] = {}
        self._packs = packs
        self._tasks = {name: _served_task(pack) for name, pack in packs.items()}
        self.initial_tasks = frozenset(self._tasks)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that are served here: the initial ones, and those that were added later."""
        return tuple(self._packs)

    def serves(self, task: str) -> bool:
        """Return whether the task is served here."""
        return task in self._packs

    def predict(self, task: str, round_number: int | None, body: object, arrived: float) -> Json:
        """Return the reply to a call; `arrived` is its time of arrival by `time.monotonic()`."""
        served = self._served(task)
        call = served.questions.read(body)
        if call.interactive:
            return self._interactive(served, round_number, call, arrived)
        return self._bulk(served, round_number, call, arrived + self.bulk_timeout)

    def judge(
        self, task: str, round_number: int | None, fields: Mapping[str, str], target: str | None, arrived: float
    ) -> Verdict:
        """Return the verdict on one text for a caller that stores it; nothing is put into the sink."""
        spec = self._served(task).spec
        missing = [name for name in spec.model_input if not fields.get(name, "").strip()]
        if missing:
            raise InvalidRequest(f"`{missing[0]}` is empty; the model reads {', '.join(spec.model_input)}")
        if target is not None and spec.kind == "classification" and target not in spec.label_names:
            raise InvalidRequest(f"`target` is not one of the task's labels: {', '.join(spec.label_names)}")
        models, deadline = self.models.models_for(task, round_number), arrived + self.timeout
        (verdict,) = self._judge(spec, round_number, models, [fields], [target], self._clock.now(), deadline)
        self._on_verdict(verdict)
        return verdict

    def check_setup(self, task: str, body: object) -> None:
        """Refuse a project whose labelling config is not one of the task."""
        self._served(task).questions.check_setup(body)

    def versions(self, task: str, round_number: int | None) -> list[str]:
        """Return the versions that answer now."""
        self._served(task)
        return [one.version for one in self.models.models_for(task, round_number).targets]

    def _interactive(self, served: _ServedTask, round_number: int | None, call: PredictCall, arrived: float) -> Json:
        models = self.models.models_for(served.spec.name, round_number)
        version, answers = _name_of(models), []
        for question in call.questions:
            if call.shows_feedback:
                answers.append(self._attempt(served, round_number, models, call.project, question, arrived))
            else:
                answers.append(served.replies.nothing(version))
        return reply(answers, answers[-1]["model_version"] if answers else version)

    def _attempt(
        self,
        served: _ServedTask,
        round_number: int | None,
        models: PinnedModels,
        project: int | None,
        question: PredictQuestion,
        arrived: float,
    ) -> Json:
        """Return the verdict with the attempt's number, or why there is none; nothing while a field is empty."""
        now = self._clock.now()
        key = None if project is None or question.task is None else (served.spec.name, project, question.task)
        inputs, target = question.inputs, question.target
        if key and served.joins and (inputs or target is not None):
            inputs, target = self._feedback_cache.join(key, inputs, target, now.timestamp())
            if target is not None and served.passage and target not in question.context[served.passage]:
                target = None
        refusal = served.questions.refusal(inputs, target, emptied=question.emptied)
        if refusal is not None:
            return served.replies.notice(refusal, _name_of(models))
        if not served.questions.is_complete(inputs, question.context):
            return served.replies.nothing(_name_of(models))
        fields = {**question.context, **inputs}
        (verdict,) = self._judge(served.spec, round_number, models, [fields], [target], now, arrived + self.timeout)
        number = self._feedback_cache.count(key, verdict.inputs_hash, now.timestamp()) if key else None
        latency_us = int((time.monotonic() - arrived) * 1_000_000)
        self.sink.put(AttemptRecord(verdict, fields, round_number, latency_us, SOURCE, project, question.task))
        self._on_verdict(verdict)
        return served.replies.verdict(verdict, number, inputs)

    def _bulk(self, served: _ServedTask, round_number: int | None, call: PredictCall, deadline: float) -> Json:
        """Predict every task that has all the fields that the model reads; the others get an empty answer."""
        models = self.models.models_for(served.spec.name, round_number)
        version = _name_of(models)
        answers = [served.replies.nothing(version) for _ in call.questions]
        ready = [
            place
            for place, question in enumerate(call.questions)
            if call.shows_feedback and served.questions.is_complete(question.inputs, question.context)
        ]
        size = min(ROWS_PER_SLOT, *(one.capabilities.batch_size for one in models.targets))
        for first in range(0, len(ready), size):
            places = ready[first : first + size]
            asked = [call.questions[place] for place in places]
            rows, expected = [{**one.context, **one.inputs} for one in asked], [one.target for one in asked]
            verdicts = self._judge(served.spec, round_number, models, rows, expected, self._clock.now(), deadline)
            for place, verdict in zip(places, verdicts, strict=True):
                answers[place] = served.replies.verdict(verdict)
        return reply(answers, answers[ready[-1]]["model_version"] if ready else version)

    def _judge(
        self,
        spec: TaskSpec,
        round_number: int | None,
        models: PinnedModels,
        rows: Sequence[Mapping[str, str]],
        expected: Sequence[str | None],
        now: datetime,
        deadline: float,
    ) -> list[Verdict]:
        """Return the verdicts of the pinned models; `models` were looked up, and so loaded, before taking a slot."""
        limiter = self.limiter if models.concurrency is None else self._own_limiter(models, models.concurrency)
        with limiter.slot(deadline):
            # Looked up again: the pins may have changed while this call waited.
            targets = self.models.models_for(spec.name, round_number).targets
            outputs = [(target.version, target.predict(rows)) for target in targets]
        return [
            judge(spec, row, [(version, answers[place]) for version, answers in outputs], answer, now=now)
            for place, (row, answer) in enumerate(zip(rows, expected, strict=True))
        ]

    def _own_limiter(self, models: PinnedModels, limit: int) -> ConcurrencyLimiter:
        """Return the limiter of models that all run elsewhere."""
        versions = tuple(target.version for target in models.targets)
        return self._limiters.setdefault(versions, ConcurrencyLimiter(limit, self.limiter.load().room))

    def _served(self, task: str) -> _ServedTask:
        served = self._tasks.get(task)
        if served is None:
            pack = self._packs.get(task)
            if pack is None:
                raise UnknownTask(
                    f"task `{task}` is not served; this backend serves {', '.join(self._packs) or 'none'}"
                )
            served = self._tasks[task] = _served_task(pack)
        return served


def _name_of(models: PinnedModels) -> str:
    return versions_named([one.version for one in models.targets])


def _served_task(pack: Pack) -> _ServedTask:
    spec = pack.spec
    joins = spec.target.set_by == "annotator" or len(spec.with_role("input")) > 1
    passage = spec.model_input[1] if spec.kind == "qa" else None
    return _ServedTask(spec, QuestionReader(spec), Replies(pack), joins, passage)
