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
from tests.fakes.clock import NOON, SettableClock
from tests.integration.databases import Databases
from tests.integration.round_manager.learning.school import OWNER, TASK, Row, School, first_round


def url_of(store: Store) -> str:
    return store.engine.url.render_as_string(hide_password=False)


def begun(school: School) -> TrainingJob:
    last = school.round_over(first_round())
    with school.store.write() as session:
        return start_job(session, school.task(session), last, "head", OWNER, now=NOON)


def jobs(school: School) -> list[tuple[TrainingState, str | None]]:
    with school.store.read() as session:
        return [(job.state, job.reason) for job in list_jobs(session, school.task(session))]


def waiting(school: School) -> PendingTraining | None:
    with school.store.read() as session:
        return pending_training(session, school.task(session))


def test_a_second_training_is_refused_with_the_name_of_the_first(school: School) -> None:
    with training_lock(school.store, TASK):
        begun(school)
        with open_store(url_of(school.store)) as other:
            with pytest.raises(TrainingBusy, match="owner@here since 2027-03-01 12:00"), training_lock(other, TASK):
                pytest.fail("two processes train at once")
            with training_lock(other, "nli"):
                pass


def test_the_database_allows_one_running_job(school: School) -> None:
    job = begun(school)
    with school.store.write() as session:
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


def test_the_next_training_records_that_the_last_one_died(school: School) -> None:
    job = begun(school)
    with school.store.write() as session:
        task = school.task(session)
        start_job(session, task, school.round(1), "head", OWNER, now=NOON + timedelta(hours=1))
    assert jobs(school) == [(TrainingState.RUNNING, None), (TrainingState.FAILED, DIED)]
    with school.store.write() as session:
        assert record_heartbeat(session, job.id, JobProgress("still here"), now=NOON) is False
        with pytest.raises(TrainingEnded):
            finish_job(session, job.id, TrainingState.ROTATED, "all well", now=NOON)


def test_progress_is_visible_and_a_cancel_arrives_with_the_next_heartbeat(school: School) -> None:
    job = begun(school)
    later = NOON + timedelta(seconds=5)
    with school.store.write() as session:
        assert record_heartbeat(session, job.id, JobProgress("epoch 1", 3, 10, "loss 0.5" * 100), now=later) is True
    with school.store.read() as session:
        seen = running_job(session, school.task(session))
        assert seen is not None
        assert (seen.stage, seen.steps, seen.total, seen.beat_at) == ("epoch 1", 3, 10, later)
    with training_lock(school.store, TASK), open_store(url_of(school.store)) as other:
        for who in ("ada@desk", "bob@desk"):
            asked = cancel_training(ServiceContext(other, SettableClock()), Actor(who), TASK)
        assert (asked.state, asked.cancel_by) == (TrainingState.RUNNING, "ada@desk")
    with school.store.write() as session:
        assert record_heartbeat(session, job.id, JobProgress(), now=later) is False


def test_a_dead_training_can_be_cancelled_and_cancelling_none_is_an_error(school: School) -> None:
    begun(school)
    later = SettableClock(NOON + HEARTBEAT_TIMEOUT)
    ended = cancel_training(ServiceContext(school.store, later), Actor("ada"), TASK)
    assert (ended.state, ended.reason) == (TrainingState.CANCELLED, f"cancelled by ada; {DIED}")
    assert waiting(school) is None, "it is not started again"
    with pytest.raises(NoTraining):
        cancel_training(school.context, Actor("ada"), TASK)


@pytest.mark.parametrize("state", [TrainingState.CANCELLED, TrainingState.STOPPED, TrainingState.FAILED])
def test_a_training_is_pending_until_one_settles_the_round(school: School, state: TrainingState) -> None:
    assert waiting(school) is None
    job = begun(school)
    assert waiting(school) == PendingTraining(1, 0, None)
    with school.store.write() as session:
        finish_job(session, job.id, state, "no\nmemory", now=NOON)
    failures = 1 if state is TrainingState.FAILED else 0
    left = None if state is TrainingState.CANCELLED else PendingTraining(1, failures, "no memory" if failures else None)
    assert waiting(school) == left
    school.round_over([Row("Of the second round.")])
    assert waiting(school) == PendingTraining(2, 0, None)


def test_a_round_with_nothing_to_learn_has_no_pending_training(school: School) -> None:
    school.round_over([Row("Disputed.", status=ExampleStatus.DISPUTED, split=None), Row("Kept.", split=Split.HELD_OUT)])
    assert waiting(school) is None
    school.round_over([Row("Not split yet.")], split=False)
    assert waiting(school) is None


def test_without_a_running_job_nothing_is_recorded_as_dead(school: School) -> None:
    with school.store.write() as session:
        assert fail_dead_job(session, school.task(session), DIED, now=NOON) is None


def test_a_process_that_failed_before_its_job_started_is_counted_too(school: School) -> None:
    school.round_over(first_round())
    for token in ("one", "one", "two"):
        with school.store.write() as session:
            gone = JobOwner("outfox", "here", 8, token)
            record_end(session, school.task(session), gone, None, "the pack is gone", now=NOON)
    assert waiting(school) == PendingTraining(1, 2, "the pack is gone"), "each process once"
    with school.store.write() as session:
        start_job(session, school.task(session), school.round(1), "head", OWNER, now=NOON)
        record_end(session, school.task(session), OWNER, "head", "killed", now=NOON)
    assert waiting(school) == PendingTraining(1, 3, "killed")


def test_a_reused_pid_is_not_mistaken_for_the_job(school: School) -> None:
    # A container that is started again repeats its name and the numbers of its processes.
    job = begun(school)
    with school.store.write() as session:
        finish_job(session, job.id, TrainingState.CANCELLED, "enough", now=NOON)
    school.round_over([Row("Of the second round.")])
    again = JobOwner(OWNER.actor, OWNER.host, OWNER.pid)
    with school.store.write() as session:
        record_end(session, school.task(session), again, "head", "the pack is gone", now=NOON)
    assert waiting(school) == PendingTraining(2, 1, "the pack is gone")


def test_only_failures_that_a_retry_cannot_resolve_are_counted(school: School) -> None:
    last = school.round_over(first_round())
    for retry, reason in ((True, "no answer"), (False, "no memory"), (True, "no answer")):
        with school.store.write() as session:
            task = school.task(session)
            job = start_job(session, task, last, "head", JobOwner("outfox", "here", 8), now=NOON)
            finish_job(session, job.id, TrainingState.FAILED, reason, now=NOON, retry=retry)
    assert waiting(school) == PendingTraining(1, 1, "no memory")


def test_a_failure_without_a_pending_training_is_not_recorded(school: School) -> None:
    with school.store.write() as session:
        assert record_end(session, school.task(session), OWNER, None, "no round", now=NOON) is None
    assert jobs(school) == []


def test_a_lock_that_was_lost_with_its_connection_ends_quietly(postgresql_databases: Databases) -> None:
    url = postgresql_databases.migrated()
    with open_store(url) as one, open_store(url) as other, training_lock(one, TASK):
        with other.write() as session:
            lost = "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
            assert session.execute(text(lost)).all() == [(True,)]
        with training_lock(other, TASK):
            pass
