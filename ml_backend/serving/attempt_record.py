"""An attempt as the ML backend hands it over to be stored, and its JSON form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ml_backend.errors import VerdictError
from ml_backend.verdict import Verdict


@dataclass(frozen=True)
class AttemptRecord:
    """One verdict with the fields it is about, where it was asked for, and how long the answer took.

    It is what an annotator saw, not what counts: a submitted example is judged again.
    """

    verdict: Verdict
    fields: Mapping[str, str]
    round: int | None
    latency_us: int
    source: str
    label_studio_project: int | None
    label_studio_task: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the attempt as JSON-compatible data; `from_json` reads it."""
        return {
            **self.verdict.to_json(),
            "round": self.round,
            "fields": dict(self.fields),
            "latency_us": self.latency_us,
            "source": self.source,
            "label_studio_project": self.label_studio_project,
            "label_studio_task": self.label_studio_task,
        }

    @classmethod
    def from_json(cls, value: Any) -> "AttemptRecord":
        """Return the attempt that `to_json` wrote; raise VerdictError for anything else."""
        verdict = Verdict.from_json(value)
        try:
            return cls(
                verdict,
                {_text(name): _text(text) for name, text in value["fields"].items()},
                _optional_int(value["round"]),
                _int(value["latency_us"]),
                _text(value["source"]),
                _optional_int(value["label_studio_project"]),
                _optional_int(value["label_studio_task"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise VerdictError(f"invalid attempt ({type(error).__name__}: {error})") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("not an integer")
    return value


def _optional_int(value: Any) -> int | None:
    return None if value is None else _int(value)
