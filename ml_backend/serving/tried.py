"""A try: one verdict as it is handed on to be stored, and its form as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ml_backend.errors import VerdictError
from ml_backend.verdict import ModelSaid, Verdict


@dataclass(frozen=True)
class Tried:
    """One verdict, what it was given on, where it was asked for and how long the answer took.

    It says what an annotator was told, not what is true: an example is judged again when it is submitted.
    """

    verdict: Verdict
    fields: Mapping[str, str]
    round: int | None
    latency_us: int
    source: str
    label_studio_project: int | None
    label_studio_task: int | None

    def to_json(self) -> dict[str, Any]:
        """The try as JSON takes it; `from_json` gives it back."""
        verdict = self.verdict
        return {
            "id": str(verdict.id),
            "task": verdict.task,
            "round": self.round,
            "inputs_hash": verdict.inputs_hash,
            "fields": dict(self.fields),
            "target": verdict.target,
            "said": [
                {
                    "version": one.version,
                    "prediction": one.prediction,
                    "confidence": one.confidence,
                    "probabilities": dict(one.probabilities),
                    "fooled": one.fooled,
                }
                for one in verdict.said
            ],
            "fooled": verdict.fooled,
            "judged_at": verdict.judged_at.isoformat(),
            "latency_us": self.latency_us,
            "source": self.source,
            "label_studio_project": self.label_studio_project,
            "label_studio_task": self.label_studio_task,
        }

    @classmethod
    def from_json(cls, value: Any) -> "Tried":
        """The try that `to_json` wrote, or a VerdictError for anything else."""
        try:
            return _read(value)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise VerdictError(f"this is no try as `Tried.to_json` writes it ({type(error).__name__})") from error


def _read(value: Any) -> Tried:
    judged_at = datetime.fromisoformat(value["judged_at"])
    if judged_at.tzinfo is None:
        raise ValueError("judged_at has no time zone")
    verdict = Verdict(
        UUID(value["id"]),
        _text(value["task"]),
        _text(value["inputs_hash"]),
        _text_or_none(value["target"]),
        tuple(_said(one) for one in value["said"]),
        _flag(value["fooled"]),
        judged_at,
    )
    if not verdict.said:
        raise ValueError("no model said anything")
    return Tried(
        verdict,
        {_text(name): _text(text) for name, text in value["fields"].items()},
        _number_or_none(value["round"]),
        _number(value["latency_us"]),
        _text(value["source"]),
        _number_or_none(value["label_studio_project"]),
        _number_or_none(value["label_studio_task"]),
    )


def _said(value: Any) -> ModelSaid:
    return ModelSaid(
        _text(value["version"]),
        _text(value["prediction"]),
        float(value["confidence"]),
        {_text(label): float(share) for label, share in value["probabilities"].items()},
        _flag(value["fooled"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("not a whole number")
    return value


def _number_or_none(value: Any) -> int | None:
    return None if value is None else _number(value)


def _flag(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError("neither true, false nor null")
    return value
