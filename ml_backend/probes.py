"""Probes: a few rows with what a version said to them when it was made, asked again wherever it is loaded.

The same file can answer otherwise elsewhere: integer arithmetic saturates on some processors, and a runtime can be
broken. A version that does not know its own answers any more must not judge anybody.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ml_backend.answers import Answer, LabelAnswer
from ml_backend.errors import ModelError
from ml_backend.model_files import read_json_object
from ml_backend.predictor import Predictor

FILE = "probes.json"
MOST = 16
# Answers that hang on the last digit may fall either way.
MOST_DIFFERENT = 2
MOST_BYTES = 4_000_000


@dataclass(frozen=True)
class Probe:
    """What the model read, and what it said."""

    fields: Mapping[str, str]
    said: str


def choose_probes(rows: Sequence[Mapping[str, str]], answers: Sequence[Answer], names: Sequence[str]) -> list[Probe]:
    """Some of the rows, from all over, with the answers to them."""
    step = max(1, len(rows) // MOST)
    pairs = list(zip(rows, answers, strict=True))[::step][:MOST]
    return [Probe({name: row[name] for name in names}, said(answer)) for row, answer in pairs]


def write_probes(directory: Path, probes: Sequence[Probe]) -> None:
    """Keeps the probes in a version's folder."""
    content = {"probes": [{"fields": dict(probe.fields), "said": probe.said} for probe in probes]}
    (directory / FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")


def check_probes(directory: Path, predictor: Predictor) -> None:
    """A ModelError unless the predictor says what it said when it was made; a version without probes passes."""
    if not (directory / FILE).is_file():
        return
    probes = _read(directory)
    if not probes:
        raise ModelError(f"{directory / FILE} holds no probes, so that nobody can check the version; train it again")
    answers = [predictor.predict([probe.fields])[0] for probe in probes]
    different = sum(said(answer) != probe.said for answer, probe in zip(answers, probes, strict=True))
    if different > MOST_DIFFERENT:
        text = f"it answers {different} of {len(probes)} probes otherwise than when it was made"
        raise ModelError(f"{directory} fails its parity check here: {text}; train it on a machine of this kind")


def said(answer: Answer) -> str:
    """The answer as probes keep it."""
    return answer.label if isinstance(answer, LabelAnswer) else answer.text


def _read(directory: Path) -> list[Probe]:
    path = directory / FILE
    found = read_json_object(path, MOST_BYTES).get("probes")
    try:
        return [Probe({str(k): str(v) for k, v in one["fields"].items()}, str(one["said"])) for one in found or ()]
    except (AttributeError, KeyError, TypeError) as error:
        raise ModelError(f"{path} does not hold probes; restore the folder or train again") from error
