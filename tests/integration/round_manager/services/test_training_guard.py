"""The guard compares a new version with all serving versions and with those of the last round."""

import pytest
from sqlalchemy import select

from round_manager.learning.versions import Measured, find_versions, store_evaluation
from round_manager.models import AuditEntry, TrainingState
from tests.campaign.training import TASK, RoundRow, TrainingCampaign, first_round_rows, with_closed_round
from tests.fakes.registry import corrupt, make_version
from tests.fakes.trainer import FakeTrainer


def audited(training: TrainingCampaign, action: str) -> AuditEntry:
    with training.store.read() as session:
        return session.scalars(select(AuditEntry).where(AuditEntry.action == action)).one()


def test_a_version_that_only_the_last_round_pinned_is_guarded_too(any_training: TrainingCampaign) -> None:
    (positive,) = any_training.pin("positive")
    negative = make_version(any_training.models, "negative", note="strong")
    any_training.add_closed_round(first_round_rows("negative", held_out=20), against=(positive, negative))
    done = any_training.retrain(FakeTrainer(any_training.models, "neutral"))
    assert (done.rotated, done.before) == (False, (positive,))
    assert "round 1: from 100.0 to 0.0 points" in done.decision.reason()
    any_training.check_unchanged((positive,))


def neutral_round(training: TrainingCampaign, number: int) -> None:
    """Close a round of neutral rows that no other round has."""
    training.add_closed_round([RoundRow(f"Neutral row {number}, new to all.", "neutral")])


def test_the_best_version_that_served_earlier_is_compared_too(any_training: TrainingCampaign) -> None:
    training = with_closed_round(any_training, held_out=20)
    best = training.retrain().version
    # The owner rolls back; the next round is played against a version that is worse on round 1.
    (positive,) = training.pin("positive")
    neutral_round(training, 2)
    refused = training.retrain(FakeTrainer(training.models, "neutral"))
    assert (refused.state, refused.before) == (TrainingState.REFUSED, (positive,))
    assert {one.against for one in refused.decision.regressions} == {best}
    # The owner lets the refused version serve: its loss is accepted.
    training.registry.set_pins(TASK, [refused.version])
    neutral_round(training, 3)
    assert training.retrain(FakeTrainer(training.models, "neutral")).rotated


def test_a_version_that_was_measured_before_scores_were_stored_is_measured_again(
    any_training: TrainingCampaign,
) -> None:
    training = with_closed_round(any_training, held_out=20)
    with training.store.read() as session:
        (first,) = find_versions(session, training.task_in(session), training.pinned())
    part = training.training_rows().held_out[1]
    metrics = {"accuracy": 100.0, "rows": 20}
    with training.store.write() as session:
        store_evaluation(session, first, part, "accuracy", Measured(metrics, (), (), None), now=training.clock.now())
    done = training.retrain()
    assert [one.before for one in done.decision.comparisons][1] == 0.0
    assert done.rotated


@pytest.mark.parametrize("how", ["changed", "gone", "unloadable"])
def test_a_broken_serving_version_is_reported_and_replaced(any_training: TrainingCampaign, how: str) -> None:
    if how == "unloadable":
        before = make_version(any_training.models, "positive", fault="broken")
        any_training.registry.set_pins(TASK, [before])
    else:
        (before,) = any_training.pin("positive")
    any_training.add_closed_round(first_round_rows())
    if how == "changed":
        corrupt(any_training.models / TASK / before)
    if how == "gone":
        (any_training.models / TASK / before / "model.safetensors").unlink()
    done = any_training.retrain()
    assert (done.rotated, done.before) == (True, (before,))
    assert any_training.pinned() == (done.version,)
    assert [one.before for one in done.decision.comparisons] == [None, None, None]
    for told in (done.decision.reason(), any_training.last_job().reason, audited(any_training, "rotated").reason):
        assert f"not compared with {before}: " in str(told)
    assert list((any_training.last_job().figures or {})["not_compared"]) == [before]


def test_a_broken_version_is_reported_even_if_another_keeps_the_new_one_out(any_training: TrainingCampaign) -> None:
    positive, neutral = any_training.pin("positive", "neutral")
    any_training.add_closed_round(first_round_rows("neutral", held_out=20))
    corrupt(any_training.models / TASK / positive)
    done = any_training.retrain()
    assert (done.state, any_training.pinned()) == (TrainingState.REFUSED, (positive, neutral))
    assert "round 1: from 100.0 to 0.0 points" in done.decision.reason()
    assert f"not compared with {positive}: " in done.decision.reason()
