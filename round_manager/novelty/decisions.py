"""The decision whether an example's text is new; it is stored with the example, and bonuses and splits read it.

An example is compared with the new examples of its task in all rounds, the seed and the contexts. The marketplace must
have confirmed its author: anyone with a link can open a page, so an unconfirmed text keeps no other from being new. The
first text that is confirmed is the new one, and stays it. If it is withdrawn, or its work is rejected, before its bonus
is owed, the decision on the examples that repeat it is made again while the round is live.

Rounds that were opened before this rule existed have no such terms: nothing is decided in them, but later rounds are
compared with their examples.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, bindparam, exists, select
from sqlalchemy.orm import Session

from round_manager.database.columns import is_in
from round_manager.models import (
    VALID_SESSIONS,
    Assignment,
    AssignmentStatus,
    Duplicate,
    Example,
    ExampleStatus,
    LedgerEntry,
    Round,
    RoundStatus,
    WorkSession,
    spec_of,
)
from round_manager.models.table import table_of
from round_manager.novelty.known_texts import (
    NewText,
    SimilarText,
    add_texts,
    lock_texts,
    name_of,
    remove_example,
    similar_texts,
)
from round_manager.novelty.measure import MeasuredText, measured_examples, own_text
from templates import TaskSpec
from templates.sections import Duplicates

NOT_COUNTED = (ExampleStatus.UNCONFIRMED, ExampleStatus.WITHDRAWN)
# The number of a worker's own unconfirmed examples, the newest, that a warning compares with.
MOST_OWN = 100
SECTION = "duplicates"
# On the tables themselves, which costs half as much: each attempt on a page runs it.
_EXAMPLES, _SESSIONS = table_of(Example), table_of(WorkSession)
_UNCONFIRMED_OF = (
    select(_EXAMPLES.c.public_id, _EXAMPLES.c.fields)
    .join(_SESSIONS, _SESSIONS.c.id == _EXAMPLES.c.session_id)
    .where(
        _EXAMPLES.c.status == ExampleStatus.UNCONFIRMED,
        _EXAMPLES.c.author_id == bindparam("author_id"),
        _EXAMPLES.c.round_id == bindparam("round_id"),
        is_in(_SESSIONS.c.status, VALID_SESSIONS),
    )
    .order_by(_EXAMPLES.c.id.desc())
    .limit(MOST_OWN)
)


@dataclass(frozen=True)
class Repetition:
    """How a text repeats a known one. `own_text` is what the same worker wrote earlier; others' texts are not shown."""

    how: Duplicate
    name: str
    own_text: str | None
    is_context: bool


def duplicate_rule(round: Round) -> Duplicates | None:
    """Return the round's terms about duplicates; None if it was opened before there were any."""
    return spec_of(round).duplicates if SECTION in round.spec else None


def find_repetition(
    session: Session, round: Round, spec: TaskSpec, author_id: int, fields: Mapping[str, Any]
) -> Repetition | None:
    """Return what a worker's text repeats, including their own unconfirmed examples; None if it is new so far.

    `spec` are the round's terms, which every request has read already.
    """
    if SECTION not in round.spec:
        return None
    (measured,) = measured_examples(spec, [fields])
    for one in similar_texts(session, round.task_id, measured, spec.duplicates.near):
        found = None if one.example_id is None else session.get_one(Example, one.example_id)
        if found is None or not _is_rejected(session, found):
            mine = found is not None and found.author_id == author_id
            return Repetition(
                one.how, one.name, own_text(spec, found.fields) if found and mine else None, one.is_context
            )
    return _own_repetition(session, round, spec, author_id, measured)


def _own_repetition(
    session: Session, round: Round, spec: TaskSpec, author_id: int, measured: MeasuredText
) -> Repetition | None:
    rows = session.execute(_UNCONFIRMED_OF, {"author_id": author_id, "round_id": round.id}).all()
    for (public_id, fields), other in zip(rows, measured_examples(spec, [row[1] for row in rows]), strict=True):
        if other.context == measured.context and measured.is_near(other.text, spec.duplicates.near):
            how = Duplicate.EXACT if other.text == measured.text else Duplicate.NEAR
            return Repetition(how, public_id.hex, own_text(spec, fields), is_context=False)
    return None


