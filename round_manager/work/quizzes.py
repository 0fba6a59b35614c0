"""Quizzes: questions about the instructions, scored here, paid whether passed or not, and limited in attempts.

An attempt counts for its worker once the marketplace has confirmed its session, so that no one can use up another
worker's attempts or pass for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from common.messages import gettext
from round_manager.models import (
    Hit,
    HitKind,
    Qualification,
    QualificationGrant,
    QuizResult,
    SessionStatus,
    Task,
    Worker,
    WorkSession,
    spec_of,
)
from round_manager.work import errors, sessions
from round_manager.work.errors import NothingToDo
from round_manager.work.leases import NO_SESSION
from round_manager.work.sessions import SessionContext, lock_for_work
from templates import TaskSpec
from templates.sections import Quiz

WHOLE = 100
# Where a session's draft has the answers.
ANSWERS = "answers"


@dataclass(frozen=True)
class QuizPass:
    """A passed quiz without a granted qualification; `score` is of 100."""

    task: Task
    worker_id: str
    score: int


def quiz_of(spec: TaskSpec) -> Quiz:
    """Return the task's quiz, or raise PageUnknown."""
    if spec.quiz is None:
        raise errors.PageUnknown(gettext("this task has no quiz; return the HIT, please"), hint=errors.RETURN_HIT)
    return spec.quiz


def check_quiz(session: Session, context: SessionContext) -> None:
    """Raise NothingToDo if the worker has passed, or has no attempts left."""
    if has_passed(session, context.work.worker_id, context.hit.task_id, context.work.id):
        raise NothingToDo(gettext("you have passed this quiz already; return the HIT, please"), hint=errors.RETURN_HIT)
    if not attempts_left(session, context):
        text = gettext("you have taken this quiz as often as it can be taken; return the HIT, please")
        raise NothingToDo(text, hint=errors.RETURN_HIT)


def attempts_left(session: Session, context: SessionContext) -> int:
    """Return how often the worker may still take the quiz; attempts here and all confirmed ones count."""
    return max(0, quiz_of(context.spec).max_attempts - _count_taken(session, context))


def may_take(session: Session, worker_id: int, task_id: int, spec: TaskSpec) -> bool:
    """Return whether the worker could take the quiz on a new page."""
    taken = session.scalar(_counted(worker_id, task_id, NO_SESSION)) or 0
    return taken < quiz_of(spec).max_attempts and not has_passed(session, worker_id, task_id, NO_SESSION)


def has_passed(session: Session, worker_id: int, task_id: int, session_id: int) -> bool:
    """Return whether the worker has passed the quiz on another page than this one."""
    passed = _counted(worker_id, task_id, session_id).where(QuizResult.passed, WorkSession.id != session_id)
    return bool(session.scalar(passed))


def _count_taken(session: Session, context: SessionContext) -> int:
    return session.scalar(_counted(context.work.worker_id, context.hit.task_id, context.work.id)) or 0


def results_of(session: Session, work: WorkSession) -> list[QuizResult]:
    """Return the attempts in this session, the first one first."""
    taken = select(QuizResult).where(QuizResult.session_id == work.id)
    return list(session.scalars(taken.order_by(QuizResult.number)))


def save_draft(session: Session, work: WorkSession, answers: Sequence[int | None], *, now: datetime) -> None:
    """Store the answers that are chosen so far, None for an open question."""
    questions = _quiz_in(lock_for_work(session, work, now=now)).questions
    given = list(answers)
    if len(given) != len(questions) or not all(
        answer is None or _is_choice(answer, len(question.choices))
        for answer, question in zip(given, questions, strict=True)
    ):
        raise errors.InvalidInput(gettext("answer each question with one of its choices"))
    sessions.save_draft(session, work, None, {ANSWERS: given}, now=now)


def draft_of(work: WorkSession, taken: QuizResult | None, left: int) -> tuple[int | None, ...] | None:
    """Return the answers that are chosen and can still be scored after the last attempt, if there are any."""
    given: list[int | None] | None = work.draft.get(ANSWERS)
    if given is None or (taken is not None and (taken.passed or not left or taken.answers["given"] == given)):
        return None
    return tuple(given)


