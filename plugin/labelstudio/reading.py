"""What an annotation says, read from the task's spec alone; what cannot be read becomes a sentence for the owner."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from plugin.labelstudio.errors import Unreadable
from templates.spec import TaskField, TaskSpec

# What the model was said to answer. It can be stale or made up, so nobody reads it.
FEEDBACK = "feedback"
LONGEST_ACTIVE = timedelta(days=1)

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Signed:
    """Whose annotation it is, when they sent it, and how long they worked on it."""

    user: int
    at: datetime
    active_ms: int | None


@dataclass(frozen=True)
class Written:
    """What an author wrote: every field but the context's own, with the target that they chose or marked."""

    fields: Mapping[str, str]
    label: str | None
    answer: Mapping[str, Any] | None
    explanation: Mapping[str, str]


@dataclass(frozen=True)
class Judged:
    """What a validator said: a label, an answer or a flag, one of the three."""

    label: str | None
    answer: Mapping[str, Any] | None
    flag: str | None
    comment: str | None


def is_submitted(annotation: Json) -> bool:
    """Whether somebody handed it in; what was skipped is no work."""
    return not annotation.get("was_cancelled")


def content_sha256(annotation: Json) -> str:
    """A fingerprint of what people filled in; what the model was said to answer is no part of it."""
    kept = [[one.get("from_name"), one.get("value")] for one in _results(annotation)]
    filled = sorted((one for one in kept if one[0] != FEEDBACK), key=lambda one: str(one[0]))
    return hashlib.sha256(json.dumps(filled, sort_keys=True).encode("ascii")).hexdigest()


def signed_by(annotation: Json) -> Signed:
    """Whose work it is; Unreadable where Label Studio does not know any more, or another user sent it.

    A request can name anybody as the annotation's user; who sent it is Label Studio's own word.
    """
    user, sender = _user(annotation.get("completed_by")), _user(annotation.get("updated_by"))
    if user is None:
        raise Unreadable("Label Studio names nobody who made it; its user was deleted")
    if sender not in (None, user):
        raise Unreadable(f"user {sender} sent it in the name of user {user}; only what people send themselves counts")
    return Signed(user, changed_at(annotation), _active_ms(annotation))


def changed_at(annotation: Json) -> datetime:
    """When it was last changed."""
    when = annotation.get("updated_at") or annotation.get("created_at")
    try:
        found = when if isinstance(when, datetime) else datetime.fromisoformat(str(when))
    except ValueError as error:
        raise Unreadable("Label Studio does not tell when it was made") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def read_written(spec: TaskSpec, context: Mapping[str, str], label: str | None, annotation: Json) -> Written:
    """An annotation of the creation project; `label` is what our own task asked for, `context` what it showed.

    Neither is taken from Label Studio, where both could be edited.
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
            raise Unreadable(f"`{field.name}` is empty")
    if spec.kind == "qa":
        answer = _span(results, spec.with_role("span")[0], context.get(spec.model_input[1], ""))
        if answer is None:
            raise Unreadable("no answer is marked in the passage")
        return Written(fields, None, answer, explanation)
    target = label if spec.target.set_by == "task" else _text(results, "label")
    if target not in spec.label_names:
        raise Unreadable("no label of the task is chosen" if target is None else f"the task has no label `{target}`")
    return Written(fields, target, None, explanation)


def read_judged(spec: TaskSpec, fields: Mapping[str, str], annotation: Json) -> Judged:
    """An annotation of the validation project, about an example with these fields; a flag outweighs a label."""
    results = _results(annotation)
    comment = _text(results, "comment")
    flag = _text(results, "flag")
    if flag is not None:
        return Judged(None, None, flag, comment)
    if spec.kind == "qa":
        answer = _span(results, spec.with_role("span")[0], fields.get(spec.model_input[1], ""))
        if answer is None:
            raise Unreadable("neither an answer is marked nor a flag chosen")
        return Judged(None, answer, None, comment)
    label = _text(results, "label")
    if label is None:
        raise Unreadable("neither a label nor a flag is chosen")
    return Judged(label, None, None, comment)


def _results(annotation: Json) -> list[Json]:
    results = annotation.get("result")
    return [one for one in results if isinstance(one, Mapping)] if isinstance(results, list) else []


def _text(results: list[Json], name: str) -> str | None:
    """The one text or choice of a control; None where it is empty, Unreadable where there are several."""
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
        raise Unreadable(f"`{name}` holds {len(filled)} texts, and only one can be meant")
    return _storable(filled[0], name)


def _span(results: list[Json], field: TaskField, passage: str) -> dict[str, Any] | None:
    """The piece of our own passage that is marked, in Python's counting; None where nothing is."""
    values = [one.get("value") for one in results if one.get("from_name") == field.name]
    # Label Studio also hangs the selected label on results that have no place, such as the verdict's own.
    marked = [value for value in values if isinstance(value, Mapping) and {"start", "end"} & value.keys()]
    if not marked:
        return None
    if len(marked) > 1:
        raise Unreadable(f"{len(marked)} answers are marked, and only one can be meant")
    start, end, text = marked[0].get("start"), marked[0].get("end"), marked[0].get("text")
    if type(start) is int and type(end) is int and 0 <= start < end:
        for first, last in ((start, end), _by_utf16(passage, start, end)):
            found = passage[first:last]
            if found.strip() and last <= len(passage) and text in (found, None):
                return {"text": found, "start": first, "end": last}
    raise Unreadable("the marked answer is not in the passage at that place")


def _by_utf16(passage: str, start: int, end: int) -> tuple[int, int]:
    """Where a browser's places are in our counting; it counts an emoji as two."""
    units = passage.encode("utf-16-le")
    if 2 * end > len(units):
        return 0, 0
    first, last = (len(units[: 2 * place].decode("utf-16-le", "ignore")) for place in (start, end))
    return first, last


def _storable(text: Any, name: str) -> str:
    if not isinstance(text, str):
        raise Unreadable(f"`{name}` holds no text")
    if "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Unreadable(f"`{name}` has a broken character that cannot be stored")
    return text


def _user(value: Any) -> int | None:
    number = value.get("id") if isinstance(value, Mapping) else value
    return number if type(number) is int else None


def _active_ms(annotation: Json) -> int | None:
    seconds = annotation.get("lead_time")
    if not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_ACTIVE.total_seconds():
        return None
    return int(seconds * 1000)
