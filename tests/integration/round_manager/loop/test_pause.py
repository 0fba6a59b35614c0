"""A paused round hands out and posts nothing new; workers finish what they have started."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from common.errors import Hint
from round_manager.errors import CrowdWorkError, RoundAlreadyClosed
from round_manager.labelstudio.tasks import plan_creation, plan_validation, unsent_tasks
from round_manager.loop.lifecycle import pause, resume
from round_manager.models import (
    EntryKind,
    EntryState,
    ExampleStatus,
    HitKind,
    LabelStudioLink,
    LabelStudioTask,
    LedgerEntry,
    ProjectKind,
    RoundStatus,
)
from round_manager.work.errors import WorkRefused
from round_manager.work.validation_work import Judgement
from tests.campaign import DAY, OWNER, Campaign


@pytest.mark.any_database
def test_no_page_is_opened_in_a_paused_round_and_those_that_are_open_are_finished_and_paid(campaign: Campaign) -> None:
    (hit, other), (check, _) = campaign.post_hits(2), campaign.post_hits(2, HitKind.VALIDATE)
    page = campaign.accept_hit(hit, "W1")
    pending = campaign.add_example()
    checking = campaign.accept_hit(check, "V1")
    campaign.move_round(pause)
    for standing in (other, check):
        with pytest.raises(WorkRefused, match="paused at the moment; return the HIT, please"):
            campaign.open_page("W2", hit=standing)
    # A page that is loaded again is the same page.
    assert campaign.open_page("W1", hit=hit, assignment=page.claimed_assignment).id == page.id

    (example,) = campaign.write_examples(page)
    campaign.submit_hit(hit, "W1", page)
    campaign.judge_all(checking, Judgement(label="positive"))
    campaign.submit_hit(check, "V1", checking)
    campaign.collect_and_pay()
    assert campaign.reload(example).status is ExampleStatus.PENDING
    assert [vote.example_id for vote in campaign.votes()] == [pending.id]
    paid = campaign.rows(LedgerEntry, LedgerEntry.state == EntryState.CONFIRMED)
    assert [entry.kind for entry in paid] == [EntryKind.REWARD] * 2

    campaign.move_round(resume)
    assert campaign.open_page("W2", hit=other).status == "open"


@pytest.mark.any_database
def test_a_page_that_expired_during_a_pause_does_not_restart(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    page = campaign.open_page("W1", hit=hit)
    campaign.move_round(pause)
    campaign.clock.advance(DAY)
    again = campaign.open_page("W1", hit=hit)
    assert (again.id, again.expires_at) == (page.id, page.expires_at)
    campaign.move_round(resume)
    assert campaign.open_page("W1", hit=hit).expires_at == campaign.now + timedelta(minutes=20)


@pytest.mark.any_database
def test_nothing_is_planned_or_posted_while_a_round_is_paused(campaign: Campaign) -> None:
    campaign.plan_hits(2)
    campaign.move_round(pause)
    sent = campaign.marketplace.poster.run()
    assert (sent.posted, sent.waiting, list(campaign.crowd.hits())) == (0, 0, [])
    with pytest.raises(CrowdWorkError):
        campaign.plan_hits(1)
    campaign.move_round(resume)
    assert campaign.marketplace.poster.run().posted == 2


def test_label_studio_gets_nothing_to_write_when_a_round_is_paused_or_validating(campaign: Campaign) -> None:
    campaign.add_example()
    with campaign.store.write() as session:
        links = {
            kind: LabelStudioLink(task_id=campaign.task.id, kind=kind, url="http://ls", project=place)
            for place, kind in enumerate(ProjectKind, 1)
        }
        session.add_all(links.values())
    create, check = links[ProjectKind.CREATE], links[ProjectKind.VALIDATE]

    def planned() -> tuple[int, int]:
        """Return what would be sent to Label Studio now."""
        with campaign.store.write() as session:
            plan_creation(session, create, campaign.spec, now=campaign.now)
            plan_validation(session, check, now=campaign.now)
            return len(unsent_tasks(session, create)), len(unsent_tasks(session, check))

    campaign.move_round(pause)
    assert planned() == (0, 0)
    with campaign.store.read() as session:
        assert session.scalars(select(LabelStudioTask)).all() == []
    campaign.move_round(resume)
    assert planned() == (8, 2)
    campaign.move_round(pause)
    assert planned() == (0, 0)
    campaign.move_round(resume)
    campaign.begin_validating()
    # Planned items that were not sent stay here, and submitted examples are still validated.
    assert planned() == (0, 2)


@pytest.mark.any_database
def test_a_paused_round_is_never_due_and_says_why_it_waits(campaign: Campaign) -> None:
    campaign.move_round(pause)
    campaign.clock.advance(30 * DAY)
    assert campaign.due() is None
    paused = campaign.waiting()[0]
    assert paused.hint == Hint("resume_round", task="sentiment")
    assert "2027-03-01 12:00 UTC" in paused.text
    campaign.move_round(resume)
    assert campaign.due() is not None


@pytest.mark.any_database
def test_pausing_is_idempotent_and_pause_and_resume_are_audited(campaign: Campaign) -> None:
    campaign.move_round(pause)
    campaign.clock.advance(DAY)
    assert campaign.move_round(pause).paused_at == campaign.now - DAY
    campaign.move_round(resume)
    assert campaign.move_round(resume).paused_at is None
    assert campaign.round_history()[1:] == [(OWNER, "paused", "a test"), (OWNER, "resumed", "a test")]


@pytest.mark.any_database
def test_a_pause_ends_when_the_round_is_ended_and_a_closed_round_has_none(campaign: Campaign) -> None:
    campaign.move_round(pause)
    campaign.begin_validating()
    assert campaign.round.paused_at is None
    campaign.move_round(pause)
    campaign.close_round()
    assert (campaign.status, campaign.round.paused_at) == (RoundStatus.CLOSED, None)
    assert [action for _, action, _ in campaign.round_history()[1:]] == [
        "paused", "resumed", "began validating", "paused", "resumed", "closed",
    ]  # fmt: skip
    for step in (pause, resume):
        with pytest.raises(RoundAlreadyClosed):
            campaign.move_round(step)
