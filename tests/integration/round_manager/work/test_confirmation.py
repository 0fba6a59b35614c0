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
from round_manager.work.errors import AlreadySubmitted, HitReassigned
from round_manager.work.sessions import record_active_time
from round_manager.work.validation_work import Judgement, cast_vote, judge_item
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import MINUTE, Floor

POSITIVE = Judgement(label="positive")
NO_GOLD = {"gold_rate": 0.0}


def test_an_example_waits_for_votes_once_its_author_is_confirmed(floor: Floor) -> None:
    work = floor.open()
    floor.clock.advance(MINUTE)
    with floor.write() as session:
        record_active_time(session, work, 42_000, now=floor.now)
    (example,) = floor.write_all(work)
    floor.finish(work)
    assert floor.one(example).status is ExampleStatus.UNCONFIRMED
    assignment = floor.confirm(work)
    page = floor.one(work)
    assert (page.status, page.assignment_id) == (SessionStatus.CONFIRMED, assignment.id)
    assert floor.one(assignment).active_ms == 42_000
    assert (floor.one(example).status, floor.one(example).votes_wanted) == (ExampleStatus.PENDING, 2)


def test_a_page_that_never_reported_its_time_leaves_it_unknown(floor: Floor) -> None:
    work = floor.open()
    floor.write_all(work)
    floor.finish(work)
    assert floor.one(floor.confirm(work)).active_ms is None


@pytest.mark.parametrize(("share", "status"), [(0.0, ExampleStatus.UNCHECKED), (1.0, ExampleStatus.PENDING)])
def test_examples_that_did_not_fool_are_checked_at_the_tasks_rate(
    lay: LayFloor, share: float, status: ExampleStatus
) -> None:
    floor = lay(validation={"sample_non_fooling": share}, work={"tries_before_skip": 0}, target={"set_by": "annotator"})
    work = floor.open()
    text = floor.written(work, f"so {floor.spec.label_names[1]}")
    floor.ask(work, text)
    example = floor.hand_in(work, text)
    assert not example.fooled
    floor.finish(work)
    floor.confirm(work)
    assert floor.one(example).status is status


