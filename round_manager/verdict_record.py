"""A verdict as examples and attempts keep it."""

from typing import Any

from ml_backend.verdict import Verdict

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
