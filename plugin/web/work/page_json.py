"""Sessions, items and verdicts as JSON for the page's script, without anything that a worker must not know."""

from collections.abc import Mapping
from typing import Any

from ml_backend.verdict import ModelOutput, Verdict
from round_manager.models import Attempt, HitKind, QuizResult
from round_manager.services.work import PageState
from round_manager.tasks.contexts import pack_context
from round_manager.work.attempts import CreationItem
from round_manager.work.quizzes import marked, quiz_questions
from round_manager.work.validation_work import ValidationItem
from templates import TaskSpec
from templates.payloads import Json, creation_task, validation_task


def state_json(page: PageState) -> Json:
    """Return everything that changes on a page."""
    kind, spec = page.hit.kind, page.spec
    items: list[Json] = []
    if kind is HitKind.CREATE:
        items = [creation_json(one) for one in page.creation]
    elif kind is HitKind.VALIDATE:
        items = [validation_json(spec, one) for one in page.validation]
    else:
        items = quiz_items(spec, page.quiz)
    fooling = sum(one.example is not None and one.example.fooled for one in page.creation)
    return {
        "now": page.now.isoformat(),
        "deadline": page.deadline.isoformat(),
        "status": page.status.value,
        "active_ms": page.active_ms,
        "items": items,
        "tries": spec.work.tries,
        "tries_before_skip": spec.work.tries_before_skip,
        "earned": {
            "reward_cents": page.hit.reward_cents,
            "bonus_cents": fooling * spec.pay.fooled_bonus_cents,
        },
        "missing": missing_text(kind, page.missing),
        "quiz": quiz_json(spec, page.quiz, page.attempts_left) if page.quiz is not None else None,
    }


def creation_json(item: CreationItem) -> Json:
    """Return one example to write."""
    spec = item.spec
    target = None if item.target is None else {"name": item.target, "title": spec.label_title(item.target)}
    verdicts = [verdict_json(spec, one, number) for number, one in enumerate(item.attempts, 1)]
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


def quiz_items(spec: TaskSpec, taken: QuizResult | None) -> list[Json]:
    """Return the questions with the last answers."""
    questions = quiz_questions(spec)
    given = [None] * len(questions) if taken is None else taken.answers["given"]
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
        "explain": [one.explain or None for one in marked(spec, taken)],
        "attempts_left": left,
    }


def verdict_json(spec: TaskSpec, attempt: Attempt, number: int) -> Json:
    """Return what the target said to an attempt; `number` counts the attempts on its context."""
    verdict = Verdict.from_record(attempt.verdict, verdict_id=attempt.public_id, task=spec.name, fooled=attempt.fooled)
    said = [{**_said(spec, one), "fooled": one.fooled} for one in verdict.outputs]
    shown = {"fooled": attempt.fooled, "message": verdict.sentence(spec), "said": said, "number": number}
    return {**shown, "on": _asked_about(spec, attempt), "answer": attempt.answer}


def _asked_about(spec: TaskSpec, attempt: Attempt) -> dict[str, str]:
    """Return what the worker had on the page, by control; the page marks a verdict on anything else as outdated."""
    on = {field.name: attempt.fields[field.name] for field in spec.with_role("input")}
    if attempt.answer is not None:
        on |= {field.name: attempt.answer["text"] for field in spec.with_role("span")}
    elif attempt.label is not None and spec.target.set_by == "annotator":
        on["label"] = attempt.label
    return on


def missing_text(kind: HitKind, items: tuple[int, ...]) -> str | None:
    """Return why the HIT cannot be submitted yet."""
    if not items:
        return None
    if kind is HitKind.QUIZ:
        return "The quiz is not answered yet."
    # Workers count from one.
    return f"Not done yet: {', '.join(str(item + 1) for item in items)}."


def _said(spec: TaskSpec, said: ModelOutput) -> Mapping[str, Any]:
    known = said.prediction in spec.label_names
    return {
        "version": said.version,
        "prediction": said.prediction,
        "title": spec.label_title(said.prediction) if known else said.prediction,
        "confidence": said.confidence,
    }