def decide(session: Session, example: Example) -> bool:
    """Decide whether a confirmed example is new, and store it; return whether the decision changed.

    A new text becomes known. One that repeats the text of rejected work takes its place.
    """
    lock_texts(session, [example.task_id])
    round = session.get_one(Round, example.round_id)
    spec, has_rule = spec_of(round), SECTION in round.spec
    (measured,) = measured_examples(spec, [example.fields])
    found = similar_texts(session, example.task_id, measured, spec.duplicates.near if has_rule else 1)
    similar = [one for one in found if one.example_id != example.id]
    if not has_rule:
        if not similar:
            add_texts(session, example.task_id, [NewText(name_of(example), measured, example.id)])
        return False
    rejected = [] if _is_rejected(session, example) else _rejected(session, similar)
    standing = [one for one in similar if one.example_id not in {row.id for row in rejected}]
    before = example.duplicate_of
    if standing:
        example.duplicate, example.duplicate_of = standing[0].how, standing[0].name
    else:
        example.duplicate = example.duplicate_of = None
        hows = {one.example_id: one.how for one in similar}
        for row in rejected:
            row.duplicate, row.duplicate_of = hows[row.id], name_of(example)
            remove_example(session, row)
        if similar == found:
            add_texts(session, example.task_id, [NewText(name_of(example), measured, example.id)])
    session.flush()
    return before != example.duplicate_of


def decide_again(session: Session, originals: Iterable[Example]) -> list[Example]:
    """Decide again about the examples that repeat withdrawn or rejected ones; return those that changed.

    The earliest of them is new, and the others are compared with it. A rejected original is compared with it too, so
    that one text of a group is new. If the original has a bonus, which stays owed, no other text of the group earns
    one. In a closed round nothing changes.
    """
    changed: list[Example] = []
    for original in originals:
        round = session.get_one(Round, original.round_id)
        is_withdrawn = original.status is ExampleStatus.WITHDRAWN and not _has_bonus(session, original)
        has_ended = is_withdrawn or _is_rejected(session, original)
        if original.duplicate is not None or not has_ended or round.status is RoundStatus.CLOSED:
            continue
        lock_texts(session, [original.task_id])
        remove_example(session, original)
        repeated = select(Example).where(
            Example.duplicate_of == name_of(original),
            Example.duplicate_of.is_not(None),
            Example.round_id == round.id,
            Example.status.not_in(NOT_COUNTED),
        )
        followers = session.scalars(repeated.order_by(Example.id).with_for_update(key_share=True)).all()
        in_order = sorted(followers, key=lambda one: (_is_rejected(session, one), one.id))
        changed += [one for one in in_order if decide(session, one)]
        if original.status is not ExampleStatus.WITHDRAWN:
            decide(session, original)
    return changed


def _rejected(session: Session, similar: Sequence[SimilarText]) -> list[Example]:
    """Return the examples among these whose work was rejected and whose round is live."""
    ids = [one.example_id for one in similar if one.example_id is not None]
    wanted = select(Example).join(Round, Round.id == Example.round_id).where(Example.id.in_(ids), is_rejected())
    return list(session.scalars(wanted.where(Round.status != RoundStatus.CLOSED))) if ids else []


def _is_rejected(session: Session, example: Example) -> bool:
    live = exists().where(Round.id == Example.round_id, Round.status != RoundStatus.CLOSED).correlate(Example)
    return session.scalar(select(Example.id).where(Example.id == example.id, is_rejected(), live)) is not None


def _has_bonus(session: Session, example: Example) -> bool:
    """Return whether a bonus is owed or was paid for the example."""
    return session.scalar(select(exists().where(LedgerEntry.example_id == example.id))) or False


def is_rejected() -> ColumnElement[bool]:
    """Return the SQL condition that an example's work was rejected and that no bonus is owed for it."""
    bonus = exists().where(LedgerEntry.hit_id == WorkSession.hit_id, LedgerEntry.example_id == Example.id)
    work = exists().where(
        WorkSession.id == Example.session_id,
        Assignment.id == WorkSession.assignment_id,
        Assignment.status == AssignmentStatus.REJECTED,
        ~bonus.correlate(Example, WorkSession),
    )
    return work.correlate(Example)
