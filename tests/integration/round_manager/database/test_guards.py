"""Every guard refuses the change that it exists for."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from round_manager.models import (
    Attempt,
    AuditEntry,
    Board,
    BoardSnapshot,
    Context,
    Duplicate,
    Evaluation,
    Example,
    ExampleStatus,
    GoldExample,
    ModelVersion,
    Round,
    RoundModel,
    RoundStatus,
    Split,
    Suite,
    TrainingJob,
    TrainingState,
    Vote,
)
from round_manager.models.guards import TRIGGERS
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.forbidden_changes import Deed, Forbidden, check_refused
from tests.integration.round_manager.database.sample_rows import SampleRows, new_model, new_round
from tests.integration.round_manager.database.test_foreign_keys import forbidden as wrong_links
from tests.integration.round_manager.database.test_money_guards import forbidden as wrong_money

LATER = NOON + timedelta(days=1)
forbidden = Forbidden()


def _draft(sample: SampleRows, session: Session, *ranks: int) -> Round:
    draft = new_round(sample.task, 2)
    session.add(draft)
    for rank in ranks:
        session.add(new_model(sample.task, f"m{rank}"))
    session.flush()
    return draft


def _close(sample: SampleRows, session: Session, **archive: Any) -> Round:
    closed = sample.move_round(session, RoundStatus.CLOSED)
    for name, value in archive.items():
        setattr(closed, name, value)
    session.flush()
    return closed


FROZEN = {"frozen_at": NOON, "archive_uri": "archive", "archive_sha256": "0" * 64}


@forbidden("guard_model_version_fixed")
def a_model_version_is_changed(_: SampleRows, session: Session) -> None:
    session.execute(update(ModelVersion).values(metrics={"accuracy": 1.0}))


@forbidden("guard_model_version_kept")
def a_model_version_is_removed(sample: SampleRows, session: Session) -> None:
    session.add(new_model(sample.task, "unused"))
    session.flush()
    session.execute(text("DELETE FROM model_version WHERE name = 'unused'"))


@forbidden("guard_evaluation_fixed")
def a_measurement_is_changed(_: SampleRows, session: Session) -> None:
    session.execute(update(Evaluation).values(performance=1.0))


@forbidden("guard_evaluation_kept")
def a_measurement_is_removed(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM evaluation"))


@forbidden("guard_audit_entry_fixed")
def the_audit_log_is_rewritten(_: SampleRows, session: Session) -> None:
    session.execute(update(AuditEntry).values(reason="another one"))


@forbidden("guard_audit_entry_kept")
def the_audit_log_is_shortened(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM audit_entry"))


@forbidden("guard_training_job_begins")
def a_training_begins_with_its_end(sample: SampleRows, session: Session) -> None:
    over: dict[str, Any] = {"state": TrainingState.FAILED, "finished_at": NOON, "reason": "no memory"}
    began: dict[str, Any] = {"started_by": "owner", "host": "here", "pid": 7, "started_at": NOON, "beat_at": NOON}
    session.add(TrainingJob(task_id=sample.task, round_id=sample.round, mode="head", **began, **over))


@forbidden("guard_training_job_fixed")
def a_training_gets_another_process(_: SampleRows, session: Session) -> None:
    session.execute(update(TrainingJob).values(pid=8))


@forbidden("guard_training_job_over")
def a_training_that_is_over_goes_on(_: SampleRows, session: Session) -> None:
    session.execute(update(TrainingJob).values(state=TrainingState.FAILED, finished_at=NOON, reason="no memory"))
    session.execute(update(TrainingJob).values(note="still here"))


@forbidden("guard_training_job_kept")
def a_training_is_removed(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM training_job"))


@forbidden("guard_board_fixed")
def a_board_gets_other_weights(_: SampleRows, session: Session) -> None:
    session.execute(update(Board).values(weights={"performance": 1.0}))


@forbidden("guard_board_kept")
def a_board_is_deleted(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM board"))


@forbidden("guard_board_snapshot_fixed")
def a_snapshot_is_changed(_: SampleRows, session: Session) -> None:
    session.execute(update(BoardSnapshot).values(content="{ }"))


@forbidden("guard_board_snapshot_kept")
def a_snapshot_is_deleted(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM board_snapshot"))


@forbidden("guard_round_begins")
def a_round_begins_open(sample: SampleRows, session: Session) -> None:
    session.add(new_round(sample.task, 2, status=RoundStatus.OPEN, opened_at=NOON))


@forbidden("guard_round_forward")
def a_round_goes_back(sample: SampleRows, session: Session) -> None:
    moved = sample.move_round(session, RoundStatus.VALIDATING)
    moved.status = RoundStatus.OPEN


@forbidden("guard_round_forward")
def a_round_skips_validation(sample: SampleRows, session: Session) -> None:
    session.execute(update(Round).values(status="closed", validating_at=NOON, closed_at=NOON))


@forbidden("guard_round_forward")
def a_round_gets_an_unknown_status(_: SampleRows, session: Session) -> None:
    session.execute(text("UPDATE round SET status = 'nonsense'"))


@forbidden("guard_round_model")
def a_round_opens_without_a_model(sample: SampleRows, session: Session) -> None:
    draft = _draft(sample, session)
    draft.status, draft.opened_at = RoundStatus.OPEN, NOON


@forbidden("uq_round_live")
def a_second_round_opens_beside_the_first(sample: SampleRows, session: Session) -> None:
    draft = _draft(sample, session)
    session.add(RoundModel(round_id=draft.id, model_version_id=sample.model, task_id=sample.task, rank=0))
    session.flush()
    draft.status, draft.opened_at = RoundStatus.OPEN, NOON


@forbidden("guard_round_in_house")
def an_open_round_becomes_in_house(_: SampleRows, session: Session) -> None:
    session.execute(update(Round).where(Round.status == RoundStatus.OPEN).values(in_house=True))


@forbidden("guard_round_terms")
def the_rules_of_an_open_round_change(_: SampleRows, session: Session) -> None:
    session.execute(update(Round).values(spec={"name": "easier"}))


@forbidden("guard_round_times")
def a_round_opened_at_another_time(_: SampleRows, session: Session) -> None:
    session.execute(update(Round).values(opened_at=LATER))


@forbidden("guard_round_times")
def a_frozen_round_gets_another_archive(sample: SampleRows, session: Session) -> None:
    _close(sample, session, **FROZEN).archive_sha256 = "1" * 64


@forbidden("guard_round_closed")
def a_closed_round_gets_another_target(sample: SampleRows, session: Session) -> None:
    _close(sample, session).target_fooling = 1


@forbidden("guard_round_kept")
def an_open_round_is_removed(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM round"))


@forbidden("guard_round_forward")
def a_collected_round_is_closed_at_once(sample: SampleRows, session: Session) -> None:
    draft = _draft(sample, session)
    draft.status, draft.opened_at, draft.validating_at, draft.closed_at = RoundStatus.CLOSED, NOON, NOON, NOON


@forbidden("guard_round_forward")
def an_imported_round_is_opened(sample: SampleRows, session: Session) -> None:
    draft = _draft(sample, session)
    session.add(RoundModel(round_id=draft.id, model_version_id=sample.model, task_id=sample.task, rank=0))
    draft.imported, draft.texts_known = {}, 0
    session.flush()
    sample.move_round(session, RoundStatus.CLOSED)
    draft.status, draft.opened_at = RoundStatus.OPEN, NOON


@forbidden("guard_round_terms")
def a_collected_round_becomes_an_imported_one(_: SampleRows, session: Session) -> None:
    session.execute(update(Round).values(imported={}, texts_known=0))


@forbidden("guard_suite_fixed")
def a_test_suite_is_exchanged(_: SampleRows, session: Session) -> None:
    session.execute(update(Suite).values(archive_sha256="1" * 64))


@forbidden("guard_suite_kept")
def a_test_suite_is_removed(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM suite"))


@forbidden("guard_round_model_added")
def an_open_round_gets_another_model(sample: SampleRows, session: Session) -> None:
    model = new_model(sample.task, "newer")
    session.add(model)
    session.flush()
    session.add(RoundModel(round_id=sample.round, model_version_id=model.id, task_id=sample.task, rank=1))


@forbidden("guard_round_model_fixed")
def a_pinned_model_is_exchanged(_: SampleRows, session: Session) -> None:
    session.execute(update(RoundModel).values(rank=1))


@forbidden("guard_round_model_kept")
def an_open_round_loses_its_model(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM round_model"))


@forbidden("ck_round_model_rank")
def a_model_is_pinned_below_the_first_rank(sample: SampleRows, session: Session) -> None:
    draft = _draft(sample, session)
    session.add(RoundModel(round_id=draft.id, model_version_id=sample.model, task_id=sample.task, rank=-1))


@forbidden("uq_round_model_round_id_rank")
def two_models_share_a_rank(sample: SampleRows, session: Session) -> None:
    draft = _draft(sample, session, 1)
    other = session.query(ModelVersion.id).filter_by(name="m1").scalar()
    for model in (sample.model, other):
        session.add(RoundModel(round_id=draft.id, model_version_id=model, task_id=sample.task, rank=0))


@forbidden("guard_context_fixed")
def a_context_is_rewritten(_: SampleRows, session: Session) -> None:
    session.execute(update(Context).values(fields={"prompt": "It snowed."}))


@forbidden("guard_example_added")
def an_example_is_added_to_a_draft(sample: SampleRows, session: Session) -> None:
    draft = _draft(sample, session)
    session.add(RoundModel(round_id=draft.id, model_version_id=sample.model, task_id=sample.task, rank=0))
    session.flush()
    session.add(sample.new_example(round_id=draft.id))


@forbidden("guard_example_added")
def an_example_is_added_to_a_closed_round(sample: SampleRows, session: Session) -> None:
    _close(sample, session)
    session.add(sample.new_example())


@forbidden("guard_example_fixed")
def a_verdict_is_changed(_: SampleRows, session: Session) -> None:
    session.execute(update(Example).values(verdict={"label": "positive"}))


@forbidden("guard_example_fixed")
def a_fooled_model_becomes_an_unfooled_one(_: SampleRows, session: Session) -> None:
    session.execute(update(Example).values(fooled=False))


@forbidden("guard_example_time")
def a_confirmed_example_loses_time(_: SampleRows, session: Session) -> None:
    session.execute(update(Example).values(active_ms=0))


@forbidden("guard_example_time")
def an_unconfirmed_example_gains_time(sample: SampleRows, session: Session) -> None:
    more = sample.new_example(active_ms=10, status=ExampleStatus.UNCONFIRMED)
    session.add(more)
    session.flush()
    more.active_ms = 11


@forbidden("guard_example_decided")
def an_example_of_a_closed_round_is_decided_again(sample: SampleRows, session: Session) -> None:
    _close(sample, session)
    session.execute(update(Example).values(status=ExampleStatus.WITHDRAWN, decided_at=NOON))


@forbidden("guard_example_split")
def an_example_changes_sides_after_the_freeze(sample: SampleRows, session: Session) -> None:
    _close(sample, session, **FROZEN)
    session.execute(update(Example).values(split=Split.TRAIN))


@forbidden("guard_example_duplicate")
def an_example_of_a_closed_round_becomes_a_duplicate(sample: SampleRows, session: Session) -> None:
    _close(sample, session)
    session.execute(update(Example).values(duplicate=Duplicate.EXACT, duplicate_of="seed:1"))


@forbidden("guard_example_kept")
def an_example_is_removed(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM example"))


@forbidden("guard_attempt_fixed")
def an_attempt_is_changed(_: SampleRows, session: Session) -> None:
    session.execute(update(Attempt).values(fooled=False))


@forbidden("guard_attempt_linked")
def an_attempt_gets_another_worker(sample: SampleRows, session: Session) -> None:
    session.execute(update(Attempt).values(worker_id=sample.voter))


@forbidden("guard_attempt_frozen")
def an_attempt_gets_an_example_after_the_freeze(sample: SampleRows, session: Session) -> None:
    _close(sample, session, **FROZEN)
    session.execute(update(Attempt).values(example_id=None))


@forbidden("guard_attempt_kept")
def an_attempt_is_removed(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM attempt"))


@forbidden("guard_vote_added")
def a_vote_is_added_to_a_closed_round(sample: SampleRows, session: Session) -> None:
    _close(sample, session)
    session.add(sample.new_vote())


@forbidden("guard_gold_example_added")
def gold_is_taken_from_a_closed_round(sample: SampleRows, session: Session) -> None:
    _close(sample, session)
    session.add(GoldExample(example_id=sample.example, task_id=sample.task, round_id=sample.round, created_at=NOON))


@forbidden("guard_vote_fixed")
def a_vote_is_changed(_: SampleRows, session: Session) -> None:
    session.execute(update(Vote).values(label="negative"))


@forbidden("guard_vote_kept")
def a_vote_is_removed(_: SampleRows, session: Session) -> None:
    session.execute(text("DELETE FROM vote"))


@pytest.mark.parametrize(("rule", "deed"), forbidden.cases)
def test_the_database_refuses_the_change(full_sample: SampleRows, rule: str, deed: Deed) -> None:
    check_refused(full_sample, rule, deed)


def test_every_guard_has_a_change_that_it_refuses() -> None:
    shown = {rule for rule, _ in (*forbidden.deeds, *wrong_links.deeds, *wrong_money.deeds)}
    assert {trigger.name for trigger in TRIGGERS if trigger.name.startswith("guard_")} <= shown
