"""A round with nothing to learn is skipped and reported once, and the next one opens."""

import pytest
from sqlalchemy import select

from round_manager.errors import NothingToLearn, RoundError
from round_manager.learning.training_data import pending_training
from round_manager.learning.training_jobs import list_jobs
from round_manager.models import AuditEntry
from tests.fakes.trainer import FakeTrainer
from tests.integration.round_manager.learning.school import Row, School, first_round, retrain

COPY = Row("A row that fooled, number 0.")


def is_awaited(school: School) -> bool:
    with school.store.read() as session:
        return pending_training(session, school.task(session)) is not None


def passed_over(school: School) -> list[AuditEntry]:
    with school.store.read() as session:
        return list(session.scalars(select(AuditEntry).where(AuditEntry.action == "passed over")))


def test_a_round_of_duplicates_is_skipped(school: School) -> None:
    school.pin("positive")
    school.round_over(first_round())
    pinned = (retrain(school).version,)
    school.round_over([COPY])
    assert is_awaited(school)
    for _ in range(2):
        with pytest.raises(NothingToLearn, match="1 row"):
            retrain(school)
    assert not is_awaited(school)
    (entry,) = passed_over(school)
    assert (entry.round_id, entry.actor) == (school.round(2).id, "owner@here")
    assert school.pinned() == pinned
    with school.store.read() as session:
        assert len(list_jobs(session, school.task(session))) == 1


def test_rows_that_no_longer_fit_the_task_have_nothing_to_learn(any_school: School) -> None:
    any_school.pin("positive")
    any_school.round_over([Row(" ")])
    with pytest.raises(NothingToLearn):
        retrain(any_school)
    assert not is_awaited(any_school)


def test_after_a_skipped_round_the_next_one_is_trained_on(any_school: School) -> None:
    any_school.pin("positive")
    any_school.round_over(first_round())
    retrain(any_school)
    any_school.round_over([COPY])
    with pytest.raises(RoundError):
        retrain(any_school)
    any_school.round_over([Row("New to all.")])
    assert is_awaited(any_school)
    assert retrain(any_school, FakeTrainer(any_school.models)).rotated


def test_a_round_that_is_not_split_yet_is_not_skipped(any_school: School) -> None:
    any_school.pin("positive")
    any_school.round_over(first_round(), split=False)
    with pytest.raises(RoundError, match="not split yet"):
        retrain(any_school)
    assert passed_over(any_school) == []
