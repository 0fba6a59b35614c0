"""The next version: trained, compared with the serving one, and rotated in unless it is much worse."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import select

from ml_backend.registry.model_pool import ModelPool
from ml_backend.registry.rotation import rollback
from round_manager.database.store import Store
from round_manager.learning.training_data import pending_training
from round_manager.models import AuditEntry, Evaluation, Split, TrainingState
from tests.campaign.training import (
    TASK,
    RoundRow,
    TrainingCampaign,
    first_round_rows,
    small_pack,
    start_training,
    with_closed_round,
)
from tests.fakes.registry import eventually, load_fixed, make_version
from tests.fakes.trainer import FakeTrainer

# The seed's held-out rows, two of each label: a model that predicts one label is right in a third.
THIRD = pytest.approx(100 / 3, abs=0.001)


def audited(training: TrainingCampaign, action: str) -> list[AuditEntry]:
    with training.store.read() as session:
        return list(session.scalars(select(AuditEntry).where(AuditEntry.action == action)))


def test_the_next_version_is_evaluated_and_serves(training: TrainingCampaign) -> None:
    trainable = with_closed_round(training)
    before = trainable.pinned()
    done = trainable.retrain()
    assert done.rotated
    assert trainable.pinned() == (done.version,)
    figures = [(one.dataset, one.rows, one.before, one.after) for one in done.decision.comparisons]
    assert figures == [("seed", 6, THIRD, THIRD), ("round 1", 4, 0.0, 100.0), ("all held-out rows", 10, 20.0, 60.0)]
    assert len(set(trainable.evaluations())) == len(trainable.evaluations()) == 4
    job = trainable.last_job()
    assert (job.state, job.mode, job.finished_at) == (TrainingState.ROTATED, "head", trainable.clock.now())
    (entry,) = audited(trainable, "rotated")
    assert (entry.before, entry.after and entry.after["versions"]) == ({"versions": list(before)}, [done.version])
    assert "round 1: from 0.0 to 100.0 points on 4 rows" in entry.reason
    with trainable.store.read() as session:
        assert pending_training(session, trainable.task_in(session)) is None


def test_an_evaluation_stores_only_measured_axes(trainable: TrainingCampaign) -> None:
    trainable.retrain(measure_memory=lambda directory: 1_000_000)
    with trainable.store.read() as session:
        rows = session.scalars(select(Evaluation)).all()
    assert {row.metric for row in rows} == {"accuracy"}
    assert all(row.rows_per_second and row.rows_per_second > 0 and row.memory_bytes == 1_000_000 for row in rows)
    speeds = {(row.model_version_id, tuple(row.details["rows_per_second"])) for row in rows}
    assert len(speeds) == len({row.model_version_id for row in rows}), "a version has one speed on all sets"
    assert all(len(repeats) >= 3 for _, repeats in speeds)
    assert all(row.fairness is None and row.robustness is None for row in rows)
    assert {row.round_id is None for row in rows if row.dataset == "seed"} == {True}


def test_a_second_run_trains_evaluates_and_rotates_nothing(training: TrainingCampaign) -> None:
    trainable = with_closed_round(training)
    trainable.retrain()
    generation, measured = trainable.registry.pin_set(TASK).generation, trainable.evaluations()
    again = FakeTrainer(trainable.models)
    assert trainable.retrain(again).rotated
    assert again.trained == []
    assert trainable.evaluations() == measured
    assert trainable.registry.pin_set(TASK).generation == generation


@pytest.mark.any_database
def test_the_seed_itself_is_guarded(store: Store, tmp_path: Path) -> None:
    training = start_training(store, small_pack(tmp_path, {"positive": 40}), tmp_path / "models")
    (before,) = training.pin("positive")
    training.add_closed_round(first_round_rows())
    done = training.retrain()
    assert not done.rotated
    training.check_unchanged((before,))
    told = done.decision.reason()
    assert "seed: from 90.9 to 4.5 points on 44 rows" in told
    job = training.last_job()
    assert (job.state, job.reason) == (TrainingState.REFUSED, told)
    (entry,) = audited(training, "refused")
    assert (entry.reason, entry.after and entry.after["versions"]) == (told, [before])
    with training.store.read() as session:
        assert pending_training(session, training.task_in(session)) is None, "the same training is not repeated"
    again = FakeTrainer(training.models)
    assert training.retrain(again).decision == done.decision
    assert again.trained == []


def test_an_earlier_round_is_guarded(training: TrainingCampaign) -> None:
    trainable = with_closed_round(training, held_out=20)
    trainable.retrain()
    (second,) = trainable.pinned()
    trainable.add_closed_round([RoundRow("New to all.", "neutral"), RoundRow("Also new.", "neutral", Split.HELD_OUT)])
    done = trainable.retrain(FakeTrainer(trainable.models, "neutral"))
    assert not done.rotated
    assert trainable.pinned() == (second,)
    assert "round 1: from 100.0 to 0.0 points" in done.decision.reason()
    assert "round 2" not in done.decision.reason(), "only regressions are reported"


def test_a_new_version_must_not_lose_against_the_best_of_an_ensemble(any_training: TrainingCampaign) -> None:
    pinned = any_training.pin("positive", "neutral")
    any_training.add_closed_round(first_round_rows("neutral", held_out=20))
    done = any_training.retrain()
    assert not done.rotated
    assert done.before == pinned
    assert [(one.before, one.after) for one in done.decision.comparisons][1] == (100.0, 0.0)
    any_training.check_unchanged(pinned)


def test_a_version_rotated_in_during_the_evaluation_is_compared_too(training: TrainingCampaign) -> None:
    trainable = with_closed_round(training, held_out=20)
    better = make_version(trainable.models, "negative", note="by hand")

    def measure(directory: Path) -> None:
        if trainable.pinned() != (better,):
            trainable.registry.set_pins(TASK, [better])

    done = trainable.retrain(FakeTrainer(trainable.models, "neutral"), measure_memory=measure)
    assert (done.rotated, done.before) == (False, (better,))
    assert trainable.pinned() == (better,)


def test_without_pins_the_last_rounds_version_is_compared(trainable: TrainingCampaign) -> None:
    (trainable.models / TASK / "pins.json").unlink()
    done = trainable.retrain()
    assert (done.before, [one.before for one in done.decision.comparisons]) == ((), [THIRD, 0.0, 20.0])
    assert trainable.pinned() == (done.version,)


def test_an_owner_can_roll_back_and_it_stays_so(trainable: TrainingCampaign) -> None:
    before = trainable.pinned()
    trainable.retrain()
    rollback(trainable.registry, TASK, load=load_fixed)
    assert trainable.pinned() == before
    with trainable.store.read() as session:
        assert pending_training(session, trainable.task_in(session)) is None


def test_requests_are_answered_during_the_rotation(trainable: TrainingCampaign) -> None:
    pool = ModelPool(trainable.registry, load_fixed, [TASK])
    pool.start()
    answers: list[tuple[str, str]] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            predictor = pool.models_for(TASK).targets[0]
            answers.append((predictor.version, getattr(predictor.predict([{"text": "x"}])[0], "label", "")))

    asking = threading.Thread(target=ask)
    try:
        (before,) = trainable.pinned()
        asking.start()
        eventually(lambda: answers, "a request is answered")
        done = trainable.retrain()
        asked = len(answers)
        eventually(lambda: len(answers) > asked + 5, "more is asked")
    finally:
        over.set()
        asking.join()
        pool.stop()
    assert set(answers) == {(before, "positive"), (done.version, "negative")}
    assert {version for version, _ in answers[asked + 1 :]} == {done.version}, "none is stale when it is done"


def test_a_version_with_other_labels_is_not_compared(any_training: TrainingCampaign) -> None:
    any_training.add_closed_round(first_round_rows())
    other = make_version(any_training.models, "positive", content={"labels": ["positive", "negative"]})
    any_training.registry.set_pins(TASK, [other])
    done = any_training.retrain()
    assert done.before == (other,)
    assert list(done.decision.not_compared) == [other]
    assert [one.before for one in done.decision.comparisons] == [THIRD, 0.0, 20.0], "as that of the last round has"
    assert any_training.pinned() == (done.version,)
