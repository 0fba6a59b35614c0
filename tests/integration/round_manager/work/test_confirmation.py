"""Only work that the marketplace confirms counts, in whatever order the confirmations arrive."""

import pytest

from round_manager.crowd.confirmation import confirm_sessions
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    AuditEntry,
    Example,
    ExampleStatus,
    HitKind,
    Lease,
    LeaseEnd,
    SessionStatus,
)
from round_manager.work.active_time import record_active_time
from round_manager.work.errors import AlreadySubmitted, HitReassigned
from round_manager.work.validation_work import Judgement, cast_vote, judge_item
from tests.campaign import MINUTE, Campaign, NewCampaign

POSITIVE = Judgement(label="positive")
NO_GOLD = {"gold_rate": 0.0}


@pytest.mark.any_database
def test_an_example_waits_for_votes_once_its_author_is_confirmed(campaign: Campaign) -> None:
    work = campaign.open_page()
    campaign.clock.advance(MINUTE)
    with campaign.store.write() as session:
        record_active_time(session, work, 42_000, now=campaign.now)
    (example,) = campaign.write_examples(work)
    campaign.finish_page(work)
    assert campaign.reload(example).status is ExampleStatus.UNCONFIRMED
    assignment = campaign.confirm(work)
    page = campaign.reload(work)
    assert (page.status, page.assignment_id) == (SessionStatus.CONFIRMED, assignment.id)
    assert campaign.reload(assignment).active_ms == 42_000
    assert (campaign.reload(example).status, campaign.reload(example).votes_wanted) == (ExampleStatus.PENDING, 2)


def test_a_page_that_never_reported_its_time_has_the_time_that_it_was_open(campaign: Campaign) -> None:
    work = campaign.open_page()
    campaign.clock.advance(MINUTE)
    campaign.write_examples(work)
    campaign.finish_page(work)
    assert campaign.reload(campaign.confirm(work)).active_ms == 60_000
    assert [example.active_ms for example in campaign.rows(Example)] == [None]


@pytest.mark.any_database
@pytest.mark.parametrize(("share", "status"), [(0.0, ExampleStatus.UNCHECKED), (1.0, ExampleStatus.PENDING)])
def test_examples_that_did_not_fool_are_checked_at_the_tasks_rate(
    new_campaign: NewCampaign, share: float, status: ExampleStatus
) -> None:
    campaign = new_campaign(
        validation={"sample_non_fooling": share}, work={"tries_before_skip": 0}, target={"set_by": "annotator"}
    )
    work = campaign.open_page()
    text = campaign.page_input(work, f"so {campaign.spec.label_names[1]}")
    campaign.ask_target(work, text)
    example = campaign.submit_example(work, text)
    assert not example.fooled
    campaign.finish_page(work)
    campaign.confirm(work)
    assert campaign.reload(example).status is status


@pytest.mark.any_database
def test_confirming_again_changes_nothing(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    target = campaign.add_example()
    work = campaign.open_validation_page()
    campaign.judge_all(work, POSITIVE)
    campaign.finish_page(work)
    for _ in range(3):
        campaign.confirm(work)
    assert [vote.example_id for vote in campaign.votes()] == [target.id]
    assert campaign.rows(AuditEntry, AuditEntry.action == "could not vote") == []


@pytest.mark.any_database
def test_a_forged_worker_is_left_unconfirmed_with_all_that_they_wrote(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"tries_before_skip": 0})
    hit = campaign.add_hit()
    forged, real = campaign.open_page("VICTIM", hit=hit), campaign.open_page("W1", hit=hit)
    (theirs,), (mine,) = campaign.write_examples(forged), campaign.write_examples(real)
    campaign.finish_page(forged)
    campaign.finish_page(real)
    campaign.confirm(real)
    assert campaign.reload(forged).status is SessionStatus.UNCONFIRMED
    assert (campaign.reload(theirs).status, campaign.reload(mine).status) == (
        ExampleStatus.UNCONFIRMED,
        ExampleStatus.PENDING,
    )
    with pytest.raises(HitReassigned):
        campaign.finish_page(forged)


def test_a_forged_worker_id_never_takes_a_real_workers_vote(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    example = campaign.add_example(wanted=3)
    hit = campaign.add_hit(HitKind.VALIDATE)
    forged = campaign.open_page("VICTIM", hit=hit, assignment="AS-FORGED")
    campaign.judge_all(forged, Judgement(label="negative"))
    campaign.finish_page(forged)
    campaign.confirm(campaign.open_page("W9", hit=hit, assignment="AS-FORGED"))
    assert campaign.votes() == []
    victim = campaign.open_validation_page("VICTIM")
    campaign.judge_all(victim, POSITIVE)
    campaign.finish_page(victim)
    campaign.confirm(victim)
    (vote,) = campaign.votes()
    assert (vote.example_id, vote.worker_id, vote.label) == (example.id, victim.worker_id, "positive")


@pytest.mark.any_database
def test_an_assignment_of_another_worker_confirms_no_session(campaign: Campaign) -> None:
    work = campaign.open_page("W1")
    campaign.write_examples(work)
    campaign.finish_page(work)
    campaign.confirm(work, worker="W2")
    assert campaign.reload(work).status is SessionStatus.UNCONFIRMED
    assert [lease.outcome for lease in campaign.rows(Lease)] == [LeaseEnd.USED]


@pytest.mark.any_database
def test_work_counts_even_if_its_page_was_never_finished(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 2})
    work = campaign.open_page()
    text = campaign.page_text(work)
    campaign.ask_target(work, text)
    example = campaign.submit_example(work, text)
    campaign.confirm(work)
    page = campaign.reload(work)
    assert (page.status, page.submitted_at) == (SessionStatus.CONFIRMED, campaign.now)
    assert campaign.reload(example).status is ExampleStatus.PENDING
    assert campaign.live_leases() == []
    assert campaign.finish_page(work).status is SessionStatus.CONFIRMED


