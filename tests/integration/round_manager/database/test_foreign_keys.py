"""Rows that are valid on their own but inconsistent together are refused."""

from typing import Any

import pytest
from sqlalchemy.orm import Session

from round_manager.database.columns import public_id
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    Context,
    CreditedSpan,
    EntryKind,
    EntryState,
    Lease,
    LedgerEntry,
    RoundModel,
    SessionStatus,
    TrainingJob,
    Worker,
    WorkSession,
)
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.forbidden_changes import Deed, Forbidden, check_refused
from tests.integration.round_manager.database.sample_rows import HOUR, SampleRows, new_model, new_round, new_task

forbidden = Forbidden()


def _other_task(session: Session) -> int:
    other = new_task("other")
    session.add(other)
    session.flush()
    return other.id


@forbidden("ck_vote_not_the_author")
def the_author_votes_on_the_own_example(sample: SampleRows, session: Session) -> None:
    session.add(sample.new_vote(worker_id=sample.author))


@forbidden("fk_vote_example_id_author_id_example")
def the_author_votes_under_a_false_claim_of_who_wrote_it(sample: SampleRows, session: Session) -> None:
    session.add(sample.new_vote(worker_id=sample.author, author_id=sample.voter))


@forbidden("uq_vote_example_id_worker_id")
def somebody_votes_twice(sample: SampleRows, session: Session) -> None:
    session.add_all([sample.new_vote(), sample.new_vote(label="negative")])


@forbidden("fk_vote_session_id_worker_id_work_session")
def a_vote_comes_from_somebody_elses_page(sample: SampleRows, session: Session) -> None:
    session.add(sample.new_vote(session_id=sample.session))


@forbidden("fk_lease_example_id_author_id_example")
def the_author_leases_the_own_example_under_a_false_claim(sample: SampleRows, session: Session) -> None:
    span: dict[str, Any] = {"leased_at": NOON, "expires_at": NOON + HOUR}
    session.add(Lease(example_id=sample.example, author_id=sample.voter, worker_id=sample.author, **span))


@forbidden("fk_example_round_id_model_version_id_round_model")
def an_example_is_judged_by_a_model_that_the_round_does_not_pin(sample: SampleRows, session: Session) -> None:
    model = new_model(sample.task, "newer")
    session.add(model)
    session.flush()
    session.add(sample.new_example(model_version_id=model.id))


@forbidden("fk_example_context_id_task_id_context")
def an_example_is_written_for_another_tasks_context(sample: SampleRows, session: Session) -> None:
    row: dict[str, Any] = {"key": "k", "position": 0, "fields": {}, "extra": {}, "created_at": NOON}
    context = Context(public_id=public_id(NOON), task_id=_other_task(session), **row)
    session.add(context)
    session.flush()
    session.add(sample.new_example(context_id=context.id))


@forbidden("fk_example_session_id_author_id_work_session")
def an_example_comes_from_somebody_elses_page(sample: SampleRows, session: Session) -> None:
    session.add(sample.new_example(author_id=sample.voter, session_id=sample.session, item=1))


@forbidden("fk_attempt_model_version_id_task_id_model_version")
def an_attempt_is_judged_by_another_tasks_model(sample: SampleRows, session: Session) -> None:
    model = new_model(_other_task(session), "other-1")
    session.add(model)
    session.flush()
    session.add(sample.new_attempt(model_version_id=model.id))


@forbidden("fk_round_model_model_version_id_task_id_model_version")
def a_round_pins_another_tasks_model(sample: SampleRows, session: Session) -> None:
    model = new_model(_other_task(session), "other-1")
    draft = new_round(sample.task, 2)
    session.add_all([model, draft])
    session.flush()
    session.add(RoundModel(round_id=draft.id, model_version_id=model.id, task_id=sample.task, rank=0))


@forbidden("fk_model_version_parent_id_task_id_model_version")
def a_model_descends_from_another_tasks_model(sample: SampleRows, session: Session) -> None:
    session.add(new_model(_other_task(session), "child", parent_id=sample.model))


