"""Checks before a target serves: warm-up calls, and probes whose answers are known.

A probe is a row with the answer that the version gave when it was made. The same file can answer differently on
another machine: integer arithmetic saturates on some processors, and a runtime can be broken. A version that no
longer gives its own answers must not judge anyone.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from ml_backend.errors import ModelFileCorrupt, ModelParityFailed
from ml_backend.model_files import read_json_object
from ml_backend.targets.target import Prediction, Probe, Row, Target

FILE = "probes.json"
MAX_PROBES = 16
# Answers that depend on the last digit of a score may fall either way.
MAX_DIFFERENT = 2
MAX_BYTES = 4_000_000


def check_ready(target: Target) -> None:
    """Warm the target up and check its probes; raise ModelError if it is not fit to serve."""
    warm_up(target)
    check_probes(target)


def warm_up(target: Target) -> None:
    """Send the warm-up calls that the target's capabilities ask for."""
    for words in target.capabilities.warm_up:
        row = dict.fromkeys(target.capabilities.fields, "warming up " * words)
        if len(target.predict([row])) != 1:
            raise ModelParityFailed(f"model version {target.version} does not return one prediction for one row")


def check_probes(target: Target) -> None:
    """Raise ModelParityFailed unless the target answers its probes as it did when it was made."""
    probes = target.capabilities.probes
    answers = [target.predict([probe.fields])[0].text for probe in probes]
    different = sum(answer != probe.answer for answer, probe in zip(answers, probes, strict=True))
    if different > MAX_DIFFERENT:
        raise ModelParityFailed(
            f"model version {target.version} fails its parity check on this machine: {different} of {len(probes)} "
            "probes have another answer than when it was trained; train it on a machine of this kind"
        )


def choose_probes(rows: Sequence[Row], predictions: Sequence[Prediction], fields: Sequence[str]) -> list[Probe]:
    """Return probes from evenly spaced rows, with the predictions for them."""
    step = max(1, len(rows) // MAX_PROBES)
    pairs = list(zip(rows, predictions, strict=True))[::step][:MAX_PROBES]
    return [Probe({name: row[name] for name in fields}, prediction.text) for row, prediction in pairs]


def write_probes(directory: Path, probes: Sequence[Probe]) -> None:
    """Store the probes in a version's folder."""
    content = {"probes": [{"fields": dict(probe.fields), "said": probe.answer} for probe in probes]}
    (directory / FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")


def read_probes(directory: Path) -> tuple[Probe, ...]:
    """Return the probes of a version's folder; versions from before there were probes have none."""
    path = directory / FILE
    if not path.is_file():
        return ()
    found = read_json_object(path, MAX_BYTES).get("probes")
    try:
        probes = tuple(
            Probe({str(k): str(v) for k, v in one["fields"].items()}, str(one["said"])) for one in found or ()
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ModelFileCorrupt(f"{path} does not hold probes; restore the folder or train again") from error
    if not probes:
        raise ModelFileCorrupt(f"{path} holds no probes, so the version cannot be checked; train it again")
    return probes
