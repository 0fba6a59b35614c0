"""A verdict as examples and attempts keep it."""

from datetime import datetime
from typing import Any

from ml_backend.verdict import ModelSaid, Verdict
from round_manager.models import Example

INPUTS_HASH = "inputs_hash"


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """Everything that the verdict says, but for what the row has in columns of its own."""
    said = [
        {
            "version": one.version,
            "prediction": one.prediction,
            "confidence": one.confidence,
            "probabilities": dict(one.probabilities),
            "fooled": one.fooled,
        }
        for one in verdict.said
    ]
    return {
        INPUTS_HASH: verdict.inputs_hash,
        "target": verdict.target,
        "said": said,
        "judged_at": verdict.judged_at.isoformat(),
    }


def verdict_of(example: Example, task: str) -> Verdict:
    """The verdict that stands for an example of the task, as it was given."""
    kept = example.verdict
    return Verdict(
        example.verdict_id or example.public_id,
        task,
        kept[INPUTS_HASH],
        kept["target"],
        tuple(ModelSaid(**one) for one in kept["said"]),
        example.fooled,
        datetime.fromisoformat(kept["judged_at"]),
    )
