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
from tests.integration.round_manager.season import DAY, OWNER, Season


def test_no_page_is_opened_in_a_paused_round_and_those_that_are_open_are_finished_and_paid(season: Season) -> None:
    (hit, other), (check, _) = season.post(2), season.post(2, HitKind.VALIDATE)
    page = season.take(hit, "W1")
    pending = season.floor.pending()
    checking = season.take(check, "V1")
    season.move(pause)
    for standing in (other, check):
        with pytest.raises(WorkRefused, match="paused at the moment; return the HIT, please"):
            season.floor.open("W2", hit=standing)
    # A page that is loaded again is the same page.
    assert season.floor.open("W1", hit=hit, assignment=page.claimed_assignment).id == page.id

    (example,) = season.floor.write_all(page)
    season.submit(hit, "W1", page)
    season.floor.judge_all(checking, Judgement(label="positive"))
    season.submit(check, "V1", checking)
    season.pay_day()
    assert season.floor.one(example).status is ExampleStatus.PENDING
    assert [vote.example_id for vote in season.floor.votes()] == [pending.id]
    paid = season.floor.rows(LedgerEntry, LedgerEntry.state == EntryState.CONFIRMED)
    assert [entry.kind for entry in paid] == [EntryKind.REWARD] * 2

    season.move(resume)
    assert season.floor.open("W2", hit=other).status == "open"


def test_a_page_that_expired_during_a_pause_does_not_restart(season: Season) -> None:
    hit = season.floor.hit()
    page = season.floor.open("W1", hit=hit)
    season.move(pause)
    season.floor.clock.advance(DAY)
    again = season.floor.open("W1", hit=hit)
    assert (again.id, again.expires_at) == (page.id, page.expires_at)
    season.move(resume)
    assert season.floor.open("W1", hit=hit).expires_at == season.floor.now + timedelta(minutes=20)


def test_nothing_is_planned_or_posted_while_a_round_is_paused(season: Season) -> None:
    season.plan(2)
    season.move(pause)
    sent = season.poster.run()
    assert (sent.posted, sent.waiting, list(season.crowd.hits())) == (0, 0, [])
    with pytest.raises(CrowdWorkError):
        season.plan(1)
    season.move(resume)
    assert season.poster.run().posted == 2


def test_label_studio_gets_nothing_to_write_when_a_round_is_paused_or_validating(season: Season) -> None:
    season.floor.pending()
    with season.store.write() as session:
        links = {
            kind: LabelStudioLink(task_id=season.floor.task.id, kind=kind, url="http://ls", project=place)
            for place, kind in enumerate(ProjectKind, 1)
        }
        session.add_all(links.values())
    create, check = links[ProjectKind.CREATE], links[ProjectKind.VALIDATE]

    def planned() -> tuple[int, int]:
        """Return what would be sent to Label Studio now."""
        with season.store.write() as session:
            plan_creation(session, create, season.floor.spec, now=season.floor.now)
            plan_validation(session, check, now=season.floor.now)
            return len(unsent_tasks(session, create)), len(unsent_tasks(session, check))

    season.move(pause)
    assert planned() == (0, 0)
    with season.store.read() as session:
        assert session.scalars(select(LabelStudioTask)).all() == []
    season.move(resume)
    assert planned() == (8, 2)
    season.move(pause)
    assert planned() == (0, 0)
    season.move(resume)
    season.validate()
    # Planned items that were not sent stay here, and submitted examples are still validated.
    assert planned() == (0, 2)


def test_a_paused_round_is_never_due_and_says_why_it_waits(season: Season) -> None:
    season.move(pause)
    season.floor.clock.advance(30 * DAY)
    assert season.due() is None
    paused = season.waiting()[0]
    assert paused.hint == Hint("resume_round", task="sentiment")
    assert "2027-03-01 12:00 UTC" in paused.text
    season.move(resume)
    assert season.due() is not None


def test_pausing_is_idempotent_and_pause_and_resume_are_audited(season: Season) -> None:
    season.move(pause)
    season.floor.clock.advance(DAY)
    assert season.move(pause).paused_at == season.floor.now - DAY
    season.move(resume)
    assert season.move(resume).paused_at is None
    assert season.history()[1:] == [(OWNER, "paused", "a test"), (OWNER, "resumed", "a test")]


def test_a_pause_ends_when_the_round_is_ended_and_a_closed_round_has_none(season: Season) -> None:
    season.move(pause)
    season.validate()
    assert season.round.paused_at is None
    season.move(pause)
    season.close()
    assert (season.status, season.round.paused_at) == (RoundStatus.CLOSED, None)
    assert [action for _, action, _ in season.history()[1:]] == [
        "paused", "resumed", "began validating", "paused", "resumed", "closed",
    ]  # fmt: skip
    for step in (pause, resume):
        with pytest.raises(RoundAlreadyClosed):
            season.move(step)
