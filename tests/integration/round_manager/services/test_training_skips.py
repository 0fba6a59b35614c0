"""A round with nothing to learn is skipped and reported once, and the next one opens."""

import pytest
from sqlalchemy import select

from round_manager.errors import NothingToLearn, RoundError
from round_manager.learning.training_data import pending_training
from round_manager.learning.training_jobs import list_jobs
from round_manager.models import AuditEntry
from tests.campaign.training import RoundRow, TrainingCampaign, first_round_rows
from tests.fakes.trainer import FakeTrainer

COPY = RoundRow("A row that fooled, number 0.")


def is_awaited(training: TrainingCampaign) -> bool:
    with training.store.read() as session:
        return pending_training(session, training.task_in(session)) is not None


def passed_over(training: TrainingCampaign) -> list[AuditEntry]:
    with training.store.read() as session:
        return list(session.scalars(select(AuditEntry).where(AuditEntry.action == "passed over")))


def test_a_round_of_duplicates_is_skipped(training: TrainingCampaign) -> None:
    training.pin("positive")
    training.add_closed_round(first_round_rows())
    pinned = (training.retrain().version,)
    training.add_closed_round([COPY])
    assert is_awaited(training)
    for _ in range(2):
        with pytest.raises(NothingToLearn, match="1 row"):
            training.retrain()
    assert not is_awaited(training)
    (entry,) = passed_over(training)
    assert (entry.round_id, entry.actor) == (training.find_round(2).id, "owner@test")
    assert training.pinned() == pinned
    with training.store.read() as session:
        assert len(list_jobs(session, training.task_in(session))) == 1


def test_rows_that_no_longer_fit_the_task_have_nothing_to_learn(any_training: TrainingCampaign) -> None:
    any_training.pin("positive")
    any_training.add_closed_round([RoundRow(" ")])
    with pytest.raises(NothingToLearn):
        any_training.retrain()
    assert not is_awaited(any_training)


def test_after_a_skipped_round_the_next_one_is_trained_on(any_training: TrainingCampaign) -> None:
    any_training.pin("positive")
    any_training.add_closed_round(first_round_rows())
    any_training.retrain()
    any_training.add_closed_round([COPY])
    with pytest.raises(RoundError):
        any_training.retrain()
    any_training.add_closed_round([RoundRow("New to all.")])
    assert is_awaited(any_training)
    assert any_training.retrain(FakeTrainer(any_training.models)).rotated


def test_a_round_that_is_not_split_yet_is_not_skipped(any_training: TrainingCampaign) -> None:
    any_training.pin("positive")
    any_training.add_closed_round(first_round_rows(), split=False)
    with pytest.raises(RoundError, match="not split yet"):
        any_training.retrain()
    assert passed_over(any_training) == []
