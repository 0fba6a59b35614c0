"""Validating: the examples that a worker judges in a session, without a word about who wrote them or what was meant."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from round_manager.database.columns import json_text
from round_manager.errors import BadValueError, NothingToDo, WorkRefused
from round_manager.examples.submission_rules import answer_problem
from round_manager.models import Example, GoldItem, WorkItem, WorkSession
from round_manager.work.attempts import ANSWER_KEYS, UNREADABLE, read_target
from round_manager.work.gold import choose_gold, gold_count
from round_manager.work.leases import lease_examples
from round_manager.work.seeded_order import order_key, seed_of
from round_manager.work.sessions import (
    SessionContext,
    add_item_time,
    find_item,
    items_of,
    lock_for_work,
    session_context,
)
from templates import TaskSpec
from templates.contract import judged_fields

LONGEST_COMMENT = 2_000


@dataclass(frozen=True)
class Judgement:
    """What a worker says of one example: a label, an answer, or a flag with one of the task's reasons."""

    label: str | None = None
    answer: Mapping[str, Any] | None = None
    flag: str | None = None
    comment: str | None = None

    @classmethod
    def read(cls, value: Any) -> "Judgement":
        """What a page sent as JSON, or a WorkRefused for anything else; only its form is looked at."""
        rest = [value.get("flag"), value.get("comment")] if isinstance(value, dict) else [0]
        if not all(isinstance(text, str | None) for text in rest):
            raise WorkRefused(UNREADABLE)
        return cls(*read_target(value), *rest)

    def record(self) -> dict[str, Any]:
        """What is kept of it."""
        answer = None if self.answer is None else {name: self.answer.get(name) for name in ANSWER_KEYS}
        return {"label": self.label, "answer": answer, "flag": self.flag, "comment": self.comment or None}


@dataclass(frozen=True)
class ValidationItem:
    """One example to judge, as its page shows it."""

    item: int
    fields: Mapping[str, str]
    draft: Mapping[str, Any]
    judgement: Judgement | None


def assign_examples(session: Session, desk: SessionContext, *, now: datetime) -> None:
    """The items of a new session: what wants votes and some gold, shuffled; the task's turn must be taken."""
    most = desk.spec.work.validations_per_hit
    known = choose_gold(session, desk, min(gold_count(session, desk, most), most - 1))
    work = desk.work
    found = lease_examples(session, work, desk.open_round, most - len(known), now=now)
    if not found:
        raise NothingToDo("there is nothing to check for you at the moment; return the HIT, please")
    rows = [
        WorkItem(
            session_id=work.id, worker_id=work.worker_id, item=0, example_id=example.id, author_id=example.author_id
        )
        for example in found
    ]
    seed = seed_of(session, work, desk.hit.task_id)
    shuffled = sorted([*known, *rows], key=lambda one: order_key(seed, "place", one.gold_id, one.example_id))
    for place, row in enumerate(shuffled):
        row.item = place
    session.add_all(shuffled)
    session.flush()


def validation_items(session: Session, work: WorkSession) -> list[ValidationItem]:
    """Everything that the validation page shows; gold looks like everything else."""
    names = judged_fields(session_context(session, work).spec)
    shown = []
    for row in items_of(session, work):
        fields = _fields(session, row)
        said = None if row.judgement is None else Judgement(**row.judgement)
        shown.append(ValidationItem(row.item, {name: fields[name] for name in names}, row.draft, said))
    return shown


def judge_item(
    session: Session, work: WorkSession, item: int, judgement: Judgement, *, now: datetime, active_ms: int | None = None
) -> None:
    """The judgement is kept; until the session is handed in, another one takes its place and adds its time.

    `active_ms` is what the page has counted so far.
    """
    desk = lock_for_work(session, work, now=now)
    row = find_item(session, work, item)
    if row.context_id is not None:
        raise WorkRefused("this HIT asks for a text, not for judgements; load the page again")
    problem = _problem(desk.spec, _fields(session, row), judgement)
    if problem:
        raise WorkRefused(problem)
    row.judgement, row.judged_at = judgement.record(), now
    add_item_time(session, desk.work, row, active_ms, now=now)
    session.flush()


def _fields(session: Session, row: WorkItem) -> Mapping[str, Any]:
    if row.gold_id is not None:
        return session.get_one(GoldItem, row.gold_id).fields
    return session.get_one(Example, row.example_id).fields


def _problem(spec: TaskSpec, fields: Mapping[str, Any], said: Judgement) -> str | None:
    is_label = spec.kind == "classification"
    given = [one for one in (said.label, said.answer, said.flag) if one is not None]
    if len(given) != 1:
        return f"give {'a label' if is_label else 'an answer'} or a flag, one of them"
    if said.flag is not None and said.flag not in spec.validation.flag_reasons:
        return f"flag it for one of these reasons: {'; '.join(spec.validation.flag_reasons)}"
    if said.label is not None and (not is_label or said.label not in spec.label_names):
        return f"the label can be {', '.join(spec.label_names)}" if is_label else "select the answer in the passage"
    if said.answer is not None:
        if is_label:
            return f"the label can be {', '.join(spec.label_names)}"
        (span,) = spec.with_role("span")
        problem = answer_problem(said.answer, str(fields[spec.model_input[1]]), span)
        if problem:
            return problem
    return _comment_problem(said.comment)


def _comment_problem(comment: str | None) -> str | None:
    if comment is None:
        return None
    if len(comment) > LONGEST_COMMENT:
        return f"the comment has {len(comment)} characters; at most {LONGEST_COMMENT} are accepted"
    try:
        json_text(comment)
    except BadValueError as error:
        return f"the comment cannot be kept: {error}"
    return None
