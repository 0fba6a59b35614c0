"""The rules that a submission must meet to become an example.

A problem names fields by their names in backticks; pages replace them by the titles that workers see.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ml_backend.errors import VerdictError
from ml_backend.verdict import Verdict
from round_manager.database.columns import json_text
from round_manager.errors import BadValueError, StaleVerdict
from templates import TaskSpec
from templates.spec import TaskField
from templates.texts import is_blank, too_long

WRITTEN = ("input", "reason", "extra")


@dataclass(frozen=True)
class InputProblem:
    """What is wrong with a field, a label or an answer."""

    text: str
    is_too_long: bool = False

    def __str__(self) -> str:
        return self.text


def field_problem(spec: TaskSpec, fields: Mapping[str, str], explanation: Mapping[str, str]) -> InputProblem | None:
    """Return the first field that is empty, too long, unknown or cannot be stored; None if all are valid."""
    for field in spec.fields:
        if field.role != "span":
            there = explanation if field.role == "reason" else fields
            problem = _text_problem(spec, field, there.get(field.name))
            if problem:
                return problem
    reasons = {field.name for field in spec.with_role("reason")}
    others = {field.name for field in spec.fields if field.role in ("context", "input", "extra")}
    unknown = sorted([*(set(fields) - others), *(set(explanation) - reasons)])
    if unknown:
        return InputProblem(f"`{unknown[0]}` is not a field of {spec.name}")
    return None


def target_problem(
    spec: TaskSpec, fields: Mapping[str, str], label: str | None, answer: Mapping[str, Any] | None
) -> InputProblem | None:
    """Return what is wrong with the label, or with the selected answer; None if it is valid."""
    if spec.kind == "classification":
        if answer is not None:
            return InputProblem(f"an answer was selected, but {spec.name} asks for a label")
        if label not in spec.label_names:
            return InputProblem(f"the label is {label!r}; {spec.name} has {', '.join(spec.label_names)}")
        return None
    if label is not None:
        return InputProblem(f"a label was chosen, but {spec.name} asks for an answer")
    (span,) = spec.with_role("span")
    return answer_problem(answer, fields[spec.model_input[1]], span)


def answer_problem(answer: Mapping[str, Any] | None, passage: str, span: TaskField) -> InputProblem | None:
    """Return what is wrong with an answer that must be a piece of the passage; None if it is valid."""
    if answer is None:
        return InputProblem(f"no answer is selected in the passage (`{span.name}`)")
    text, start, end = (answer.get(name) for name in ("text", "start", "end"))
    if not isinstance(text, str) or not text.strip():
        return InputProblem(f"the answer that is selected (`{span.name}`) is empty")
    if not _is_place(start) or not _is_place(end) or passage[start:end] != text:
        return InputProblem(f"the passage does not have the answer (`{span.name}`) where it was selected")
    if too_long(span, text):
        return _too_long(f"the answer (`{span.name}`)", span, text)
    return None


def target_of(label: str | None, answer: Mapping[str, Any] | None) -> str | None:
    """Return the target that a verdict on the submission must have."""
    return label if answer is None else str(answer["text"])


def check_verdict(
    spec: TaskSpec, verdict: Verdict, fields: Mapping[str, str], target: str | None, pinned: Sequence[str]
) -> None:
    """Raise StaleVerdict unless the verdict is about exactly this, by exactly the pinned versions."""
    try:
        is_about = verdict.is_about(spec, fields, target)
    except VerdictError as error:
        raise StaleVerdict(f"{error}; judge again") from error
    if not is_about or verdict.fooled is None:
        raise StaleVerdict("the verdict is about other inputs than were submitted; judge again")
    if tuple(one.version for one in verdict.outputs) != tuple(pinned):
        raise StaleVerdict(f"the verdict is not of the versions that the round pins ({', '.join(pinned)}); judge again")


def _text_problem(spec: TaskSpec, field: TaskField, text: str | None) -> InputProblem | None:
    if text is None or is_blank(text):
        # What the model reads is required even if the pack says otherwise.
        return InputProblem(f"`{field.name}` is empty") if field.required or field.name in spec.model_input else None
    if field.role in WRITTEN and too_long(field, text):
        return _too_long(f"`{field.name}`", field, text)
    if field.choices and text not in field.choices:
        return InputProblem(f"`{field.name}` is {text[:40]!r}; it can be {', '.join(field.choices)}")
    try:
        json_text(text)
    except BadValueError as error:
        return InputProblem(f"`{field.name}`: {error}")
    return None


def _too_long(what: str, field: TaskField, text: str) -> InputProblem:
    return InputProblem(f"{what} has {len(text)} characters; at most {field.max_chars} are accepted", is_too_long=True)


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
