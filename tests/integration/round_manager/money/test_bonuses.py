"""A validated fooling example earns its author the bonus that was reserved for it."""

import pytest
from sqlalchemy import select

from round_manager.errors import LedgerError
from round_manager.examples.submissions import submit
from round_manager.models import Assignment, EntryKind, Example, Round
from round_manager.money.ledger import owe_bonus, release
from tests.campaign import Campaign

WHY = "It fooled the model."


def example_of(campaign: Campaign, work: Assignment, text: str) -> Example:
    written = campaign.submission(
        author_id=work.worker_id, fields=campaign.fields(text=text), label_studio_task_id=None
    )
    with campaign.store.write() as session:
        round = session.get_one(Round, campaign.round_id)
        return submit(session, round, written, campaign.verdict(written), now=campaign.now)


def the_work(campaign: Campaign) -> Assignment:
    campaign.collected()
    with campaign.store.read() as session:
        return session.scalars(select(Assignment)).one()


def test_the_bonus_is_paid_once_however_often_it_is_owed(campaign: Campaign) -> None:
    work = the_work(campaign)
    example = example_of(campaign, work, "Not half bad, for a disaster.")
    for _ in range(2):
        with campaign.store.write() as session:
            owe_bonus(session, work, example, WHY, now=campaign.now)
    assert campaign.marketplace.payments.run().bonuses == 1
    assert campaign.marketplace.payments.run().bonuses == 0
    (paid,) = campaign.crowd.bonuses(assignment_id=work.external_id)
    assert paid.cents == campaign.round.spec["pay"]["fooled_bonus_cents"]
    assert paid.reason.startswith(WHY)
    assert campaign.ledger_states(EntryKind.BONUS) == {"confirmed": 1}
    campaign.check_ledger()


def test_a_released_bonus_cannot_be_owed(campaign: Campaign) -> None:
    work = the_work(campaign)
    example = example_of(campaign, work, "Not half bad, for a disaster.")
    with campaign.store.write() as session:
        assert release(session, [work.hit_id], EntryKind.BONUS, now=campaign.now) == 1
    with campaign.store.write() as session, pytest.raises(LedgerError):
        owe_bonus(session, work, example, WHY, now=campaign.now)
    campaign.check_ledger()
