"""What a submission must be to become an example, in sentences for the task's owner."""

from collections.abc import Mapping, Sequence
from typing import Any

from ml_backend.errors import VerdictError
from ml_backend.verdict import Verdict
from round_manager.database.columns import json_text
from round_manager.errors import BadValueError, StaleVerdict
from templates import TaskSpec
from templates.spec import TaskField
from templates.written import is_blank, too_long

WRITTEN = ("input", "reason", "extra")


def field_problem(spec: TaskSpec, fields: Mapping[str, str], explanation: Mapping[str, str]) -> str | None:
    """What is missing, too long, unknown or cannot be kept; None when all is there."""
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
        return f"`{unknown[0]}` is not a field of {spec.name}"
    return None


def target_problem(
    spec: TaskSpec, fields: Mapping[str, str], label: str | None, answer: Mapping[str, Any] | None
) -> str | None:
    """What is wrong with the label, or with the answer that was selected; None when it is right."""
    if spec.kind == "classification":
        if answer is not None:
            return f"an answer was selected, but {spec.name} asks for a label"
        if label not in spec.label_names:
            return f"the label is {label!r}; {spec.name} has {', '.join(spec.label_names)}"
        return None
    if label is not None:
        return f"a label was chosen, but {spec.name} asks for an answer"
    (span,) = spec.with_role("span")
    return answer_problem(answer, fields[spec.model_input[1]], span)


def answer_problem(answer: Mapping[str, Any] | None, passage: str, span: TaskField) -> str | None:
    """What is wrong with an answer that must be a piece of the passage; None when it is right."""
    if answer is None:
        return f"no answer is selected in the passage (`{span.name}`)"
    text, start, end = (answer.get(name) for name in ("text", "start", "end"))
    if not isinstance(text, str) or not text.strip():
        return f"the answer that is selected (`{span.name}`) is empty"
    if not _is_place(start) or not _is_place(end) or passage[start:end] != text:
        return f"the passage does not have the answer (`{span.name}`) where it was selected"
    if too_long(span, text):
        return f"the answer (`{span.name}`) has {len(text)} characters; at most {span.max_chars} are accepted"
    return None


def target_of(label: str | None, answer: Mapping[str, Any] | None) -> str | None:
    """What a verdict on the submission must have as its target."""
    return label if answer is None else str(answer["text"])


def check_verdict(
    spec: TaskSpec, verdict: Verdict, fields: Mapping[str, str], target: str | None, pinned: Sequence[str]
) -> None:
    """A StaleVerdict unless the verdict is about exactly this, by exactly the versions that are pinned."""
    try:
        is_about = verdict.is_about(spec, fields, target)
    except VerdictError as error:
        raise StaleVerdict(f"{error}; judge again") from error
    if not is_about or verdict.fooled is None:
        raise StaleVerdict("the verdict was given on something else than what was handed in; judge again")
    if tuple(one.version for one in verdict.outputs) != tuple(pinned):
        raise StaleVerdict(f"the verdict is not of the versions that the round pins ({', '.join(pinned)}); judge again")


def _text_problem(spec: TaskSpec, field: TaskField, text: str | None) -> str | None:
    if text is None or is_blank(text):
        # What the model reads is needed, whatever the pack says of it.
        return f"`{field.name}` is empty" if field.required or field.name in spec.model_input else None
    if field.role in WRITTEN and too_long(field, text):
        return f"`{field.name}` has {len(text)} characters; at most {field.max_chars} are accepted"
    if field.choices and text not in field.choices:
        return f"`{field.name}` is {text[:40]!r}; it can be {', '.join(field.choices)}"
    try:
        json_text(text)
    except BadValueError as error:
        return f"`{field.name}`: {error}"
    return None


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
