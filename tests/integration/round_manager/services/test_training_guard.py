"""The guard compares a new version with all serving versions and with those of the last round."""

import pytest
from sqlalchemy import select

from round_manager.models import AuditEntry, TrainingState
from tests.fakes.registry import corrupt, make_version
from tests.fakes.trainer import FakeTrainer
from tests.integration.round_manager.learning.school import TASK, Row, School, first_round, last_job, retrain, unchanged


def audited(school: School, action: str) -> AuditEntry:
    with school.store.read() as session:
        return session.scalars(select(AuditEntry).where(AuditEntry.action == action)).one()


def test_a_version_that_only_the_last_round_pinned_is_guarded_too(any_school: School) -> None:
    (positive,) = any_school.pin("positive")
    negative = make_version(any_school.models, "negative", note="strong")
    any_school.round_over(first_round("negative"), against=(positive, negative))
    done = retrain(any_school, FakeTrainer(any_school.models, "neutral"))
    assert (done.rotated, done.before) == (False, (positive,))
    assert "round 1: from 100.0 to 0.0 points" in done.decision.reason()
    unchanged(any_school, (positive,))


def test_versions_of_earlier_rounds_are_not_compared(any_school: School) -> None:
    (positive,) = any_school.pin("positive")
    negative = make_version(any_school.models, "negative", note="strong")
    any_school.round_over(first_round("negative"), against=(positive, negative))
    any_school.round_over([Row("New to all.", "neutral")])
    assert retrain(any_school, FakeTrainer(any_school.models, "neutral")).rotated


@pytest.mark.parametrize("how", ["changed", "gone", "unloadable"])
def test_a_broken_serving_version_is_reported_and_replaced(any_school: School, how: str) -> None:
    if how == "unloadable":
        before = make_version(any_school.models, "positive", fault="broken")
        any_school.registry.set_pins(TASK, [before])
    else:
        (before,) = any_school.pin("positive")
    any_school.round_over(first_round())
    if how == "changed":
        corrupt(any_school.models / TASK / before)
    if how == "gone":
        (any_school.models / TASK / before / "model.safetensors").unlink()
    done = retrain(any_school)
    assert (done.rotated, done.before) == (True, (before,))
    assert any_school.pinned() == (done.version,)
    assert [one.before for one in done.decision.comparisons] == [None, None]
    for told in (done.decision.reason(), last_job(any_school).reason, audited(any_school, "rotated").reason):
        assert f"not compared with {before}: " in str(told)
    assert list((last_job(any_school).figures or {})["not_compared"]) == [before]


def test_a_broken_version_is_reported_even_if_another_keeps_the_new_one_out(any_school: School) -> None:
    positive, neutral = any_school.pin("positive", "neutral")
    any_school.round_over(first_round("neutral"))
    corrupt(any_school.models / TASK / positive)
    done = retrain(any_school)
    assert (done.state, any_school.pinned()) == (TrainingState.REFUSED, (positive, neutral))
    assert "round 1: from 100.0 to 0.0 points" in done.decision.reason()
    assert f"not compared with {positive}: " in done.decision.reason()
