"""A verdict: what the models said to one text, and whether they were fooled."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from ml_backend.errors import VerdictError
from ml_backend.fooled_rules import ensemble_fooled, find_rule
from ml_backend.targets.target import LabelPrediction, Prediction
from templates.spec import TaskSpec


@dataclass(frozen=True)
class ModelSaid:
    """One model version's answer, and whether it was fooled (None while the target is not known)."""

    version: str
    prediction: str
    confidence: float
    probabilities: Mapping[str, float]
    fooled: bool | None


@dataclass(frozen=True)
class Verdict:
    """What the models said to exactly these inputs and this target, and when; its id is its own for ever."""

    id: UUID
    task: str
    inputs_hash: str
    target: str | None
    said: tuple[ModelSaid, ...]
    fooled: bool | None
    judged_at: datetime

    @property
    def shown(self) -> ModelSaid:
        """The first model whose own case is the case of all: what an annotator is told about."""
        return next((one for one in self.said if one.fooled == self.fooled), self.said[0])

    def is_about(self, spec: TaskSpec, fields: Mapping[str, str], target: str | None) -> bool:
        """Whether this verdict was given on these inputs with this target, to the letter."""
        same_inputs = self.inputs_hash == inputs_hash(spec, fields)
        return self.task == spec.name and same_inputs and self.target == target

    def sentence(self, spec: TaskSpec) -> str:
        """What the annotator reads, in the task's language."""
        message = {True: spec.messages.fooled, False: spec.messages.not_fooled, None: spec.messages.answered}
        shown = self.shown
        slots = {
            "prediction": _readable(spec, shown.prediction),
            "confidence": f"{shown.confidence:.0%}",
            "target": _readable(spec, self.target or ""),
        }
        return message[self.fooled].format_map(slots)


def judge(
    spec: TaskSpec,
    fields: Mapping[str, str],
    answers: Sequence[tuple[str, Prediction]],
    target: str | None,
    *,
    now: datetime,
) -> Verdict:
    """The verdict on what the pinned model versions answered, in the order in which they are pinned."""
    if now.tzinfo is None:
        raise VerdictError("a verdict needs a time with its time zone")
    if target is not None and spec.kind == "classification" and target not in spec.label_names:
        raise VerdictError(f"the target is {target!r}, but the task's labels are {', '.join(spec.label_names)}")
    rule = find_rule(spec.fooled.rule)
    said = tuple(
        ModelSaid(
            version=version,
            prediction=answer.label if isinstance(answer, LabelPrediction) else answer.text,
            confidence=answer.confidence,
            probabilities=dict(answer.probabilities) if isinstance(answer, LabelPrediction) else {},
            fooled=None if target is None else rule(answer, target, spec.fooled),
        )
        for version, answer in answers
    )
    together = ensemble_fooled(spec.fooled.ensemble, [bool(one.fooled) for one in said])
    fooled = None if target is None else together
    return Verdict(uuid4(), spec.name, inputs_hash(spec, fields), target, said, fooled, now)


def inputs_hash(spec: TaskSpec, fields: Mapping[str, str]) -> str:
    """A fingerprint of everything that the model reads, in the order in which it reads it."""
    missing = [name for name in spec.model_input if name not in fields]
    if missing:
        raise VerdictError(f"the model also reads `{missing[0]}`, which is not there")
    text = json.dumps([[name, fields[name]] for name in spec.model_input], ensure_ascii=False)
    # surrogatepass: a browser can send half an emoji, and it must be hashed rather than crash.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _readable(spec: TaskSpec, answer: str) -> str:
    return spec.label_title(answer) if answer in spec.label_names else answer
