"""Judging examples in a session, without any information about their authors or the intended label."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from round_manager.database.columns import json_text
from round_manager.errors import BadValueError
from round_manager.examples.submissions import InputProblem, answer_problem
from round_manager.models import Example, GoldItem, WorkItem, WorkSession
from round_manager.work import errors
from round_manager.work.attempts import ANSWER_KEYS, input_error
from round_manager.work.context_strategies import order_key, seed_of
from round_manager.work.errors import NothingToDo
from round_manager.work.gold import choose_gold, gold_count
from round_manager.work.leases import lease_examples
from round_manager.work.sessions import SessionContext, add_item_time, find_item, items_of, lock_for_work
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
    known = choose_gold(session, context, min(gold_count(session, context, most), most - 1))
    work = context.work
    found = lease_examples(session, work, context.open_round, most - len(known), now=now)
    if not found:
        text = "there is nothing to check for you at the moment; return the HIT, please"
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
    problem = _problem(context.spec, _fields(session, row), judgement)
    if problem:
        raise input_error(context.spec, problem)
    row.judgement, row.judged_at = judgement.record(), now
    add_item_time(session, context.work, row, active_ms, now=now)
    session.flush()


def _find(session: Session, work: WorkSession, item: int) -> WorkItem:
    row = find_item(session, work, item)
    if row.context_id is not None:
        raise errors.PageUnknown(
            "this HIT asks for a text, not for judgements; load the page again", hint=errors.RELOAD_PAGE
        )
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
        return InputProblem(f"give {'a label' if is_label else 'an answer'} or a flag, one of them")
    if said.flag is not None and said.flag not in spec.validation.flag_reasons:
        return InputProblem(f"flag it for one of these reasons: {'; '.join(spec.validation.flag_reasons)}")
    labels = f"the label can be {', '.join(spec.label_names)}"
    if said.label is not None and (not is_label or said.label not in spec.label_names):
        return InputProblem(labels if is_label else "select the answer in the passage")
    if said.answer is not None:
        if is_label:
            return InputProblem(labels)
        (span,) = spec.with_role("span")
        problem = answer_problem(said.answer, str(fields[spec.model_input[1]]), span)
        if problem:
            return problem
    return _comment_problem(said.comment)


def _comment_problem(comment: str | None) -> InputProblem | None:
    if comment is None:
        return None
    if len(comment) > LONGEST_COMMENT:
        text = f"the comment has {len(comment)} characters; at most {LONGEST_COMMENT} are accepted"
        return InputProblem(text, is_too_long=True)
    try:
        json_text(comment)
    except BadValueError as error:
        return InputProblem(f"the comment cannot be kept: {error}")
    return None
