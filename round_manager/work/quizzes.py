"""Quizzes: questions about the instructions, scored here, paid passed or not, tried as often as the task says.

An attempt counts for its worker when the marketplace has confirmed the session that it was taken in: nobody uses up
somebody else's attempts, and nobody passes for somebody else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from round_manager.errors import NothingToDo, WorkRefused
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
)
from round_manager.specs import spec_of
from round_manager.work.sessions import SessionContext, lock_for_work, session_context
from templates import TaskSpec
from templates.policy import Quiz

WHOLE = 100


@dataclass(frozen=True)
class QuizQuestion:
    """A question as its page shows it."""

    question: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class MarkedAnswer:
    """What became of one answer; `explain` is empty where it was right."""

    is_right: bool
    explain: str


@dataclass(frozen=True)
class QuizPass:
    """A worker who passed a task's quiz and was never given its qualification; `score` is of 100."""

    task: Task
    worker_id: str
    score: int


def quiz_of(spec: TaskSpec) -> Quiz:
    """The task's quiz, or a WorkRefused where it has none."""
    if spec.quiz is None:
        raise WorkRefused("this task has no quiz; return the HIT, please")
    return spec.quiz


def quiz_questions(spec: TaskSpec) -> list[QuizQuestion]:
    """The questions, without their answers."""
    return [QuizQuestion(one.question, one.choices) for one in quiz_of(spec).questions]


def check_quiz(session: Session, desk: SessionContext) -> None:
    """Nothing, or a NothingToDo for somebody who has passed, or whose attempts are used."""
    passed = _counted(desk).where(QuizResult.passed, WorkSession.id != desk.work.id)
    if session.scalar(passed):
        raise NothingToDo("you have passed this quiz already; return the HIT, please")
    if not attempts_left(session, desk.work):
        raise NothingToDo("you have taken this quiz as often as it can be taken; return the HIT, please")


def attempts_left(session: Session, work: WorkSession) -> int:
    """How often the worker may still take the quiz: those in this session and all confirmed ones are counted."""
    desk = session_context(session, work)
    return max(0, quiz_of(desk.spec).max_attempts - (session.scalar(_counted(desk)) or 0))


def results_of(session: Session, work: WorkSession) -> list[QuizResult]:
    """The attempts in this session, the first one first."""
    taken = select(QuizResult).where(QuizResult.session_id == work.id)
    return list(session.scalars(taken.order_by(QuizResult.number)))


def take_quiz(session: Session, work: WorkSession, answers: Sequence[int], *, now: datetime) -> QuizResult:
    """The attempt, scored; the same answers sent again, or anything after passing, use no further attempt."""
    desk = lock_for_work(session, work, now=now)
    if desk.hit.kind is not HitKind.QUIZ:
        raise WorkRefused("this HIT has no quiz; load the page again")
    quiz = quiz_of(desk.spec)
    given = list(answers)
    taken = results_of(session, work)
    for one in taken:
        if one.passed or one.answers["given"] == given:
            return one
    choices = [len(question.choices) for question in quiz.questions]
    if len(given) != len(choices) or not all(map(_is_choice, given, choices)):
        raise WorkRefused("answer every question, each with one of its choices")
    check_quiz(session, desk)
    right = sum(answer == question.answer for answer, question in zip(given, quiz.questions, strict=True))
    result = QuizResult(
        session_id=work.id,
        worker_id=work.worker_id,
        task_id=desk.hit.task_id,
        number=len(taken) + 1,
        answers={"given": given},
        right_answers=right,
        questions=len(choices),
        passed=right / len(choices) >= quiz.pass_share,
        taken_at=now,
    )
    session.add(result)
    session.flush()
    return result


def marked(spec: TaskSpec, result: QuizResult) -> list[MarkedAnswer]:
    """What became of each answer, with a sentence for the wrong ones."""
    given = result.answers["given"]
    return [
        MarkedAnswer(answer == one.answer, "" if answer == one.answer else one.explain)
        for answer, one in zip(given, quiz_of(spec).questions, strict=False)
    ]


def ungranted_passes(session: Session, marketplace: str) -> list[QuizPass]:
    """Everybody who is to get a task's qualification; who had it and lost it is not among them.

    Of attempts that came in side by side only as many count as the task allows, the first ones first.
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
        # Who passed a quiz that was taken out since has passed it all the same.
        if result.passed and (quiz is None or taken[whose] <= quiz.max_attempts):
            score = WHOLE * result.right_answers // result.questions
            found.setdefault(whose, QuizPass(task, worker.external_id, score))
    return list(found.values())


def _counted(desk: SessionContext) -> Select[int]:
    """How many attempts of the worker count: those of the session, and those that the marketplace confirmed."""
    return (
        select(func.count())
        .select_from(QuizResult)
        .join(WorkSession, WorkSession.id == QuizResult.session_id)
        .join(Hit, Hit.id == WorkSession.hit_id)
        .where(
            Hit.kind == HitKind.QUIZ,
            QuizResult.worker_id == desk.work.worker_id,
            QuizResult.task_id == desk.hit.task_id,
            or_(WorkSession.id == desk.work.id, WorkSession.status == SessionStatus.CONFIRMED),
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


def _is_choice(answer: int, choices: int) -> bool:
    return isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < choices