@pytest.mark.any_database
def test_a_confirmation_after_our_own_deadline_counts_too(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    campaign.add_example()
    work = campaign.open_validation_page("V1")
    campaign.judge_all(work, POSITIVE)
    campaign.clock.set(work.expires_at)
    campaign.add_example()
    campaign.open_validation_page("V2")
    assert campaign.reload(work).status is SessionStatus.EXPIRED
    campaign.confirm(work)
    assert campaign.reload(work).status is SessionStatus.CONFIRMED
    assert len(campaign.votes()) == 1


def test_votes_that_can_no_longer_be_cast_are_recorded_and_block_no_others(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    examples = [campaign.add_example() for _ in range(3)]
    work = campaign.open_validation_page("V1")
    campaign.judge_all(work, POSITIVE)
    campaign.finish_page(work)
    with campaign.store.write() as session:
        voted, withdrawn = (session.get_one(Example, one.id) for one in examples[:2])
        cast_vote(session, voted, work.worker_id, source=voted.source, voted_at=campaign.now, label="negative")
        withdrawn.status, withdrawn.decided_at = ExampleStatus.WITHDRAWN, campaign.now
    campaign.confirm(work)
    assert [(vote.example_id, vote.label) for vote in campaign.votes()] == [
        (examples[0].id, "negative"),
        (examples[2].id, "positive"),
    ]
    notes = campaign.rows(AuditEntry, AuditEntry.action == "could not vote")
    assert {(note.after["example"], note.reason) for note in notes} == {
        (examples[0].id, "the validator has judged this example already"),
        (examples[1].id, "the example was withdrawn"),
    }


@pytest.mark.any_database
def test_a_flag_sends_the_example_to_its_owner_only_when_it_is_confirmed(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    example = campaign.add_example()
    work = campaign.open_validation_page()
    campaign.judge_all(work, Judgement(flag=campaign.spec.validation.flag_reasons[1], comment="two at once"))
    campaign.finish_page(work)
    assert campaign.reload(example).status is ExampleStatus.PENDING
    campaign.confirm(work)
    assert campaign.reload(example).status is ExampleStatus.FLAGGED
    assert campaign.votes()[0].comment == "two at once"


@pytest.mark.any_database
def test_work_confirmed_after_its_round_closed_is_recorded_and_unchanged(campaign: Campaign) -> None:
    work = campaign.open_page()
    (example,) = campaign.write_examples(work)
    campaign.finish_page(work)
    campaign.mark_closed()
    campaign.confirm(work)
    assert campaign.reload(work).status is SessionStatus.CONFIRMED
    assert campaign.reload(example).status is ExampleStatus.UNCONFIRMED
    (note,) = campaign.rows(AuditEntry, AuditEntry.action == "came too late")
    assert note.after["example"] == example.id


@pytest.mark.any_database
def test_the_same_text_from_a_page_that_was_given_up_counts_once(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(target={"set_by": "annotator"})
    lost = campaign.open_page("W1")
    campaign.ask_target(lost, "the same")
    first = campaign.submit_example(lost, "the same")
    campaign.clock.set(lost.expires_at)
    again = campaign.open_page("W1")
    campaign.ask_target(again, "the same")
    second = campaign.submit_example(again, "the same")
    campaign.finish_page(again)
    campaign.confirm(again)
    campaign.confirm(lost)
    assert (campaign.reload(second).status, campaign.reload(first).status) == (
        ExampleStatus.PENDING,
        ExampleStatus.WITHDRAWN,
    )


@pytest.mark.any_database
def test_a_batch_confirms_every_session_in_it(campaign: Campaign) -> None:
    pages = [campaign.open_page(f"W{number}") for number in range(3)]
    for page in pages:
        campaign.write_examples(page)
        campaign.finish_page(page)
    with campaign.store.write() as session:
        rows = [
            Assignment(
                hit_id=page.hit_id,
                worker_id=page.worker_id,
                marketplace="fake",
                external_id=page.claimed_assignment,
                status=AssignmentStatus.SUBMITTED,
                accepted_at=campaign.now,
                submitted_at=campaign.now,
            )
            for page in pages
        ]
        session.add_all(rows)
        session.flush()
        assert {one.id for one in confirm_sessions(session, rows, now=campaign.now)} == {page.id for page in pages}
    assert {example.status for example in campaign.rows(Example)} == {ExampleStatus.PENDING}


@pytest.mark.any_database
def test_judgements_cannot_be_changed_after_confirmation(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    campaign.add_example()
    work = campaign.open_validation_page()
    campaign.confirm(work)
    with campaign.store.write() as session, pytest.raises(AlreadySubmitted):
        judge_item(session, work, 0, POSITIVE, now=campaign.now)
    assert campaign.votes() == []