def take_quiz(session: Session, work: WorkSession, answers: Sequence[int], *, now: datetime) -> QuizResult:
    """Score and store an attempt; the same answers again, or any after passing, use no further attempt."""
    context = lock_for_work(session, work, now=now)
    quiz = _quiz_in(context)
    given = list(answers)
    taken = results_of(session, work)
    for one in taken:
        if one.passed or one.answers["given"] == given:
            return one
    choices = [len(question.choices) for question in quiz.questions]
    if len(given) != len(choices) or not all(map(_is_choice, given, choices)):
        raise errors.InvalidInput(gettext("answer every question, each with one of its choices"))
    check_quiz(session, context)
    right = sum(answer == question.answer for answer, question in zip(given, quiz.questions, strict=True))
    result = QuizResult(
        session_id=work.id,
        worker_id=work.worker_id,
        task_id=context.hit.task_id,
        number=len(taken) + 1,
        answers={"given": given},
        right_answers=right,
        questions=len(choices),
        passed=right / len(choices) >= quiz.pass_share,
        taken_at=now,
    )
    session.add(result)
    context.work.draft = {}
    session.flush()
    return result


def explanations(spec: TaskSpec, result: QuizResult) -> list[str | None]:
    """Return why each wrong answer is wrong, and None for each right one."""
    answered = zip(result.answers["given"], quiz_of(spec).questions, strict=False)
    return [None if answer == one.answer else one.explain for answer, one in answered]


def ungranted_passes(session: Session, marketplace: str) -> list[QuizPass]:
    """Return the workers who should get a task's qualification; those who had it and lost it are not among them.

    Of attempts made at the same time, only as many count as the task allows, the first ones first.
    """
    confirmed = (
        select(QuizResult, Task, Worker)
        .join(WorkSession, WorkSession.id == QuizResult.session_id)
        .join(Hit, Hit.id == WorkSession.hit_id)
        .join(Task, Task.id == QuizResult.task_id)
        .join(Worker, Worker.id == QuizResult.worker_id)
        .where(
            Hit.kind == HitKind.QUIZ,
            WorkSession.status == SessionStatus.CONFIRMED,
            Worker.marketplace == marketplace,
            ~_granted().exists(),
        )
        .order_by(QuizResult.taken_at, QuizResult.id)
    )
    taken: dict[tuple[int, int], int] = {}
    found: dict[tuple[int, int], QuizPass] = {}
    for result, task, worker in session.execute(confirmed):
        whose = (task.id, worker.id)
        taken[whose] = taken.get(whose, 0) + 1
        quiz = spec_of(task).quiz
        # A quiz that was passed counts even if the task has dropped it since.
        if result.passed and (quiz is None or taken[whose] <= quiz.max_attempts):
            score = WHOLE * result.right_answers // result.questions
            found.setdefault(whose, QuizPass(task, worker.external_id, score))
    return list(found.values())


def _counted(worker_id: int, task_id: int, session_id: int) -> Select[int]:
    """Count the worker's attempts: those of this session, and those that the marketplace confirmed."""
    return (
        select(func.count())
        .select_from(QuizResult)
        .join(WorkSession, WorkSession.id == QuizResult.session_id)
        .join(Hit, Hit.id == WorkSession.hit_id)
        .where(
            Hit.kind == HitKind.QUIZ,
            QuizResult.worker_id == worker_id,
            QuizResult.task_id == task_id,
            or_(WorkSession.id == session_id, WorkSession.status == SessionStatus.CONFIRMED),
        )
    )


def _granted() -> Any:
    return (
        select(QualificationGrant.id)
        .join(Qualification, Qualification.id == QualificationGrant.qualification_id)
        .where(
            Qualification.task_id == QuizResult.task_id,
            Qualification.marketplace == Worker.marketplace,
            QualificationGrant.worker_id == QuizResult.worker_id,
        )
    )


def _quiz_in(context: SessionContext) -> Quiz:
    if context.hit.kind is not HitKind.QUIZ:
        raise errors.PageUnknown(gettext("this HIT has no quiz; load the page again"), hint=errors.RELOAD_PAGE)
    return quiz_of(context.spec)


def _is_choice(answer: int, choices: int) -> bool:
    return isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < choices
