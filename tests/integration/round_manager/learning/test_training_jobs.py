"""One training of a task at a time, visible to every process; a dead one does not block the next."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from round_manager.database.store import Store, open_store
from round_manager.errors import NoTraining, TrainingBusy, TrainingEnded
from round_manager.jobs import JobOwner
from round_manager.learning.training_data import PendingTraining, pending_training
from round_manager.learning.training_jobs import (
    DIED,
    HEARTBEAT_TIMEOUT,
    JobProgress,
    fail_dead_job,
    finish_job,
    list_jobs,
    record_end,
    record_heartbeat,
    running_job,
    start_job,
    training_lock,
)
from round_manager.models import ExampleStatus, Split, TrainingJob, TrainingState
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.training_supervisor import cancel_training
from tests.campaign.training import JOB_OWNER, TASK, RoundRow, TrainingCampaign, first_round_rows
from tests.fakes.clock import NOON, SettableClock
from tests.integration.databases import Databases


def url_of(store: Store) -> str:
    return store.engine.url.render_as_string(hide_password=False)


def begun(training: TrainingCampaign) -> TrainingJob:
    last = training.add_closed_round(first_round_rows())
    with training.store.write() as session:
        return start_job(session, training.task_in(session), last, "head", JOB_OWNER, now=NOON)


def jobs(training: TrainingCampaign) -> list[tuple[TrainingState, str | None]]:
    with training.store.read() as session:
        return [(job.state, job.reason) for job in list_jobs(session, training.task_in(session))]


def waiting(training: TrainingCampaign) -> PendingTraining | None:
    with training.store.read() as session:
        return pending_training(session, training.task_in(session))


def test_a_second_training_is_refused_with_the_name_of_the_first(training: TrainingCampaign) -> None:
    with training_lock(training.store, TASK):
        begun(training)
        with open_store(url_of(training.store)) as other:
            with pytest.raises(TrainingBusy, match="owner@test since 2027-03-01 12:00"), training_lock(other, TASK):
                pytest.fail("two processes train at once")
            with training_lock(other, "nli"):
                pass


def test_the_database_allows_one_running_job(training: TrainingCampaign) -> None:
    job = begun(training)
    with training.store.write() as session:
        session.add(
            TrainingJob(
                task_id=job.task_id,
                round_id=job.round_id,
                mode="head",
                started_by="other",
                host="there",
                pid=8,
                started_at=NOON,
                beat_at=NOON,
            )
        )
        with pytest.raises(Exception, match=r"(?i)unique|uq_training_job_running"):
            session.flush()
        session.rollback()


def test_the_next_training_records_that_the_last_one_died(training: TrainingCampaign) -> None:
    job = begun(training)
    with training.store.write() as session:
        task = training.task_in(session)
        start_job(session, task, training.find_round(1), "head", JOB_OWNER, now=NOON + timedelta(hours=1))
    assert jobs(training) == [(TrainingState.RUNNING, None), (TrainingState.FAILED, DIED)]
    with training.store.write() as session:
        assert record_heartbeat(session, job.id, JobProgress("still here"), now=NOON) is False
        with pytest.raises(TrainingEnded):
            finish_job(session, job.id, TrainingState.ROTATED, "all well", now=NOON)


def test_progress_is_visible_and_a_cancel_arrives_with_the_next_heartbeat(training: TrainingCampaign) -> None:
    job = begun(training)
    later = NOON + timedelta(seconds=5)
    with training.store.write() as session:
        assert record_heartbeat(session, job.id, JobProgress("epoch 1", 3, 10, "loss 0.5" * 100), now=later) is True
    with training.store.read() as session:
        seen = running_job(session, training.task_in(session))
        assert seen is not None
        assert (seen.stage, seen.steps, seen.total, seen.beat_at) == ("epoch 1", 3, 10, later)
    with training_lock(training.store, TASK), open_store(url_of(training.store)) as other:
        for who in ("ada@desk", "bob@desk"):
            asked = cancel_training(ServiceContext(other, SettableClock()), Actor(who), TASK)
        assert (asked.state, asked.cancel_by) == (TrainingState.RUNNING, "ada@desk")
    with training.store.write() as session:
        assert record_heartbeat(session, job.id, JobProgress(), now=later) is False


def test_a_dead_training_can_be_cancelled_and_cancelling_none_is_an_error(training: TrainingCampaign) -> None:
    begun(training)
    later = SettableClock(NOON + HEARTBEAT_TIMEOUT)
    ended = cancel_training(ServiceContext(training.store, later), Actor("ada"), TASK)
    assert (ended.state, ended.reason) == (TrainingState.CANCELLED, f"cancelled by ada; {DIED}")
    assert waiting(training) is None, "it is not started again"
    with pytest.raises(NoTraining):
        cancel_training(training.services, Actor("ada"), TASK)


@pytest.mark.parametrize("state", [TrainingState.CANCELLED, TrainingState.STOPPED, TrainingState.FAILED])
def test_a_training_is_pending_until_one_settles_the_round(training: TrainingCampaign, state: TrainingState) -> None:
    assert waiting(training) is None
    job = begun(training)
    assert waiting(training) == PendingTraining(1, 0, None)
    with training.store.write() as session:
        finish_job(session, job.id, state, "no\nmemory", now=NOON)
    failures = 1 if state is TrainingState.FAILED else 0
    left = None if state is TrainingState.CANCELLED else PendingTraining(1, failures, "no memory" if failures else None)
    assert waiting(training) == left
    training.add_closed_round([RoundRow("Of the second round.")])
    assert waiting(training) == PendingTraining(2, 0, None)


def test_a_round_with_nothing_to_learn_has_no_pending_training(training: TrainingCampaign) -> None:
    training.add_closed_round(
        [RoundRow("Disputed.", status=ExampleStatus.DISPUTED, split=None), RoundRow("Kept.", split=Split.HELD_OUT)]
    )
    assert waiting(training) is None
    training.add_closed_round([RoundRow("Not split yet.")], split=False)
    assert waiting(training) is None


def test_without_a_running_job_nothing_is_recorded_as_dead(training: TrainingCampaign) -> None:
    with training.store.write() as session:
        assert fail_dead_job(session, training.task_in(session), DIED, now=NOON) is None


def test_a_process_that_failed_before_its_job_started_is_counted_too(training: TrainingCampaign) -> None:
    training.add_closed_round(first_round_rows())
    for token in ("one", "one", "two"):
        with training.store.write() as session:
            gone = JobOwner("outfox", "here", 8, token)
            record_end(session, training.task_in(session), gone, None, "the pack is gone", now=NOON)
    assert waiting(training) == PendingTraining(1, 2, "the pack is gone"), "each process once"
    with training.store.write() as session:
        start_job(session, training.task_in(session), training.find_round(1), "head", JOB_OWNER, now=NOON)
        record_end(session, training.task_in(session), JOB_OWNER, "head", "killed", now=NOON)
    assert waiting(training) == PendingTraining(1, 3, "killed")


def test_a_reused_pid_is_not_mistaken_for_the_job(training: TrainingCampaign) -> None:
    # A container that is started again repeats its name and the numbers of its processes.
    job = begun(training)
    with training.store.write() as session:
        finish_job(session, job.id, TrainingState.CANCELLED, "enough", now=NOON)
    training.add_closed_round([RoundRow("Of the second round.")])
    again = JobOwner(JOB_OWNER.actor, JOB_OWNER.host, JOB_OWNER.pid)
    with training.store.write() as session:
        record_end(session, training.task_in(session), again, "head", "the pack is gone", now=NOON)
    assert waiting(training) == PendingTraining(2, 1, "the pack is gone")


def test_only_failures_that_a_retry_cannot_resolve_are_counted(training: TrainingCampaign) -> None:
    last = training.add_closed_round(first_round_rows())
    for retry, reason in ((True, "no answer"), (False, "no memory"), (True, "no answer")):
        with training.store.write() as session:
            task = training.task_in(session)
            job = start_job(session, task, last, "head", JobOwner("outfox", "here", 8), now=NOON)
            finish_job(session, job.id, TrainingState.FAILED, reason, now=NOON, retry=retry)
    assert waiting(training) == PendingTraining(1, 1, "no memory")


def test_a_failure_without_a_pending_training_is_not_recorded(training: TrainingCampaign) -> None:
    with training.store.write() as session:
        assert record_end(session, training.task_in(session), JOB_OWNER, None, "no round", now=NOON) is None
    assert jobs(training) == []


def test_a_lock_that_was_lost_with_its_connection_ends_quietly(postgresql_databases: Databases) -> None:
    url = postgresql_databases.migrated()
    with open_store(url) as one, open_store(url) as other, training_lock(one, TASK):
        with other.write() as session:
            lost = "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
            assert session.execute(text(lost)).all() == [(True,)]
        with training_lock(other, TASK):
            pass
