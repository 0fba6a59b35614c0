"""Outcomes: the result of a submission is written to its task in Label Studio, where its author finds it.

In the creation project: status, reason, text and verdict, and the votes once they have decided. In the validation
project: why a vote was refused. Authors also skip the checks of their own examples, so that they are not asked. A row
remembers what was written last, so that nothing is written twice and one query finds the changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, String, and_, case, cast, func, literal, or_, select
from sqlalchemy.orm import Session

from common.clock import Clock
from round_manager.database.store import Store, process_lock
from round_manager.labelstudio.annotations import reason_text
from round_manager.labelstudio.crowd_upload import verdict_of
from round_manager.labelstudio.port import LabelStudio, LabelStudioRefused
from round_manager.labelstudio.projects import linked_projects, recording_errors
from round_manager.labelstudio.tasks import returned_key
from round_manager.models import (
    Example,
    ExampleStatus,
    LabelStudioAnnotation,
    LabelStudioLink,
    LabelStudioTask,
    Origin,
    ProjectKind,
    Round,
    Source,
    Vote,
    Worker,
    spec_of,
)
from round_manager.tasks.rounds import LIVE
from templates import TaskSpec
from templates.payloads import outcome_values

# So that a long queue of one task does not keep the others waiting.
OUTCOMES_PER_RUN = 100
NOT_ACCEPTED = "not accepted"
# From now on, no vote can be influenced.
DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)

Values = Mapping[str, str]

_SKIPPED = "skipped for its author"
_REFUSED = "refused"


@dataclass(frozen=True)
class _Outcome:
    """What to do with a task: write values, or skip it for a user; `state` is remembered."""

    row: int
    task: int
    state: str
    values: Values
    user: int | None = None


class _OutcomesLocked(Exception):
    """Another process writes the outcomes of this project."""


def write_outcomes(store: Store, label_studio: LabelStudio, task_name: str, clock: Clock) -> int:
    """Write the outcomes that changed, at most OUTCOMES_PER_RUN per project; return how many.

    Interrupted and repeated, the rest is written. Changing a task sends no webhook.
    """
    task, links = linked_projects(store, label_studio.url, task_name)
    written = 0
    for link in links.values():
        with store.read() as session:
            due = _due(session, spec_of(task), link)
        if not due:
            continue
        with recording_errors(store, link, task_name, clock):
            try:
                with process_lock(store, f"label-studio-outcomes-{link.id}", _skip):
                    for one in due:
                        _write(store, label_studio, link, one)
                        written += 1
            except _OutcomesLocked:
                continue
    return written


def _skip() -> None:
    raise _OutcomesLocked


def _write(store: Store, label_studio: LabelStudio, link: LabelStudioLink, one: _Outcome) -> None:
    try:
        if one.user is not None:
            label_studio.skip_for(link.project, one.task, one.user)
        else:
            label_studio.set_values(link.project, one.task, one.values)
    except LabelStudioRefused:
        # For example a deleted user, or a template that needs other data. It would be refused each time.
        pass
    with store.write() as session:
        row = session.get_one(LabelStudioTask, one.row, with_for_update=True)
        if row.external_id == one.task:
            row.outcome = one.state


def _due(session: Session, spec: TaskSpec, link: LabelStudioLink) -> list[_Outcome]:
    if link.kind is ProjectKind.CREATE:
        return _due_submissions(session, spec, link)
    refused = _due_votes(session, spec, link)
    return refused + _due_skips(session, link, OUTCOMES_PER_RUN - len(refused))


def _due_submissions(session: Session, spec: TaskSpec, link: LabelStudioLink) -> list[_Outcome]:
    annotation, task = LabelStudioAnnotation, LabelStudioTask
    is_problem, status = annotation.problem.is_not(None), cast(Example.status, String)
    state = case(
        (annotation.example_id.is_(None), literal(_REFUSED)),
        (is_problem, status + literal("!")),
        else_=status,
    )
    # Of what was read before outcomes were written, the rounds that are over are left as they are.
    is_due = or_(
        task.outcome != state, task.outcome.is_(None) & or_(annotation.example_id.is_(None), Round.status.in_(LIVE))
    )
    due = (
        _latest(link, task, annotation, Example, Round, state)
        .outerjoin(Example, Example.id == annotation.example_id)
        .outerjoin(Round, Round.id == Example.round_id)
        .where(or_(annotation.example_id.is_not(None), is_problem), is_due)
        .order_by(task.id)
        .limit(OUTCOMES_PER_RUN)
    )
    found = []
    for row, known, example, round, now in session.execute(due):
        if example is None:
            values = _refused_values(session, spec, link, known)
        else:
            values = _example_values(session, spec_of(round), example, known.problem or "")
        found.append(_Outcome(row.id, row.external_id or 0, now, values))
    return found


def _due_votes(session: Session, spec: TaskSpec, link: LabelStudioLink) -> list[_Outcome]:
    annotation, task = LabelStudioAnnotation, LabelStudioTask
    is_due = or_(task.outcome.is_(None), task.outcome != _REFUSED)
    due = _latest(link, task, annotation).where(annotation.problem.is_not(None), is_due).order_by(task.id)
    return [
        _Outcome(row.id, row.external_id or 0, _REFUSED, _vote_values(spec, known.problem or ""))
        for row, known in session.execute(due.limit(OUTCOMES_PER_RUN))
    ]


def _due_skips(session: Session, link: LabelStudioLink, most: int) -> list[_Outcome]:
    """Return the checks of examples whose authors have an account in this Label Studio, unless they were answered."""
    users, task = f"{link.url}/users/", LabelStudioTask
    read = select(LabelStudioAnnotation.id).where(LabelStudioAnnotation.label_studio_task_id == task.id)
    due = (
        select(task.id, task.external_id, Worker.external_id)
        .join(Example, Example.id == task.example_id)
        .join(Round, Round.id == Example.round_id)
        .join(Worker, Worker.id == Example.author_id)
        .where(
            task.link_id == link.id,
            task.external_id > 0,
            task.outcome.is_(None),
            Example.source == Source.LABEL_STUDIO,
            Example.status == ExampleStatus.PENDING,
            Round.status.in_(LIVE),
            Worker.external_id.startswith(users, autoescape=True),
            ~read.exists(),
        )
        .order_by(task.id)
        .limit(most)
    )
    return [
        _Outcome(row, number, _SKIPPED, {}, int(user.removeprefix(users)))
        for row, number, user in session.execute(due)
        if number and user.removeprefix(users).isdecimal()
    ]


def _latest(link: LabelStudioLink, *columns: Any) -> Select[Any]:
    """Select from the tasks that exist in Label Studio, each with the latest annotation that was read."""
    annotation = LabelStudioAnnotation
    latest = (
        select(func.max(annotation.id).label("id"))
        .where(annotation.link_id == link.id, annotation.origin == Origin.THEIRS)
        .group_by(annotation.label_studio_task_id)
        .subquery()
    )
    return (
        select(*columns)
        .select_from(annotation)
        .join(latest, latest.c.id == annotation.id)
        .join(LabelStudioTask, LabelStudioTask.id == annotation.label_studio_task_id)
        .where(_is_there(link))
    )


def _is_there(link: LabelStudioLink) -> ColumnElement[bool]:
    return and_(LabelStudioTask.link_id == link.id, LabelStudioTask.external_id > 0)


def _refused_values(session: Session, spec: TaskSpec, link: LabelStudioLink, known: LabelStudioAnnotation) -> Values:
    key = returned_key(known)
    texts = session.scalar(
        select(LabelStudioTask.returned).where(LabelStudioTask.link_id == link.id, LabelStudioTask.key == key)
    )
    sentence = str((texts or {}).get("sentence", ""))
    reason = reason_text(spec, known.problem or "")
    return outcome_values(spec, {"status": NOT_ACCEPTED, "reason": reason, "sentence": sentence})


def _vote_values(spec: TaskSpec, problem: str) -> Values:
    known = {"status": NOT_ACCEPTED, "reason": reason_text(spec, problem)}
    return {key: value for key, value in outcome_values(spec, known).items() if key in known}


def _example_values(session: Session, spec: TaskSpec, example: Example, problem: str) -> Values:
    texts = [str(example.fields.get(field.name, "")) for field in spec.with_role("input")]
    known = {
        "status": example.status.value,
        "reason": reason_text(spec, problem) if problem else "",
        "sentence": "\n".join(texts),
        "verdict": verdict_of(spec, example).sentence(spec),
        "votes": _votes(session, spec, example) if example.status in DECIDED else "",
    }
    return outcome_values(spec, known)


def _votes(session: Session, spec: TaskSpec, example: Example) -> str:
    votes = session.scalars(select(Vote).where(Vote.example_id == example.id).order_by(Vote.id))
    return "; ".join(_vote_text(spec, one) for one in votes)


def _vote_text(spec: TaskSpec, vote: Vote) -> str:
    if vote.flag is not None:
        return vote.flag
    return spec.label_title(vote.label) if vote.label is not None else str((vote.answer or {}).get("text", ""))
