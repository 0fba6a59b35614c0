"""Qualifications and blocks, on the marketplace and in our database."""

import pytest
from sqlalchemy import select

from crowd.errors import CrowdRefused
from crowd.port import Comparator
from round_manager.crowd.hit_planning import order_terms
from round_manager.errors import CrowdWorkError
from round_manager.models import AuditEntry, Block, HitKind, QualificationGrant
from tests.integration.round_manager.crowd.counter import OWNER, Counter


def test_the_tasks_qualification_is_created_once_and_required(counter: Counter) -> None:
    first = counter.access.qualification(counter.task)
    assert counter.access.qualification(counter.task).external_id == first.external_id
    assert counter.calls()["ensure_qualification"] == 1
    with counter.store.read() as session:
        create = order_terms(session, counter.round, HitKind.CREATE, counter.crowd)
        quiz = order_terms(session, counter.round, HitKind.QUIZ, counter.crowd)
    assert [one.comparator for one in create.requirements] == [Comparator.EXISTS]
    assert [one.comparator for one in quiz.requirements] == [Comparator.DOES_NOT_EXIST]


def test_workers_read_how_to_get_the_qualification(counter: Counter) -> None:
    held = counter.access.qualification(counter.task)
    there = counter.crowd.ensure_qualification(held.name, "")
    title = counter.task.spec["title"]
    assert f"Pass the quiz of “{title}”" in there.description


def test_only_qualified_workers_can_accept_a_hit_and_bad_work_revokes_it(counter: Counter) -> None:
    counter.access.qualification(counter.task)
    counter.post(2)
    first, second = counter.posted()
    with pytest.raises(CrowdRefused):
        counter.crowd.accept(first, "W1")
    for _ in range(2):
        counter.access.grant(counter.task, "W1", actor=OWNER, reason="passed the quiz")
    counter.crowd.accept(first, "W1")
    with pytest.raises(CrowdWorkError):
        counter.access.withdraw(counter.task, "W1", actor=OWNER, reason="")
    for _ in range(2):
        counter.access.withdraw(counter.task, "W1", actor=OWNER, reason="copies its texts")
    with pytest.raises(CrowdRefused):
        counter.crowd.accept(second, "W1")
    with counter.store.read() as session:
        (grant,) = session.scalars(select(QualificationGrant)).all()
        actions = session.scalars(select(AuditEntry.action).order_by(AuditEntry.id)).all()
    assert grant.reason == "copies its texts"
    assert actions[-2:] == ["granted", "withdrew"]


def test_a_block_lasts_until_it_is_lifted_and_keeps_its_history(counter: Counter) -> None:
    counter.post(1)
    for _ in range(2):
        counter.access.block("W1", actor=OWNER, reason="spam")
    with pytest.raises(CrowdRefused):
        counter.crowd.accept(counter.posted()[0], "W1")
    for _ in range(2):
        counter.access.unblock("W1", actor=OWNER, reason="a mistake")
    counter.crowd.accept(counter.posted()[0], "W1")
    with counter.store.read() as session:
        (block,) = session.scalars(select(Block)).all()
    assert block.lifted_at is not None
    with pytest.raises(CrowdWorkError):
        counter.access.block("W2", actor=OWNER, reason=" ")
