"""Qualifications and blocks, on the marketplace and in our database."""

import pytest
from sqlalchemy import select

from crowd.errors import CrowdRefused
from crowd.port import Comparator
from round_manager.crowd.hit_planning import order_terms
from round_manager.errors import CrowdWorkError
from round_manager.models import AuditEntry, Block, HitKind, QualificationGrant
from tests.campaign import OWNER, Campaign


@pytest.mark.any_database
def test_the_tasks_qualification_is_created_once_and_required(campaign: Campaign) -> None:
    first = campaign.marketplace.access.qualification(campaign.task)
    assert campaign.marketplace.access.qualification(campaign.task).external_id == first.external_id
    assert campaign.crowd_calls()["ensure_qualification"] == 1
    with campaign.store.read() as session:
        create = order_terms(session, campaign.round, HitKind.CREATE, campaign.crowd)
        quiz = order_terms(session, campaign.round, HitKind.QUIZ, campaign.crowd)
    assert [one.comparator for one in create.requirements] == [Comparator.EXISTS]
    assert [one.comparator for one in quiz.requirements] == [Comparator.DOES_NOT_EXIST]


@pytest.mark.any_database
def test_workers_read_how_to_get_the_qualification(campaign: Campaign) -> None:
    held = campaign.marketplace.access.qualification(campaign.task)
    there = campaign.crowd.ensure_qualification(held.name, "")
    title = campaign.task.spec["title"]
    assert f"Pass the quiz of “{title}”" in there.description


def test_only_qualified_workers_can_accept_a_hit_and_bad_work_revokes_it(campaign: Campaign) -> None:
    campaign.marketplace.access.qualification(campaign.task)
    campaign.post_hits(2)
    first, second = campaign.hit_ids()
    with pytest.raises(CrowdRefused):
        campaign.crowd.accept(first, "W1")
    for _ in range(2):
        campaign.marketplace.access.grant(campaign.task, "W1", actor=OWNER, reason="passed the quiz")
    campaign.crowd.accept(first, "W1")
    with pytest.raises(CrowdWorkError):
        campaign.marketplace.access.withdraw(campaign.task, "W1", actor=OWNER, reason="")
    for _ in range(2):
        campaign.marketplace.access.withdraw(campaign.task, "W1", actor=OWNER, reason="copies its texts")
    with pytest.raises(CrowdRefused):
        campaign.crowd.accept(second, "W1")
    with campaign.store.read() as session:
        (grant,) = session.scalars(select(QualificationGrant)).all()
        actions = session.scalars(select(AuditEntry.action).order_by(AuditEntry.id)).all()
    assert grant.reason == "copies its texts"
    assert actions[-2:] == ["granted", "withdrew"]


def test_a_block_lasts_until_it_is_lifted_and_keeps_its_history(campaign: Campaign) -> None:
    campaign.post_hits(1)
    for _ in range(2):
        campaign.marketplace.access.block("W1", actor=OWNER, reason="spam")
    with pytest.raises(CrowdRefused):
        campaign.crowd.accept(campaign.hit_ids()[0], "W1")
    for _ in range(2):
        campaign.marketplace.access.unblock("W1", actor=OWNER, reason="a mistake")
    campaign.crowd.accept(campaign.hit_ids()[0], "W1")
    with campaign.store.read() as session:
        (block,) = session.scalars(select(Block)).all()
    assert block.lifted_at is not None
    with pytest.raises(CrowdWorkError):
        campaign.marketplace.access.block("W2", actor=OWNER, reason=" ")
