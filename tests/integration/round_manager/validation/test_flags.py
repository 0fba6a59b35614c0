"""Flagged examples wait for the owner, whose decision is stored with a reason."""

from uuid import uuid4

import pytest
from sqlalchemy.orm import Session

from round_manager.errors import DecisionRefused, ExampleNotFound
from round_manager.models import Example, ExampleStatus, Task
from round_manager.validation.flags import count_flagged, find_example, flagged, keep, withdraw
from tests.integration.round_manager.validation.panel import OWNER, Panel

WHY = "I looked at it."
FLAG = "It names a person"


def held(panel: Panel, session: Session, example: Example) -> Example:
    return find_example(session, session.get_one(Task, panel.floor.task.id), example.public_id)


def test_a_flagged_example_is_shown_with_its_votes_and_reasons_and_waits(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example)
    panel.vote(example, flag=FLAG)
    panel.vote(example)
    panel.decide()
    assert panel.status(example) is ExampleStatus.FLAGGED
    with panel.store.read() as session:
        (shown,) = flagged(session, panel.round)
        assert count_flagged(session, panel.round) == 1
    assert (shown.example, shown.target, shown.fields) == (example.public_id, example.label, example.fields)
    assert [(vote.label, vote.flag) for vote in shown.votes] == [
        (example.label, None),
        (None, FLAG),
        (example.label, None),
    ]


def test_a_kept_example_continues_where_it_was_and_a_flag_is_not_a_vote(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example)
    panel.vote(example, flag=FLAG)
    with panel.store.write() as session:
        keep(session, held(panel, session, example), actor=OWNER, reason=WHY, now=panel.now)
    kept = panel.floor.one(example)
    assert (kept.status, kept.votes_wanted) == (ExampleStatus.PENDING, 3)
    panel.vote(example)
    panel.decide()
    assert panel.status(example) is ExampleStatus.VERIFIED
    (entry,) = panel.audited("kept")
    assert (entry.actor, entry.reason, entry.subject_id) == (OWNER, WHY, example.id)


def test_a_withdrawn_example_stays_withdrawn_and_accepts_no_votes(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example, flag=FLAG)
    for _ in range(2):
        with panel.store.write() as session:
            withdraw(session, held(panel, session, example), actor=OWNER, reason=WHY, now=panel.now)
    assert panel.status(example) is ExampleStatus.WITHDRAWN
    assert panel.decide().verified == 0
    (entry,) = panel.audited("withdrew")
    assert (entry.before, entry.after) == ({"status": "flagged"}, {"status": "withdrawn"})


def test_only_flagged_examples_can_be_kept(panel: Panel) -> None:
    example = panel.floor.pending()
    with panel.store.write() as session, pytest.raises(DecisionRefused):
        keep(session, held(panel, session, example), actor=OWNER, reason=WHY, now=panel.now)


def test_a_missing_example_is_reported_with_a_hint(panel: Panel) -> None:
    with panel.store.write() as session, pytest.raises(ExampleNotFound):
        find_example(session, session.get_one(Task, panel.floor.task.id), uuid4())


def test_in_a_closed_round_flags_can_no_longer_be_decided(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example, flag=FLAG)
    panel.close()
    for decision in (keep, withdraw):
        with panel.store.write() as session, pytest.raises(DecisionRefused):
            decision(session, held(panel, session, example), actor=OWNER, reason=WHY, now=panel.now)
