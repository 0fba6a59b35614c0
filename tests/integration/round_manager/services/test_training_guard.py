"""The guard compares a new version with all serving versions and with those of the last round."""

import pytest
from sqlalchemy import select

from round_manager.models import AuditEntry, TrainingState
from tests.campaign.training import TASK, RoundRow, TrainingCampaign, first_round_rows
from tests.fakes.registry import corrupt, make_version
from tests.fakes.trainer import FakeTrainer


def audited(training: TrainingCampaign, action: str) -> AuditEntry:
    with training.store.read() as session:
        return session.scalars(select(AuditEntry).where(AuditEntry.action == action)).one()


def test_a_version_that_only_the_last_round_pinned_is_guarded_too(any_training: TrainingCampaign) -> None:
    (positive,) = any_training.pin("positive")
    negative = make_version(any_training.models, "negative", note="strong")
    any_training.add_closed_round(first_round_rows("negative"), against=(positive, negative))
    done = any_training.retrain(FakeTrainer(any_training.models, "neutral"))
    assert (done.rotated, done.before) == (False, (positive,))
    assert "round 1: from 100.0 to 0.0 points" in done.decision.reason()
    any_training.check_unchanged((positive,))


def test_versions_of_earlier_rounds_are_not_compared(any_training: TrainingCampaign) -> None:
    (positive,) = any_training.pin("positive")
    negative = make_version(any_training.models, "negative", note="strong")
    any_training.add_closed_round(first_round_rows("negative"), against=(positive, negative))
    any_training.add_closed_round([RoundRow("New to all.", "neutral")])
    assert any_training.retrain(FakeTrainer(any_training.models, "neutral")).rotated


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
    assert [one.before for one in done.decision.comparisons] == [None, None]
    for told in (done.decision.reason(), any_training.last_job().reason, audited(any_training, "rotated").reason):
        assert f"not compared with {before}: " in str(told)
    assert list((any_training.last_job().figures or {})["not_compared"]) == [before]


def test_a_broken_version_is_reported_even_if_another_keeps_the_new_one_out(any_training: TrainingCampaign) -> None:
    positive, neutral = any_training.pin("positive", "neutral")
    any_training.add_closed_round(first_round_rows("neutral"))
    corrupt(any_training.models / TASK / positive)
    done = any_training.retrain()
    assert (done.state, any_training.pinned()) == (TrainingState.REFUSED, (positive, neutral))
    assert "round 1: from 100.0 to 0.0 points" in done.decision.reason()
    assert f"not compared with {positive}: " in done.decision.reason()
