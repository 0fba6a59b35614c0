"""Questions to a process in the sandbox and its answers, as lines of JSON; errors come back with their code."""

import json
import sys
from collections.abc import Callable
from typing import Any

from common.text import printable
from ml_backend import errors
from ml_backend.errors import BackendError, ModelMemoryExceeded, ModelOutputInvalid, ModelProcessEnded
from ml_backend.sandbox.process import Sandbox

# What every answer may take besides what was asked for, which is enough for an error.
MOST_ERROR_BYTES = 8_000
MOST_REASON = 400
Answer = Callable[[Any], Any]


def ask(sandbox: Sandbox, question: Any, most_bytes: int = 0) -> Any:
    """Return the answer to a question, JSON of at most this many bytes; raise BackendError otherwise."""
    line = sandbox.ask(json.dumps(question).encode(), MOST_ERROR_BYTES + most_bytes)
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _invalid(sandbox) from error
    if isinstance(found, dict) and "answer" in found:
        return found["answer"]
    raise _reported(sandbox, found)


def serve(begin: Callable[[Any], Answer]) -> None:
    """Answer the lines of standard input, in the sandbox: the first one is for `begin`, the others for its result."""
    # Libraries print to standard output too.
    replies, sys.stdout = sys.stdout, sys.stderr
    answer: Answer | None = None
    for line in sys.stdin:
        try:
            if answer is None:
                answer, found = begin(json.loads(line)), None
            else:
                found = answer(json.loads(line))
            reply = json.dumps({"answer": found}, allow_nan=False)
        except Exception as error:  # noqa: BLE001 - the edge of the process
            reply = json.dumps({"error": _code(error), "reason": f"{error}"[:MOST_REASON]})
        replies.write(f"{reply}\n")
        replies.flush()


def _code(error: BaseException) -> str:
    # Each library has its own error for this, most without a class, and ours may have it as their cause.
    text = f"{error} {error.__cause__ or ''}".lower()
    if isinstance(error, MemoryError) or "alloc" in text or "memory" in text:
        return ModelMemoryExceeded.code
    return error.code if isinstance(error, BackendError) else ModelProcessEnded.code


def _reported(sandbox: Sandbox, found: Any) -> BackendError:
    """Return the error that the process reports, if it is one that a model or a file can cause."""
    if not isinstance(found, dict) or not isinstance(found.get("error"), str):
        return _invalid(sandbox)
    sandbox.close()
    kind = _kinds().get(found["error"], ModelProcessEnded)
    if kind is ModelMemoryExceeded:
        return sandbox.memory_exceeded()
    reason = printable(str(found.get("reason", "")))[:MOST_REASON]
    return kind(reason or "the model's process failed without a reason")


def _kinds() -> dict[str, type[BackendError]]:
    about_models = (
        errors.ModelFileCorrupt, errors.ModelFileUnsafe, errors.ModelInputInvalid, errors.ModelMemoryExceeded,
        errors.ModelMismatch, errors.PredictionsInvalid, errors.RuntimeNotAvailable, errors.TrainingDiverged,
    )  # fmt: skip
    return {one.code: one for one in about_models}


def _invalid(sandbox: Sandbox) -> ModelOutputInvalid:
    sandbox.close()
    return ModelOutputInvalid("the model's process does not answer as it should")
