"""What a page's editor holds, read as annotations are; nothing in it about targets or verdicts is believed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from plugin.web.work.errors import BadCall
from round_manager.errors import WorkRefused
from round_manager.labelstudio.annotations import read_judgement, read_submission
from round_manager.labelstudio.errors import UnreadableAnnotation
from round_manager.work.attempts import ATTEMPT_ROLES, PageInput
from round_manager.work.creation import CreationItem
from round_manager.work.validation_work import Judgement, ValidationItem
from templates import TaskSpec

MOST_RESULTS = 200
MOST_ACTIVE_MS = 30 * 24 * 3_600_000
UNREADABLE = "the page sent something that cannot be read; load it again"


def result_of(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The editor's serialised annotation in a call's body."""
    result = body.get("result")
    if not isinstance(result, list) or len(result) > MOST_RESULTS or not all(isinstance(one, dict) for one in result):
        raise BadCall(UNREADABLE)
    return result


def text_of(body: Mapping[str, Any], name: str) -> str:
    """A text in a call's body; empty where there is none."""
    text = body.get(name, "")
    if not isinstance(text, str):
        raise BadCall(UNREADABLE)
    return text


def mark_in(body: Mapping[str, Any]) -> str:
    """The mark of what the page shows, which each call about an example to write has in its body."""
    mark = body.get("mark")
    if not isinstance(mark, str):
        raise BadCall(UNREADABLE)
    return mark


def active_in(body: Mapping[str, Any]) -> int | None:
    """The milliseconds of active time that the page has counted so far; None where it does not say."""
    active = body.get("active_ms")
    if active is None:
        return None
    if not isinstance(active, int) or isinstance(active, bool) or not 0 <= active <= MOST_ACTIVE_MS:
        raise BadCall(UNREADABLE)
    return active


def asked_of(spec: TaskSpec, item: CreationItem, result: list[Mapping[str, Any]]) -> PageInput:
    """What the model is to be asked about; everything else on the page may still be empty."""
    only = spec.model_copy(update={"fields": tuple(field for field in spec.fields if field.role in ATTEMPT_ROLES)})
    return handed_in_of(only, item, result)


def handed_in_of(spec: TaskSpec, item: CreationItem, result: list[Mapping[str, Any]]) -> PageInput:
    """Everything that was written for the item, or an UnreadableAnnotation that names what is missing."""
    read = read_submission(spec, item.context.fields, item.target, {"result": result})
    return PageInput({**read.fields, **read.explanation}, read.label, read.answer)


def judgement_of(spec: TaskSpec, item: ValidationItem, body: Mapping[str, Any]) -> Judgement:
    """What was said of the item: in the editor, or with a flag beside it."""
    if "result" in body:
        said = read_judgement(spec, item.fields, {"result": result_of(body)})
        return Judgement(said.label, said.answer, said.flag, said.comment)
    return Judgement.read({"flag": body.get("flag"), "comment": body.get("comment")})


@contextmanager
def worded(spec: TaskSpec) -> Iterator[None]:
    """Refusals from inside call fields as the page does, by their titles."""
    try:
        yield
    except (WorkRefused, UnreadableAnnotation) as error:
        text = str(error)
        for field in spec.fields:
            text = text.replace(f"`{field.name}`", f"“{field.title}”")
        raise type(error)(text) from error
