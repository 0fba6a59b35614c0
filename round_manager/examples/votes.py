"""Votes: each is one validator's judgement; a flag sends the example to the owner."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.database.columns import json_text
from round_manager.errors import BadValueError, DuplicateError, VoteRefused
from round_manager.examples.submissions import answer_problem
from round_manager.models import Example, ExampleStatus, Round, Source, Vote, spec_of
from round_manager.tasks.rounds import LIVE
from templates import TaskSpec

# An example that is decided stays decided; the owner sees the flag among the late ones.
CAN_BE_FLAGGED = (ExampleStatus.PENDING, ExampleStatus.UNCHECKED)
TWICE = "the validator has judged this example already"


def cast_vote(
    session: Session,
    example: Example,
    worker_id: int,
    *,
    source: Source,
    voted_at: datetime,
    label: str | None = None,
    answer: Mapping[str, Any] | None = None,
    flag: str | None = None,
    comment: str | None = None,
    active_ms: int | None = None,
    session_id: int | None = None,
    item: int = 0,
) -> Vote:
    """Store a vote; a flag sends the example to the owner. The vote itself does not decide the example."""
    lock_examples(session, [example.id])
    round = session.get_one(Round, example.round_id)
    spec = spec_of(round)
    if round.status not in LIVE:
        raise VoteRefused(f"round {round.number} of {spec.name} is {round.status.value} and takes no votes")
    if example.status is ExampleStatus.WITHDRAWN:
        raise VoteRefused("the example was withdrawn")
    if worker_id == example.author_id:
        raise VoteRefused("authors do not judge their own examples")
    problem = _judgement_problem(spec, example, label, answer, flag) or _comment_problem(comment)
    if problem:
        raise VoteRefused(problem)
    if session.scalar(select(Vote.id).where(Vote.example_id == example.id, Vote.worker_id == worker_id)) is not None:
        raise VoteRefused(TWICE)
    vote = Vote(
        example_id=example.id,
        author_id=example.author_id,
        worker_id=worker_id,
        source=source,
        session_id=session_id,
        item=item,
        label=label,
        answer=dict(answer) if answer is not None else None,
        flag=flag,
        comment=comment if comment and comment.strip() else None,
        voted_at=voted_at,
        active_ms=active_ms,
    )
    try:
        with session.begin_nested():
            session.add(vote)
    except DuplicateError as error:  # Another vote of this validator has just arrived.
        raise VoteRefused(TWICE) from error
    if flag is not None and example.status in CAN_BE_FLAGGED:
        example.status = ExampleStatus.FLAGGED
        session.flush()
    return vote


def lock_examples(session: Session, example_ids: Collection[int]) -> None:
    """Lock examples until the transaction ends, and read them as they are now.

    Votes count in the order of their ids, so the second of two votes on an example gets its id after the first is
    committed. A transaction that casts several votes locks all of their examples first, in one order, so that no two
    wait for each other.
    """
    held = select(Example).where(Example.id.in_(example_ids)).order_by(Example.id).with_for_update(key_share=True)
    session.scalars(held.execution_options(populate_existing=True)).all()


def _judgement_problem(
    spec: TaskSpec, example: Example, label: str | None, answer: Mapping[str, Any] | None, flag: str | None
) -> str | None:
    given = [one for one in (label, answer, flag) if one is not None]
    if len(given) != 1:
        what = "a label" if spec.kind == "classification" else "an answer"
        return f"a vote is {what} or a flag, and this has {'neither' if not given else 'several of them'}"
    if flag is not None:
        return None if flag.strip() else "the flag says nothing"
    if spec.kind == "classification":
        if label in spec.label_names:
            return None
        return f"the vote is {label!r}; {spec.name} has {', '.join(spec.label_names)}" if label else "no label is given"
    (span,) = spec.with_role("span")
    problem = answer_problem(answer, str(example.fields[spec.model_input[1]]), span)
    return problem.text if problem else None


def _comment_problem(comment: str | None) -> str | None:
    try:
        json_text(comment)
    except BadValueError as error:
        return f"the comment cannot be kept: {error}"
    return None
