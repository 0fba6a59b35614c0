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
from tests.fakes.registry import eventually, load_fixed, make_version
from tests.fakes.trainer import FakeTrainer
from tests.integration.round_manager.learning.school import (
    TASK,
    Row,
    School,
    evaluations,
    first_round,
    found_school,
    last_job,
    retrain,
    small_pack,
    teach,
    unchanged,
)

# The seed's held-out rows, two of each label: a model that predicts one label is right in a third.
THIRD = pytest.approx(100 / 3, abs=0.001)


def audited(school: School, action: str) -> list[AuditEntry]:
    with school.store.read() as session:
        return list(session.scalars(select(AuditEntry).where(AuditEntry.action == action)))


def test_the_next_version_is_evaluated_and_serves(school: School) -> None:
    taught = teach(school)
    before = taught.pinned()
    done = retrain(taught)
    assert done.rotated
    assert taught.pinned() == (done.version,)
    figures = [(one.dataset, one.rows, one.before, one.after) for one in done.decision.comparisons]
    assert figures == [("seed", 6, THIRD, THIRD), ("round 1", 4, 0.0, 100.0)]
    assert len(set(evaluations(taught))) == len(evaluations(taught)) == 4
    job = last_job(taught)
    assert (job.state, job.mode, job.finished_at) == (TrainingState.ROTATED, "head", taught.clock.now())
    (entry,) = audited(taught, "rotated")
    assert (entry.before, entry.after and entry.after["versions"]) == ({"versions": list(before)}, [done.version])
    assert "round 1: from 0.0 to 100.0 points on 4 rows" in entry.reason
    with taught.store.read() as session:
        assert pending_training(session, taught.task(session)) is None


def test_an_evaluation_stores_only_measured_axes(taught: School) -> None:
    retrain(taught, measure_memory=lambda directory: 1_000_000)
    with taught.store.read() as session:
        rows = session.scalars(select(Evaluation)).all()
    assert {row.metric for row in rows} == {"accuracy"}
    assert all(row.rows_per_second and row.rows_per_second > 0 and row.memory_bytes == 1_000_000 for row in rows)
    assert all(row.fairness is None and row.robustness is None for row in rows)
    assert {row.round_id is None for row in rows if row.dataset == "seed"} == {True}


def test_a_second_run_trains_evaluates_and_rotates_nothing(school: School) -> None:
    taught = teach(school)
    retrain(taught)
    generation, measured = taught.registry.pin_set(TASK).generation, evaluations(taught)
    again = FakeTrainer(taught.models)
    assert retrain(taught, again).rotated
    assert again.trained == []
    assert evaluations(taught) == measured
    assert taught.registry.pin_set(TASK).generation == generation


def test_the_seed_itself_is_guarded(store: Store, tmp_path: Path) -> None:
    school = found_school(store, small_pack(tmp_path, {"positive": 5}), tmp_path / "models")
    (before,) = school.pin("positive")
    school.round_over(first_round())
    done = retrain(school)
    assert not done.rotated
    unchanged(school, (before,))
    told = done.decision.reason()
    assert "seed: from 55.6 to 22.2 points on 9 rows" in told
    job = last_job(school)
    assert (job.state, job.reason) == (TrainingState.REFUSED, told)
    (entry,) = audited(school, "refused")
    assert (entry.reason, entry.after and entry.after["versions"]) == (told, [before])
    with school.store.read() as session:
        assert pending_training(session, school.task(session)) is None, "the same training is not repeated"
    again = FakeTrainer(school.models)
    assert retrain(school, again).decision == done.decision
    assert again.trained == []


def test_an_earlier_round_is_guarded(taught: School) -> None:
    retrain(taught)
    (second,) = taught.pinned()
    taught.round_over([Row("New to all.", "neutral"), Row("Also new.", "neutral", Split.HELD_OUT)])
    done = retrain(taught, FakeTrainer(taught.models, "neutral"))
    assert not done.rotated
    assert taught.pinned() == (second,)
    assert "round 1: from 100.0 to 0.0 points" in done.decision.reason()
    assert "round 2" not in done.decision.reason(), "only regressions are reported"


def test_a_new_version_must_not_lose_against_the_best_of_an_ensemble(any_school: School) -> None:
    pinned = any_school.pin("positive", "neutral")
    any_school.round_over(first_round("neutral"))
    done = retrain(any_school)
    assert not done.rotated
    assert done.before == pinned
    assert [(one.before, one.after) for one in done.decision.comparisons][1] == (100.0, 0.0)
    unchanged(any_school, pinned)


def test_a_version_rotated_in_during_the_evaluation_is_compared_too(taught: School) -> None:
    better = make_version(taught.models, "negative", note="by hand")

    def measure(directory: Path) -> None:
        if taught.pinned() != (better,):
            taught.registry.set_pins(TASK, [better])

    done = retrain(taught, FakeTrainer(taught.models, "neutral"), measure_memory=measure)
    assert (done.rotated, done.before) == (False, (better,))
    assert taught.pinned() == (better,)


def test_without_pins_the_last_rounds_version_is_compared(taught: School) -> None:
    (taught.models / TASK / "pins.json").unlink()
    done = retrain(taught)
    assert (done.before, [one.before for one in done.decision.comparisons]) == ((), [THIRD, 0.0])
    assert taught.pinned() == (done.version,)


def test_an_owner_can_roll_back_and_it_stays_so(taught: School) -> None:
    before = taught.pinned()
    retrain(taught)
    rollback(taught.registry, TASK, load=load_fixed)
    assert taught.pinned() == before
    with taught.store.read() as session:
        assert pending_training(session, taught.task(session)) is None


def test_requests_are_answered_during_the_rotation(taught: School) -> None:
    pool = ModelPool(taught.registry, load_fixed, [TASK])
    pool.start()
    answers: list[tuple[str, str]] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            predictor = pool.models_for(TASK).targets[0]
            answers.append((predictor.version, getattr(predictor.predict([{"text": "x"}])[0], "label", "")))

    asking = threading.Thread(target=ask)
    try:
        (before,) = taught.pinned()
        asking.start()
        eventually(lambda: answers, "a request is answered")
        done = retrain(taught)
        asked = len(answers)
        eventually(lambda: len(answers) > asked + 5, "more is asked")
    finally:
        over.set()
        asking.join()
        pool.stop()
    assert set(answers) == {(before, "positive"), (done.version, "negative")}
    assert {version for version, _ in answers[asked + 1 :]} == {done.version}, "none is stale when it is done"


def test_a_version_with_other_labels_is_not_compared(any_school: School) -> None:
    any_school.round_over(first_round())
    other = make_version(any_school.models, "positive", content={"labels": ["positive", "negative"]})
    any_school.registry.set_pins(TASK, [other])
    done = retrain(any_school)
    assert done.before == (other,)
    assert list(done.decision.not_compared) == [other]
    assert [one.before for one in done.decision.comparisons] == [THIRD, 0.0], "as that of the last round has"
    assert any_school.pinned() == (done.version,)
