"""Judging examples, without any information about their authors or the intended label; judgements become votes."""

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.messages import gettext
from round_manager.database.columns import json_text
from round_manager.errors import BadValueError, DuplicateError, VoteRefused
from round_manager.examples.submissions import InputProblem, answer_problem
from round_manager.models import Example, ExampleStatus, GoldItem, Round, Source, Vote, WorkItem, WorkSession, spec_of
from round_manager.tasks.rounds import LIVE
from round_manager.work import errors
from round_manager.work.active_time import add_item_time
from round_manager.work.attempts import ANSWER_KEYS, input_error
from round_manager.work.context_strategies import order_key, seed_of
from round_manager.work.errors import NothingToDo
from round_manager.work.established import counts_as_established
from round_manager.work.gold_choice import choose_gold, gold_count
from round_manager.work.leases import lease_examples
from round_manager.work.sessions import SessionContext, find_item, items_of, lock_for_work
from templates import TaskSpec
from templates.contract import judged_fields

LONGEST_COMMENT = 2_000


@dataclass(frozen=True)
class Judgement:
    """A worker's judgement of one example: a label, an answer, or a flag with one of the task's reasons."""

    label: str | None = None
    answer: Mapping[str, Any] | None = None
    flag: str | None = None
    comment: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the judgement as it is stored."""
        answer = None if self.answer is None else {name: self.answer.get(name) for name in ANSWER_KEYS}
        return {"label": self.label, "answer": answer, "flag": self.flag, "comment": self.comment or None}


@dataclass(frozen=True)
class ValidationItem:
    """One example to judge, as its page shows it; gold looks like any other."""

    item: int
    fields: Mapping[str, str]
    draft: Mapping[str, Any]
    judgement: Judgement | None


def assign_examples(session: Session, context: SessionContext, *, now: datetime) -> None:
    """Add the items of a new session: examples that need votes and some gold, shuffled; the task must be locked."""
    most = context.spec.work.validations_per_hit
    gold = min(gold_count(session, context, most), most - 1)
    work = context.work
    # Without examples, no gold counts as shown.
    with session.begin_nested() if gold else nullcontext():
        known = choose_gold(session, context, gold, now=now)
        found = lease_examples(session, work, context.open_round, most - len(known), now=now)
        if not found:
            text = gettext("there is nothing to check for you at the moment; return the HIT, please")
            raise NothingToDo(text, hint=errors.RETURN_HIT)
    rows = [
        WorkItem(
            session_id=work.id, worker_id=work.worker_id, item=0, example_id=example.id, author_id=example.author_id
        )
        for example in found
    ]
    seed = seed_of(session, work, context.hit.task_id)
    shuffled = sorted([*known, *rows], key=lambda one: order_key(seed, "place", one.gold_id, one.example_id))
    for place, row in enumerate(shuffled):
        row.item = place
    session.add_all(shuffled)
    session.flush()


def validation_items(session: Session, context: SessionContext) -> list[ValidationItem]:
    """Return the examples to judge in a session."""
    return [_shown(session, context.spec, row) for row in items_of(session, context.work)]


def validation_item(session: Session, context: SessionContext, item: int) -> ValidationItem:
    """Return the example to judge of that number."""
    return _shown(session, context.spec, _find(session, context.work, item))


def judge_item(
    session: Session, work: WorkSession, item: int, judgement: Judgement, *, now: datetime, active_ms: int | None = None
) -> None:
    """Store a judgement; until the session is submitted, another one replaces it and adds its time.

    `active_ms` is the active time that the page has counted so far.
    """
    context = lock_for_work(session, work, now=now)
    row = _find(session, work, item)
    problem = _page_problem(context.spec, judgement) or _problem(context.spec, _fields(session, row), judgement)
    if problem:
        raise input_error(context.spec, problem)
    row.judgement, row.judged_at = judgement.record(), now
    add_item_time(session, context.work, row, active_ms, now=now)
    session.flush()


def _find(session: Session, work: WorkSession, item: int) -> WorkItem:
    row = find_item(session, work, item)
    if row.context_id is not None:
        text = gettext("this HIT asks for a text, not for judgements; load the page again")
        raise errors.PageUnknown(text, hint=errors.RELOAD_PAGE)
    return row


def _shown(session: Session, spec: TaskSpec, row: WorkItem) -> ValidationItem:
    fields = _fields(session, row)
    judgement = None if row.judgement is None else Judgement(**row.judgement)
    return ValidationItem(row.item, {name: fields[name] for name in judged_fields(spec)}, row.draft, judgement)


def _fields(session: Session, row: WorkItem) -> Mapping[str, Any]:
    if row.gold_id is not None:
        return session.get_one(GoldItem, row.gold_id).fields
    return session.get_one(Example, row.example_id).fields


def _problem(spec: TaskSpec, fields: Mapping[str, Any], said: Judgement) -> InputProblem | None:
    is_label = spec.kind == "classification"
    given = [one for one in (said.label, said.answer, said.flag) if one is not None]
    if len(given) != 1:
        return InputProblem(
            gettext("give a label or a flag, one of them")
            if is_label
            else gettext("give an answer or a flag, one of them")
        )
    if said.flag is not None and not said.flag.strip():
        return InputProblem(gettext("the flag says nothing"))
    labels = gettext("the label can be %(labels)s", labels=", ".join(spec.label_names))
    if said.label is not None and (not is_label or said.label not in spec.label_names):
        return InputProblem(labels if is_label else gettext("select the answer in the passage"))
    if said.answer is not None:
        if is_label:
            return InputProblem(labels)
        (span,) = spec.with_role("span")
        problem = answer_problem(said.answer, str(fields[spec.model_input[1]]), span)
        if problem:
            return problem
    try:
        json_text(said.comment)
    except BadValueError as error:
        return InputProblem(gettext("this text cannot be saved: %(why)s", why=error.message))
    return None


def _page_problem(spec: TaskSpec, said: Judgement) -> InputProblem | None:
    """Return what a page does not offer, but Label Studio may: other flags and long comments."""
    if said.flag is not None and said.flag not in spec.validation.flag_reasons:
        reasons = "; ".join(spec.validation.flag_reasons)
        return InputProblem(gettext("flag it for one of these reasons: %(reasons)s", reasons=reasons))
    if len(said.comment or "") > LONGEST_COMMENT:
        text = gettext(
            "the comment has %(size)s characters; at most %(most)s are accepted",
            size=len(said.comment or ""),
            most=LONGEST_COMMENT,
        )
        return InputProblem(text, is_too_long=True)
    return None


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
    problem = _problem(spec, example.fields, Judgement(label, answer, flag, comment))
    if problem:
        raise VoteRefused(problem.text)
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
        established=counts_as_established(session, round, worker_id, source),
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
