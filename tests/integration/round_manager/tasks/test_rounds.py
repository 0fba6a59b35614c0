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
from tests.campaign import OWNER, Campaign, start_campaign
from tests.campaign.base import manifest_for
from tests.fakes.clock import NOON


def test_a_round_opens_against_its_models_in_their_order(store: Store) -> None:
    campaign = start_campaign(store, "nli", models=("b", "a", "c"), label_studio=True)
    with store.read() as session:
        live = live_round(session, campaign.task.id)
        assert live is not None
        assert live.id == campaign.round_id
        assert pinned_versions(session, live) == campaign.versions
        (entry,) = session.scalars(select(AuditEntry))
    assert (live.status, live.opened_at, live.number) == (RoundStatus.OPEN, NOON, 1)
    assert live.closes_at == NOON + timedelta(days=campaign.spec.rounds.days)
    assert (entry.actor, entry.action, entry.reason) == (OWNER, "opened", "a test")
    assert entry.after == {"status": "open", "versions": list(campaign.versions)}


def test_opening_again_with_the_same_models_changes_nothing(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        versions = find_versions(session, campaign.task, campaign.versions)
        later = NOON + timedelta(hours=1)
        again = open_round(session, campaign.task, versions, now=later, actor="somebody", reason="")
        assert (again.id, again.opened_at) == (campaign.round_id, NOON)
        assert len(session.scalars(select(AuditEntry)).all()) == 1


@pytest.mark.any_database
def test_a_round_that_is_open_is_not_opened_against_other_models(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        other = register_version(session, campaign.task, manifest_for(campaign.spec, "other"), "models/other", now=NOON)
        with pytest.raises(RoundAlreadyOpen):
            open_round(session, campaign.task, [other], now=NOON, actor="owner", reason="")


@pytest.mark.any_database
def test_a_round_needs_models_of_its_own_task(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        nli = create_task(session, find_pack("nli"), now=NOON)
        foreign = find_versions(session, campaign.task, campaign.versions)
        for versions in ([], foreign):
            with pytest.raises(RoundError):
                open_round(session, nli, versions, now=NOON, actor="owner", reason="")
        assert live_round(session, nli.id) is None


@pytest.mark.any_database
def test_the_next_round_is_drafted_when_the_last_one_is_closed(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        closing = session.get_one(Round, campaign.round_id)
        closing.status, closing.validating_at = RoundStatus.VALIDATING, NOON
        session.flush()
        closing.status, closing.closed_at = RoundStatus.CLOSED, NOON
        session.flush()
        versions = find_versions(session, campaign.task, campaign.versions)
        opened = open_round(session, campaign.task, versions, now=NOON, actor="owner", reason="")
        assert (opened.number, opened.status) == (2, RoundStatus.OPEN)
        assert find_round(session, campaign.task, 1).status is RoundStatus.CLOSED
        with pytest.raises(RoundNotFound):
            find_round(session, campaign.task, 3)


@pytest.mark.any_database
def test_a_new_round_has_collected_nothing(campaign: Campaign) -> None:
    with campaign.store.read() as session:
        found = collected(session, campaign.round)
    assert (found.by_status, found.examples, found.fooled, found.attempts) == ({}, 0, 0, 0)


@pytest.mark.any_database
def test_attempts_of_a_page_count_once_it_is_confirmed(campaign: Campaign) -> None:
    work = campaign.open_page("W1", hit=campaign.add_paid_hit())
    for text in ("A warm slice", "A soft slice", "A cold slice"):
        campaign.ask_target(work, text)
    campaign.submit_example(work, "A cold slice")
    campaign.finish_page(work)
    with campaign.store.read() as session:
        assert collected(session, campaign.round).attempts == 0
    campaign.confirm(work)
    with campaign.store.read() as session:
        assert collected(session, campaign.round).attempts == 3


def test_a_version_is_registered_once_with_its_parent(campaign: Campaign) -> None:
    child = manifest_for(campaign.spec, "child", parent=campaign.versions[0])
    with campaign.store.write() as session:
        first = register_version(session, campaign.task, child, "models/child", now=NOON)
        again = register_version(session, campaign.task, child, "elsewhere", now=NOON)
        assert first is again
        parent = session.get_one(ModelVersion, first.parent_id)
        assert (parent.name, first.uri, first.metrics) == (campaign.versions[0], "models/child", {"accuracy": 81.5})


@pytest.mark.any_database
def test_a_version_whose_card_was_written_at_another_time_is_the_same(campaign: Campaign) -> None:
    manifest = manifest_for(campaign.spec, "first")
    card = manifest.files["README.md"].model_copy(update={"sha256": "3" * 64})
    rewritten = manifest.model_copy(update={"files": {**manifest.files, "README.md": card}})
    with campaign.store.write() as session:
        assert register_version(session, campaign.task, rewritten, "models/x", now=NOON).name == manifest.version


@pytest.mark.any_database
def test_a_version_with_other_files_under_the_same_name_is_refused(campaign: Campaign) -> None:
    manifest = manifest_for(campaign.spec, "first")
    weights = manifest.files["model.safetensors"].model_copy(update={"sha256": "3" * 64})
    changed = manifest.model_copy(update={"files": {**manifest.files, "model.safetensors": weights}})
    with campaign.store.write() as session, pytest.raises(ModelVersionError):
        register_version(session, campaign.task, changed, "models/x", now=NOON)


@pytest.mark.any_database
def test_a_version_of_another_task_or_with_other_labels_does_not_fit(campaign: Campaign) -> None:
    nli = manifest_for(find_pack("nli").spec)
    with campaign.store.write() as session, pytest.raises(ModelVersionError):
        register_version(session, campaign.task, nli, "models/x", now=NOON)
    with pytest.raises(ModelVersionError):
        check_fits(campaign.spec, nli)
    own = manifest_for(campaign.spec)
    check_fits(campaign.spec, own)
    with pytest.raises(ModelVersionError):
        check_fits(campaign.spec, own.model_copy(update={"labels": ("yes", "no")}))


@pytest.mark.any_database
def test_an_unregistered_version_is_an_error(campaign: Campaign) -> None:
    with campaign.store.read() as session, pytest.raises(ModelVersionError):
        find_versions(session, campaign.task, ["m000000000000"])


@pytest.mark.any_database
def test_a_returning_worker_is_the_same_row(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        first = ensure_worker(session, "mturk", "A1", now=NOON)
        again = ensure_worker(session, "mturk", "A1", now=NOON + timedelta(days=1))
        other = ensure_worker(session, "label_studio", "A1", now=NOON)
        assert first is again
        assert first.first_seen_at == NOON
        assert other.id != first.id
