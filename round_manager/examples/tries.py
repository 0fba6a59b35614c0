"""Tries and the examples that they led to.

Label Studio names no annotator when it asks the model, so a try is somebody's only when their example arrives. The
times come from different machines: a try is taken for earlier than its example while their clocks may explain it. A try
stays in its round: what nobody submitted in one round is nobody's in the next, and a frozen round never changes.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from round_manager.database.hints import beside_index
from round_manager.examples.verdict_record import INPUTS_HASH
from round_manager.models import Attempt, Example, LabelStudioAnnotation, Origin, Round

CLOCKS_DIFFER = timedelta(seconds=5)


def waiting_tries(
    session: Session, round: Round, label_studio_task_id: int | None, submitted_at: datetime
) -> list[Attempt]:
    """The round's tries at a Label Studio task that are nobody's yet and came before a submission."""
    if label_studio_task_id is None:
        return []
    waiting = select(Attempt).where(
        Attempt.label_studio_task_id == label_studio_task_id,
        Attempt.label_studio_task_id.is_not(None),
        beside_index(Attempt.round_id, round.id),
        Attempt.worker_id.is_(None),
        Attempt.asked_at <= submitted_at + CLOCKS_DIFFER,
    )
    return list(session.scalars(waiting.order_by(Attempt.id)))


def link_tries(tries: Sequence[Attempt], example: Example) -> None:
    """The tries are the author's; those on the very inputs of the example are the example's too."""
    for one in tries:
        one.worker_id = example.author_id
        if one.verdict.get(INPUTS_HASH) == example.verdict.get(INPUTS_HASH):
            one.example_id = example.id


def link_late_tries(session: Session, tries: Sequence[Attempt]) -> None:
    """Tries that were stored after their example had arrived are linked to it as if they had been there.

    Tries of a frozen round are no part of its archive, and stay nobody's.
    """
    places = {one.label_studio_task_id for one in tries if one.label_studio_task_id is not None}
    if not places:
        return
    written = (
        select(LabelStudioAnnotation.label_studio_task_id, Example)
        .join(Example, Example.id == LabelStudioAnnotation.example_id)
        # Whoever tries the model on a task that shows crowd work is not its author.
        .where(LabelStudioAnnotation.label_studio_task_id.in_(places), LabelStudioAnnotation.origin == Origin.THEIRS)
        .join(Round, Round.id == Example.round_id)
        .where(Round.frozen_at.is_(None))
        .order_by(Example.submitted_at, Example.id)
    )
    examples = session.execute(written).all()
    for one in tries:
        for place, example in examples:
            same = (place, example.round_id) == (one.label_studio_task_id, one.round_id)
            if same and one.asked_at <= example.submitted_at + CLOCKS_DIFFER:
                link_tries([one], example)
                break
