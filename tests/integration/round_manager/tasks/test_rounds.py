from datetime import timedelta

import pytest
from sqlalchemy import select

from round_manager.database.store import Store
from round_manager.errors import ModelVersionError, RoundAlreadyOpen, RoundError, RoundNotFound
from round_manager.learning.versions import check_fits, find_versions, register_version
from round_manager.models import AuditEntry, ModelVersion, Round, RoundStatus, ensure_worker
from round_manager.tasks.rounds import collected, find_round, live_round, open_round, pinned_versions
from round_manager.tasks.tasks import create_task
from templates import find_pack
from tests.fakes.clock import NOON
from tests.integration.round_manager.stage import Stage, manifest_for, set_stage


def test_a_round_opens_against_its_models_in_their_order(store: Store) -> None:
    stage = set_stage(store, "nli", "b", "a", "c")
    with store.read() as session:
        live = live_round(session, stage.task.id)
        assert live is not None
        assert live.id == stage.round.id
        assert pinned_versions(session, live) == stage.versions
        (entry,) = session.scalars(select(AuditEntry))
    assert (live.status, live.opened_at, live.number) == (RoundStatus.OPEN, NOON, 1)
    assert live.closes_at == NOON + timedelta(days=stage.spec.rounds.days)
    assert (entry.actor, entry.action, entry.reason) == ("owner@here", "opened", "a test")
    assert entry.after == {"status": "open", "versions": list(stage.versions)}


def test_opening_again_with_the_same_models_changes_nothing(stage: Stage) -> None:
    with stage.store.write() as session:
        versions = find_versions(session, stage.task, stage.versions)
        later = NOON + timedelta(hours=1)
        again = open_round(session, stage.task, versions, now=later, actor="somebody", reason="")
        assert (again.id, again.opened_at) == (stage.round.id, NOON)
        assert len(session.scalars(select(AuditEntry)).all()) == 1


def test_a_round_that_is_open_is_not_opened_against_other_models(stage: Stage) -> None:
    with stage.store.write() as session:
        other = register_version(session, stage.task, manifest_for(stage.spec, "other"), "models/other", now=NOON)
        with pytest.raises(RoundAlreadyOpen):
            open_round(session, stage.task, [other], now=NOON, actor="owner", reason="")


def test_a_round_needs_models_of_its_own_task(stage: Stage) -> None:
    with stage.store.write() as session:
        nli = create_task(session, find_pack("nli"), now=NOON)
        foreign = find_versions(session, stage.task, stage.versions)
        for versions in ([], foreign):
            with pytest.raises(RoundError):
                open_round(session, nli, versions, now=NOON, actor="owner", reason="")
        assert live_round(session, nli.id) is None


def test_the_next_round_is_drafted_when_the_last_one_is_closed(stage: Stage) -> None:
    with stage.store.write() as session:
        closing = session.get_one(Round, stage.round.id)
        closing.status, closing.validating_at = RoundStatus.VALIDATING, NOON
        session.flush()
        closing.status, closing.closed_at = RoundStatus.CLOSED, NOON
        session.flush()
        versions = find_versions(session, stage.task, stage.versions)
        opened = open_round(session, stage.task, versions, now=NOON, actor="owner", reason="")
        assert (opened.number, opened.status) == (2, RoundStatus.OPEN)
        assert find_round(session, stage.task, 1).status is RoundStatus.CLOSED
        with pytest.raises(RoundNotFound):
            find_round(session, stage.task, 3)


def test_a_new_round_has_collected_nothing(stage: Stage) -> None:
    with stage.store.read() as session:
        found = collected(session, stage.round)
    assert (found.by_status, found.examples, found.fooled, found.attempts) == ({}, 0, 0, 0)


def test_a_version_is_registered_once_with_its_parent(stage: Stage) -> None:
    child = manifest_for(stage.spec, "child", parent=stage.versions[0])
    with stage.store.write() as session:
        first = register_version(session, stage.task, child, "models/child", now=NOON)
        again = register_version(session, stage.task, child, "elsewhere", now=NOON)
        assert first is again
        parent = session.get_one(ModelVersion, first.parent_id)
        assert (parent.name, first.uri, first.metrics) == (stage.versions[0], "models/child", {"accuracy": 81.5})


def test_a_version_whose_card_was_written_at_another_time_is_the_same(stage: Stage) -> None:
    manifest = manifest_for(stage.spec, "first")
    card = manifest.files["README.md"].model_copy(update={"sha256": "3" * 64})
    rewritten = manifest.model_copy(update={"files": {**manifest.files, "README.md": card}})
    with stage.store.write() as session:
        assert register_version(session, stage.task, rewritten, "models/x", now=NOON).name == manifest.version


def test_a_version_with_other_files_under_the_same_name_is_refused(stage: Stage) -> None:
    manifest = manifest_for(stage.spec, "first")
    weights = manifest.files["model.safetensors"].model_copy(update={"sha256": "3" * 64})
    changed = manifest.model_copy(update={"files": {**manifest.files, "model.safetensors": weights}})
    with stage.store.write() as session, pytest.raises(ModelVersionError):
        register_version(session, stage.task, changed, "models/x", now=NOON)


def test_a_version_of_another_task_or_with_other_labels_does_not_fit(stage: Stage) -> None:
    nli = manifest_for(find_pack("nli").spec)
    with stage.store.write() as session, pytest.raises(ModelVersionError):
        register_version(session, stage.task, nli, "models/x", now=NOON)
    with pytest.raises(ModelVersionError):
        check_fits(stage.spec, nli)
    own = manifest_for(stage.spec)
    check_fits(stage.spec, own)
    with pytest.raises(ModelVersionError):
        check_fits(stage.spec, own.model_copy(update={"labels": ("yes", "no")}))


def test_an_unregistered_version_is_an_error(stage: Stage) -> None:
    with stage.store.read() as session, pytest.raises(ModelVersionError):
        find_versions(session, stage.task, ["m000000000000"])


def test_a_returning_worker_is_the_same_row(stage: Stage) -> None:
    with stage.store.write() as session:
        first = ensure_worker(session, "mturk", "A1", now=NOON)
        again = ensure_worker(session, "mturk", "A1", now=NOON + timedelta(days=1))
        other = ensure_worker(session, "label_studio", "A1", now=NOON)
        assert first is again
        assert first.first_seen_at == NOON
        assert other.id != first.id
