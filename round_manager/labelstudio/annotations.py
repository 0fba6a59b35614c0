"""Reads annotations by the task's spec alone; what cannot be read becomes a message for the owner or the worker."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from common.messages import gettext
from common.text import sentence
from round_manager.examples.submissions import FieldName
from round_manager.labelstudio.port import UnreadableAnnotation
from round_manager.work.validation_work import Judgement
from templates.spec import TaskField, TaskSpec

# The control that shows the verdict. It can be stale or forged, so it is never read.
FEEDBACK = "feedback"
MAX_ACTIVE = timedelta(days=1)
MAX_RETURNED_CHARS = 20_000

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Signature:
    """The user of an annotation, when they submitted it, and how long they worked on it."""

    user: int
    at: datetime
    active_ms: int | None


@dataclass(frozen=True)
class SubmittedText:
    """What an author wrote: every field but the context's, and the target that they chose or marked."""

    fields: Mapping[str, str]
    label: str | None
    answer: Mapping[str, Any] | None
    explanation: Mapping[str, str]


def is_submitted(annotation: Json) -> bool:
    """Whether the annotation was submitted, not skipped."""
    return not annotation.get("was_cancelled")


def content_sha256(annotation: Json) -> str:
    """Return a hash of what the user filled in; the verdict that was shown is not part of it."""
    kept = [[one.get("from_name"), one.get("value")] for one in _results(annotation)]
    filled = sorted((one for one in kept if one[0] != FEEDBACK), key=lambda one: str(one[0]))
    return hashlib.sha256(json.dumps(filled, sort_keys=True).encode("ascii")).hexdigest()


def signature_of(annotation: Json) -> Signature:
    """Return the annotation's user; UnreadableAnnotation if that user was deleted, or another user sent it.

    A request can name any user as the annotation's; who sent it is recorded by Label Studio itself.
    """
    user, sender = _user(annotation.get("completed_by")), _user(annotation.get("updated_by"))
    if user is None:
        raise UnreadableAnnotation("Label Studio names no user for it; the user was deleted")
    if sender not in (None, user):
        raise UnreadableAnnotation(f"user {sender} submitted it in the name of user {user}")
    return Signature(user, changed_at(annotation), _active_ms(annotation))


def changed_at(annotation: Json) -> datetime:
    """Return when the annotation was last changed."""
    when = annotation.get("updated_at") or annotation.get("created_at")
    try:
        found = when if isinstance(when, datetime) else datetime.fromisoformat(str(when))
    except ValueError as error:
        raise UnreadableAnnotation("Label Studio gives no time for it") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def read_submission(spec: TaskSpec, context: Mapping[str, str], label: str | None, annotation: Json) -> SubmittedText:
    """Read an annotation of the creation project; `label` is the requested target, `context` the text that was shown.

    Both come from our database, because they could be edited in Label Studio.
    """
    results = _results(annotation)
    fields: dict[str, str] = {}
    explanation: dict[str, str] = {}
    for field in spec.fields:
        if field.role in ("context", "span"):
            continue
        text = _text(results, field.name)
        if text is not None:
            (explanation if field.role == "reason" else fields)[field.name] = text
        elif field.required:
            raise UnreadableAnnotation(gettext("%(field)s is empty", field=FieldName(field.name)))
    if spec.kind == "qa":
        answer = _span(results, spec.with_role("span")[0], context.get(spec.model_input[1], ""))
        if answer is None:
            raise UnreadableAnnotation(gettext("no answer is marked in the passage"))
        return SubmittedText(fields, None, answer, explanation)
    target = label if spec.target.set_by == "task" else _text(results, "label")
    if target not in spec.label_names:
        if target is None:
            raise UnreadableAnnotation(gettext("no label of the task is chosen"))
        raise UnreadableAnnotation(gettext("the task has no label “%(label)s”", label=target))
    return SubmittedText(fields, target, None, explanation)