def test_confirming_again_changes_nothing(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    target = floor.pending()
    work = floor.validating()
    floor.judge_all(work, POSITIVE)
    floor.finish(work)
    for _ in range(3):
        floor.confirm(work)
    assert [vote.example_id for vote in floor.votes()] == [target.id]
    assert floor.rows(AuditEntry, AuditEntry.action == "could not vote") == []


def test_a_forged_worker_is_left_unconfirmed_with_all_that_they_wrote(lay: LayFloor) -> None:
    floor = lay(work={"tries_before_skip": 0})
    hit = floor.hit()
    forged, real = floor.open("VICTIM", hit=hit), floor.open("W1", hit=hit)
    (theirs,), (mine,) = floor.write_all(forged), floor.write_all(real)
    floor.finish(forged)
    floor.finish(real)
    floor.confirm(real)
    assert floor.one(forged).status is SessionStatus.UNCONFIRMED
    assert (floor.one(theirs).status, floor.one(mine).status) == (ExampleStatus.UNCONFIRMED, ExampleStatus.PENDING)
    with pytest.raises(HitReassigned):
        floor.finish(forged)


def test_a_forged_worker_id_never_takes_a_real_workers_vote(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    example = floor.pending(wanted=3)
    hit = floor.hit(HitKind.VALIDATE)
    forged = floor.open("VICTIM", hit=hit, assignment="AS-FORGED")
    floor.judge_all(forged, Judgement(label="negative"))
    floor.finish(forged)
    floor.confirm(floor.open("W9", hit=hit, assignment="AS-FORGED"))
    assert floor.votes() == []
    victim = floor.validating("VICTIM")
    floor.judge_all(victim, POSITIVE)
    floor.finish(victim)
    floor.confirm(victim)
    (vote,) = floor.votes()
    assert (vote.example_id, vote.worker_id, vote.label) == (example.id, victim.worker_id, "positive")


def test_an_assignment_of_another_worker_confirms_no_session(floor: Floor) -> None:
    work = floor.open("W1")
    floor.write_all(work)
    floor.finish(work)
    floor.confirm(work, worker="W2")
    assert floor.one(work).status is SessionStatus.UNCONFIRMED
    assert [lease.outcome for lease in floor.rows(Lease)] == [LeaseEnd.USED]


def test_work_counts_even_if_its_page_was_never_finished(lay: LayFloor) -> None:
    floor = lay(work={"examples_per_hit": 2})
    work = floor.open()
    text = floor.fooling(work)
    floor.ask(work, text)
    example = floor.hand_in(work, text)
    floor.confirm(work)
    page = floor.one(work)
    assert (page.status, page.submitted_at) == (SessionStatus.CONFIRMED, floor.now)
    assert floor.one(example).status is ExampleStatus.PENDING
    assert floor.live_leases() == []
    assert floor.finish(work).status is SessionStatus.CONFIRMED


def test_a_confirmation_after_our_own_deadline_counts_too(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    floor.pending()
    work = floor.validating("V1")
    floor.judge_all(work, POSITIVE)
    floor.clock.set(work.expires_at)
    floor.pending()
    floor.validating("V2")
    assert floor.one(work).status is SessionStatus.EXPIRED
    floor.confirm(work)
    assert floor.one(work).status is SessionStatus.CONFIRMED
    assert len(floor.votes()) == 1


def test_votes_that_can_no_longer_be_cast_are_recorded_and_block_no_others(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    examples = [floor.pending() for _ in range(3)]
    work = floor.validating("V1")
    floor.judge_all(work, POSITIVE)
    floor.finish(work)
    with floor.write() as session:
        voted, withdrawn = (session.get_one(Example, one.id) for one in examples[:2])
        cast_vote(session, voted, work.worker_id, source=voted.source, voted_at=floor.now, label="negative")
        withdrawn.status, withdrawn.decided_at = ExampleStatus.WITHDRAWN, floor.now
    floor.confirm(work)
    assert [(vote.example_id, vote.label) for vote in floor.votes()] == [
        (examples[0].id, "negative"),
        (examples[2].id, "positive"),
    ]
    notes = floor.rows(AuditEntry, AuditEntry.action == "could not vote")
    assert {(note.after["example"], note.reason) for note in notes} == {
        (examples[0].id, "the validator has judged this example already"),
        (examples[1].id, "the example was withdrawn"),
    }


def test_a_flag_sends_the_example_to_its_owner_only_when_it_is_confirmed(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    example = floor.pending()
    work = floor.validating()
    floor.judge_all(work, Judgement(flag=floor.spec.validation.flag_reasons[1], comment="two at once"))
    floor.finish(work)
    assert floor.one(example).status is ExampleStatus.PENDING
    floor.confirm(work)
    assert floor.one(example).status is ExampleStatus.FLAGGED
    assert floor.votes()[0].comment == "two at once"


def test_work_confirmed_after_its_round_closed_is_recorded_and_unchanged(floor: Floor) -> None:
    work = floor.open()
    (example,) = floor.write_all(work)
    floor.finish(work)
    floor.close_round()
    floor.confirm(work)
    assert floor.one(work).status is SessionStatus.CONFIRMED
    assert floor.one(example).status is ExampleStatus.UNCONFIRMED
    (note,) = floor.rows(AuditEntry, AuditEntry.action == "came too late")
    assert note.after["example"] == example.id


def test_the_same_text_from_a_page_that_was_given_up_counts_once(lay: LayFloor) -> None:
    floor = lay(target={"set_by": "annotator"})
    lost = floor.open("W1")
    floor.ask(lost, "the same")
    first = floor.hand_in(lost, "the same")
    floor.clock.set(lost.expires_at)
    again = floor.open("W1")
    floor.ask(again, "the same")
    second = floor.hand_in(again, "the same")
    floor.finish(again)
    floor.confirm(again)
    floor.confirm(lost)
    assert (floor.one(second).status, floor.one(first).status) == (ExampleStatus.PENDING, ExampleStatus.WITHDRAWN)


def test_a_batch_confirms_every_session_in_it(floor: Floor) -> None:
    pages = [floor.open(f"W{number}") for number in range(3)]
    for page in pages:
        floor.write_all(page)
        floor.finish(page)
    with floor.write() as session:
        rows = [
            Assignment(
                hit_id=page.hit_id,
                worker_id=page.worker_id,
                marketplace="fake",
                external_id=page.claimed_assignment,
                status=AssignmentStatus.SUBMITTED,
                accepted_at=floor.now,
                submitted_at=floor.now,
            )
            for page in pages
        ]
        session.add_all(rows)
        session.flush()
        assert {one.id for one in confirm_sessions(session, rows, now=floor.now)} == {page.id for page in pages}
    assert {example.status for example in floor.rows(Example)} == {ExampleStatus.PENDING}


def test_judgements_cannot_be_changed_after_confirmation(lay: LayFloor) -> None:
    floor = lay(validation=NO_GOLD)
    floor.pending()
    work = floor.validating()
    floor.confirm(work)
    with floor.write() as session, pytest.raises(AlreadySubmitted):
        judge_item(session, work, 0, POSITIVE, now=floor.now)
    assert floor.votes() == []
