"""The JSON of a worker's page: sessions, items and verdicts for its script, and what the script sends back.

Nothing that a worker must not know is sent. Only the form of what arrives is checked here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from common.messages import Message, as_sentence, gettext
from ml_backend.verdict import ModelOutput, Verdict
from round_manager.examples.submissions import InputProblem
from round_manager.labelstudio.annotations import read_judgement, read_submission
from round_manager.labelstudio.port import UnreadableAnnotation
from round_manager.models import Attempt, HitKind, QuizResult
from round_manager.services.work import PageState
from round_manager.tasks.contexts import pack_context
from round_manager.work.attempts import CreationItem, PageInput, attempt_fields, input_error
from round_manager.work.errors import PageInputUnreadable
from round_manager.work.quizzes import explanations, quiz_of
from round_manager.work.validation_work import Judgement, ValidationItem
from templates import TaskSpec
from templates.payloads import Json, creation_task, validation_task

Body = Mapping[str, Any]
Result = list[Mapping[str, Any]]
MOST_RESULTS = 200
NO_WARNINGS: Mapping[int, str] = {}
MOST_ACTIVE_MS = 30 * 24 * 3_600_000


def state_json(page: PageState) -> Json:
    """Return everything that changes on a page."""
    kind, spec = page.hit.kind, page.spec
    items: list[Json] = []
    if kind is HitKind.CREATE:
        items = [creation_json(one, page.warnings) for one in page.creation]
    elif kind is HitKind.VALIDATE:
        items = [validation_json(spec, one) for one in page.validation]
    else:
        items = quiz_items(spec, page.quiz, page.quiz_draft)
    written = [one.example for one in page.creation if one.example is not None]
    fooling = sum(one.fooled and one.duplicate is None for one in written)
    return {
        "now": page.now.isoformat(),
        "deadline": page.deadline.isoformat(),
        "status": page.status.value,
        "active_ms": page.active_ms,
        "items": items,
        "empty": page.is_empty,
        "tries": spec.work.tries,
        "tries_before_skip": spec.work.tries_before_skip,
        "earned": {
            "reward_cents": page.hit.reward_cents,
            "bonus_cents": fooling * spec.pay.fooled_bonus_cents,
        },
        "missing": missing_text(kind, page.missing),
        "quiz": quiz_json(spec, page.quiz, page.attempts_left) if page.quiz is not None else None,
        "quiz_is_open": page.quiz is None or page.quiz_draft is not None,
    }


def for_guest(item: Json) -> Json:
    """Return an item as a browser sees it that is not the page's own: without what was typed in the other one."""
    hidden: Json = {"draft": None, "verdicts": [], "last": None, "given": None}
    return {name: hidden.get(name, value) for name, value in item.items()}


def creation_json(item: CreationItem, warnings: Mapping[int, str] = NO_WARNINGS) -> Json:
    """Return one example to write; `warnings` say why attempts, by their ids, would earn no bonus."""
    spec = item.spec
    target = None if item.target is None else {"name": item.target, "title": spec.label_title(item.target)}
    verdicts = [verdict_json(spec, one, number, warnings.get(one.id)) for number, one in enumerate(item.attempts, 1)]
    return {
        "item": item.item,
        "mark": item.mark,
        "context": dict(item.context.fields),
        "target": target,
        "tries_used": len(item.attempts),
        "may_skip": item.can_skip,
        "done": item.example is not None,
        "draft": dict(item.draft) or None,
        "verdicts": verdicts,
        "last": verdicts[-1] if verdicts else None,
        "task": creation_task(spec, pack_context(item.context), item.target)["data"],
    }


def validation_json(spec: TaskSpec, item: ValidationItem) -> Json:
    """Return one example to judge."""
    return {
        "item": item.item,
        "task": validation_task(spec, item.fields)["data"],
        "done": item.judgement is not None,
        "given": None if item.judgement is None else item.judgement.record(),
        "draft": dict(item.draft) or None,
        "flag_reasons": list(spec.validation.flag_reasons),
    }


def quiz_items(spec: TaskSpec, taken: QuizResult | None, draft: Sequence[int | None] | None = None) -> list[Json]:
    """Return the questions with the answers that were chosen or scored last."""
    questions = quiz_of(spec).questions
    given = [None] * len(questions) if taken is None else taken.answers["given"]
    given = given if draft is None else draft
    return [
        {"item": number, "question": one.question, "choices": list(one.choices), "given": answer}
        for number, (one, answer) in enumerate(zip(questions, given, strict=False))
    ]


def quiz_json(spec: TaskSpec, taken: QuizResult, left: int) -> Json:
    """Return the result of a quiz attempt."""
    return {
        "passed": taken.passed,
        "right": taken.right_answers,
        "of": taken.questions,
        "explain": explanations(spec, taken),
        "attempts_left": left,
    }