def read_judgement(spec: TaskSpec, fields: Mapping[str, str], annotation: Json) -> Judgement:
    """Read an annotation of the validation project, for an example with these fields; a flag overrides a label."""
    results = _results(annotation)
    comment = _text(results, "comment")
    flag = _text(results, "flag")
    if flag is not None:
        return Judgement(flag=flag, comment=comment)
    if spec.kind == "qa":
        answer = _span(results, spec.with_role("span")[0], fields.get(spec.model_input[1], ""))
        if answer is None:
            raise UnreadableAnnotation(gettext("neither an answer is marked nor a flag chosen"))
        return Judgement(answer=answer, comment=comment)
    label = _text(results, "label")
    if label is None:
        raise UnreadableAnnotation(gettext("neither a label nor a flag is chosen"))
    return Judgement(label, comment=comment)


def reason_text(spec: TaskSpec, problem: str) -> str:
    """Return why an annotation was not accepted, for its author: a sentence with the titles of fields."""
    for field in spec.fields:
        problem = problem.replace(f"`{field.name}`", f"“{field.title}”")
    return sentence(problem)


def written_text(spec: TaskSpec, annotation: Json) -> str:
    """Return what an author wrote for the model, as far as it can be stored; empty if there is nothing."""
    results, found = _results(annotation), []
    for field in spec.with_role("input"):
        try:
            found.append(_text(results, field.name) or "")
        except UnreadableAnnotation:
            continue
    return "\n".join(filter(None, found))[:MAX_RETURNED_CHARS]


def _results(annotation: Json) -> list[Json]:
    results = annotation.get("result")
    return [one for one in results if isinstance(one, Mapping)] if isinstance(results, list) else []


def _text(results: list[Json], name: str) -> str | None:
    """Return the text or choice of a control; None if it is empty, UnreadableAnnotation if there are several."""
    found = []
    for one in results:
        value = one.get("value")
        if one.get("from_name") == name and isinstance(value, Mapping):
            texts = value.get("text", value.get("choices"))
            found += texts if isinstance(texts, list) else [texts]
    filled = [text for text in found if not isinstance(text, str) or text.strip()]
    if not filled:
        return None
    if len(filled) > 1:
        text = gettext("%(field)s holds %(n)s texts, but only one is allowed", field=FieldName(name), n=len(filled))
        raise UnreadableAnnotation(text)
    return _storable(filled[0], name)


def _span(results: list[Json], field: TaskField, passage: str) -> dict[str, Any] | None:
    """Return the marked part of our passage, with Python's offsets; None if nothing is marked."""
    values = [one.get("value") for one in results if one.get("from_name") == field.name]
    # Label Studio also adds the selected label to results without offsets, such as the verdict.
    marked = [value for value in values if isinstance(value, Mapping) and {"start", "end"} & value.keys()]
    if not marked:
        return None
    if len(marked) > 1:
        raise UnreadableAnnotation(gettext("%(n)s answers are marked, but only one is allowed", n=len(marked)))
    start, end, text = marked[0].get("start"), marked[0].get("end"), marked[0].get("text")
    if type(start) is int and type(end) is int and 0 <= start < end:
        for first, last in ((start, end), _by_utf16(passage, start, end)):
            found = passage[first:last]
            if found.strip() and last <= len(passage) and text in (found, None):
                return {"text": found, "start": first, "end": last}
    raise UnreadableAnnotation(gettext("the marked answer is not at that place in the passage"))


def _by_utf16(passage: str, start: int, end: int) -> tuple[int, int]:
    """Convert a browser's offsets to Python's: in UTF-16 an emoji counts twice."""
    units = passage.encode("utf-16-le")
    if 2 * end > len(units):
        return 0, 0
    first, last = (len(units[: 2 * place].decode("utf-16-le", "ignore")) for place in (start, end))
    return first, last


def _storable(text: Any, name: str) -> str:
    if not isinstance(text, str):
        raise UnreadableAnnotation(gettext("%(field)s is not a text", field=FieldName(name)))
    if "\x00" in text or not _is_encodable(text):
        problem = gettext("%(field)s contains an invalid character that cannot be stored", field=FieldName(name))
        raise UnreadableAnnotation(problem)
    return text


def _is_encodable(text: str) -> bool:
    """Return whether a text has no half of a character (a lone surrogate)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _user(value: Any) -> int | None:
    number = value.get("id") if isinstance(value, Mapping) else value
    return number if type(number) is int else None


def _active_ms(annotation: Json) -> int | None:
    seconds = annotation.get("lead_time")
    if not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_ACTIVE.total_seconds():
        return None
    return int(seconds * 1000)