@forbidden("fk_training_job_round_id_task_id_round")
def a_training_learns_from_another_tasks_round(sample: SampleRows, session: Session) -> None:
    began: dict[str, Any] = {"started_by": "owner", "host": "here", "pid": 7, "started_at": NOON, "beat_at": NOON}
    session.add(TrainingJob(task_id=_other_task(session), round_id=sample.round, mode="head", **began))


@forbidden("fk_hit_round_id_task_id_round")
def a_hit_is_posted_for_another_tasks_round(sample: SampleRows, session: Session) -> None:
    session.add(sample.new_hit("h", task_id=_other_task(session)))


@forbidden("fk_assignment_worker_id_marketplace_worker")
def a_worker_of_one_marketplace_takes_a_hit_of_another(sample: SampleRows, session: Session) -> None:
    stranger = Worker(marketplace="prolific", external_id="P1", first_seen_at=NOON)
    session.add(stranger)
    session.flush()
    taken: dict[str, Any] = {"status": AssignmentStatus.ACCEPTED, "accepted_at": NOON}
    session.add(Assignment(hit_id=sample.hit, worker_id=stranger.id, marketplace="mturk", external_id="AS7", **taken))


@forbidden("fk_credited_span_assignment_id_worker_id_assignment")
def time_is_credited_to_another_worker_than_the_assignments(sample: SampleRows, session: Session) -> None:
    whose = {"assignment_id": sample.assignment, "worker_id": sample.voter}
    session.add(CreditedSpan(**whose, starts_at=NOON, ends_at=NOON + HOUR))


@forbidden("fk_work_session_assignment_id_hit_id_worker_id_assignment")
def a_forged_worker_is_confirmed_by_somebody_elses_assignment(sample: SampleRows, session: Session) -> None:
    forged = WorkSession(
        public_id=public_id(NOON),
        hit_id=sample.hit,
        worker_id=sample.voter,
        claimed_assignment="AS1",
        draft={},
        started_at=NOON,
        expires_at=NOON + HOUR,
        submitted_at=NOON,
        status=SessionStatus.CONFIRMED,
        assignment_id=sample.assignment,
    )
    session.add(forged)


def _owe(sample: SampleRows, session: Session, entry: LedgerEntry, worker: int) -> None:
    session.add(entry)
    session.flush()
    entry.state, entry.owed_at = EntryState.OWED, NOON
    entry.worker_id, entry.assignment_id = worker, sample.assignment


@forbidden("fk_ledger_entry_assignment_id_worker_id_assignment")
def a_reward_goes_to_somebody_who_did_not_do_the_work(sample: SampleRows, session: Session) -> None:
    _owe(sample, session, sample.new_entry(), sample.voter)


@forbidden("fk_ledger_entry_example_id_worker_id_example")
def a_bonus_goes_to_somebody_who_did_not_write_the_example(sample: SampleRows, session: Session) -> None:
    session.add(sample.new_entry(kind=EntryKind.BONUS, example_id=sample.example, worker_id=sample.voter))


@forbidden("fk_ledger_entry_round_id_task_id_round")
def an_entry_is_booked_on_another_tasks_round(sample: SampleRows, session: Session) -> None:
    session.add(sample.new_entry(task_id=_other_task(session)))


@forbidden("guard_ledger_entry_round")
def an_entry_evades_its_rounds_budget(sample: SampleRows, session: Session) -> None:
    session.add(sample.new_entry(round_id=None))


@forbidden("uq_ledger_entry_assignment")
def one_assignment_is_rewarded_twice(sample: SampleRows, session: Session) -> None:
    for key in ("first", "second"):
        _owe(sample, session, sample.new_entry(key), sample.author)
        session.flush()


@pytest.mark.parametrize(("rule", "deed"), forbidden.cases)
def test_the_database_refuses_the_change(shared_sample: SampleRows, rule: str, deed: Deed) -> None:
    check_refused(shared_sample, rule, deed)