def verdict_json(spec: TaskSpec, attempt: Attempt, number: int, warning: str | None) -> Json:
    """Return what the target said to an attempt, and why its text would earn no bonus.

    `number` counts the attempts on its context.
    """
    verdict = Verdict.from_record(attempt.verdict, verdict_id=attempt.public_id, task=spec.name, fooled=attempt.fooled)
    said = [{**_said(spec, one), "fooled": one.fooled} for one in verdict.outputs]
    shown = {"fooled": attempt.fooled, "message": verdict.sentence(spec), "said": said, "number": number}
    said_about = {"on": _asked_about(spec, attempt), "answer": attempt.answer}
    return {**shown, **said_about, "warning": None if warning is None else as_sentence(warning)}


def _asked_about(spec: TaskSpec, attempt: Attempt) -> dict[str, str]:
    """Return what the worker had on the page, by control; the page marks a verdict on anything else as outdated."""
    on = {field.name: attempt.fields[field.name] for field in spec.with_role("input")}
    if attempt.answer is not None:
        on |= {field.name: attempt.answer["text"] for field in spec.with_role("span")}
    elif attempt.label is not None and spec.target.set_by == "annotator":
        on["label"] = attempt.label
    return on


def missing_text(kind: HitKind, items: tuple[int, ...]) -> Message | None:
    """Return why the HIT cannot be submitted yet."""
    if not items:
        return None
    if kind is HitKind.QUIZ:
        return gettext("The quiz is not answered yet.")
    # Workers count from one.
    return gettext("Not done yet: %(items)s.", items=", ".join(str(item + 1) for item in items))


def _said(spec: TaskSpec, said: ModelOutput) -> Mapping[str, Any]:
    known = said.prediction in spec.label_names
    return {
        "version": said.version,
        "prediction": said.prediction,
        "title": spec.label_title(said.prediction) if known else said.prediction,
        "confidence": said.confidence,
    }


def result_in(body: Body) -> Result:
    """Return the editor's serialised annotation."""
    result = body.get("result")
    if not isinstance(result, list) or len(result) > MOST_RESULTS or not all(isinstance(one, dict) for one in result):
        raise PageInputUnreadable
    return result


def answers_in(body: Body) -> Sequence[Any]:
    """Return the answers of a quiz, which the use case checks."""
    answers = body.get("answers")
    if not isinstance(answers, list):
        raise PageInputUnreadable
    return answers


def text_in(body: Body, name: str) -> str:
    """Return a text that the page sent, empty if it sent none."""
    text = body.get(name, "")
    if not isinstance(text, str):
        raise PageInputUnreadable
    return text


def mark_in(body: Body) -> str:
    """Return the mark of what the page shows, which each call about an example to write carries."""
    mark = body.get("mark")
    if not isinstance(mark, str):
        raise PageInputUnreadable
    return mark


def flag_in(body: Body, name: str) -> bool:
    """Return a yes or no that the page sent, no if it sent none."""
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise PageInputUnreadable
    return value


def active_in(body: Body) -> int | None:
    """Return the milliseconds of active time that the page has counted so far, if it says."""
    active = body.get("active_ms")
    if active is None:
        return None
    if not isinstance(active, int) or isinstance(active, bool) or not 0 <= active <= MOST_ACTIVE_MS:
        raise PageInputUnreadable
    return active


def reader(result: Result, *, only_attempt: bool = False) -> Callable[[CreationItem], PageInput]:
    """Return a function that reads the editor's content; an attempt leaves the other fields of the page aside."""

    def read(item: CreationItem) -> PageInput:
        spec = item.spec.model_copy(update={"fields": attempt_fields(item.spec)}) if only_attempt else item.spec
        try:
            found = read_submission(spec, item.context.fields, item.target, {"result": result})
        except UnreadableAnnotation as error:
            raise input_error(item.spec, _unreadable(error)) from error
        return PageInput({**found.fields, **found.explanation}, found.label, found.answer)

    return read


def _unreadable(error: UnreadableAnnotation) -> InputProblem:
    message = error.message
    # Every such error has a message that was written for workers too.
    return InputProblem(message if isinstance(message, Message) else gettext("%(why)s", why=message))


def judgement_in(spec: TaskSpec, item: ValidationItem, body: Body) -> Judgement:
    """Return the judgement: from the editor, or a flag beside it."""
    if "result" not in body:
        flag, comment = body.get("flag"), body.get("comment")
        if not isinstance(flag, str | None) or not isinstance(comment, str | None):
            raise PageInputUnreadable
        return Judgement(flag=flag, comment=comment)
    try:
        return read_judgement(spec, item.fields, {"result": result_in(body)})
    except UnreadableAnnotation as error:
        raise input_error(spec, _unreadable(error)) from error
