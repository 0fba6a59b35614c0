"""A stranger's file of predictions: a process in the sandbox decodes it, and a plain CSV file is written here.

A small Parquet file can hold more than any memory, and its reader is not ours. Run as a module, this is the program in
the sandbox. The CSV file is checked like every other file of predictions.
"""

import csv
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from ml_backend.errors import ModelOutputInvalid, PredictionsInvalid
from ml_backend.evaluation.predictions import CONFIDENCE, HINT, ID, PREDICTION, raw_predictions
from ml_backend.sandbox.process import Sandbox, SandboxLimits
from ml_backend.sandbox.questions import Answer, ask, serve

FOLDER = "/predictions"
ROWS_PER_CALL = 500
# For an id or an answer.
MOST_CHARS = 2_000


def decode_predictions(file: Path, target: Path, most_rows: int, limits: SandboxLimits) -> None:
    """Write the predictions of a file to a CSV file; raise PredictionsInvalid if that is not possible."""
    place = f"{FOLDER}/{file.name}"
    command = [sys.executable, "-P", "-m", __name__]
    with (
        closing(Sandbox(command, limits, {str(file): place})) as sandbox,
        target.open("w", encoding="utf-8", newline="") as opened,
    ):
        writer = csv.writer(opened)
        writer.writerow((ID, PREDICTION, CONFIDENCE))
        ask(sandbox, place)
        rows = 0
        while found := ask(sandbox, ROWS_PER_CALL, ROWS_PER_CALL * 3 * 12 * MOST_CHARS):
            writer.writerows(_checked(found))
            rows += len(found)
            if rows > most_rows:
                text = f"has more than {most_rows:,} predictions, which is more than the data sets have rows"
                raise PredictionsInvalid(f"{file.name} {text}", hint=HINT)


def _checked(found: Any) -> Iterator[list[str]]:
    if not isinstance(found, list) or len(found) > ROWS_PER_CALL:
        raise ModelOutputInvalid("the process that decodes the predictions does not answer as it should")
    for row in found:
        if not isinstance(row, list) or len(row) != 3 or not all(isinstance(one, str) for one in row):
            raise ModelOutputInvalid("the process that decodes the predictions does not answer with texts")
        yield row


def _begin(place: str) -> Answer:
    """Open the file, in the sandbox; return what answers with its next rows."""
    rows = _texts(Path(place))

    def answer(wanted: int) -> list[list[str]]:
        return list(islice(rows, wanted))

    return answer


def _texts(path: Path) -> Iterator[list[str]]:
    for number, row in enumerate(raw_predictions(path), 1):
        texts = ["" if one is None else str(one) for one in row]
        if any(len(one) > MOST_CHARS for one in texts):
            raise PredictionsInvalid(f"{path.name}, row {number}, has more than {MOST_CHARS:,} characters in a cell")
        yield texts


if __name__ == "__main__":
    serve(_begin)
