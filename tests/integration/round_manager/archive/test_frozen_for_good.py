"""Changes after or during a freeze never change the archive."""

import dataclasses
import threading
from pathlib import Path

from sqlalchemy import select

from round_manager.archive.storage import open_archives
from round_manager.database.store import open_store
from round_manager.examples.attempts import store_attempts
from round_manager.examples.submissions import submit
from round_manager.models import (
    Attempt,
    Example,
    LabelStudioAnnotation,
    LabelStudioTask,
    ModelVersion,
    Origin,
    Round,
    Task,
)
from round_manager.services.archives import Frozen
from round_manager.tasks.rounds import open_round
from tests.campaign import DAY, Campaign, start_closed
from tests.fakes.clock import NOON
from tests.integration.databases import Databases

LATER = NOON + 100 * DAY


def next_round(campaign: Campaign) -> Campaign:
    with campaign.store.write() as session:
        versions = list(session.scalars(select(ModelVersion)))
        task = session.get_one(Task, campaign.task.id)
        opened = open_round(session, task, versions, now=LATER, actor="ada", reason="a test")
    return dataclasses.replace(campaign, round_id=opened.id)


def handed_in(campaign: Campaign) -> Example:
    given = campaign.submission(fields=campaign.fields(text="A text that is new in round two."), submitted_at=LATER)
    with campaign.store.write() as session:
        return submit(session, session.get_one(Round, campaign.round_id), given, campaign.verdict(given), now=LATER)


def test_an_attempt_after_the_freeze_changes_nothing(campaign: Campaign, tmp_path: Path) -> None:
    first = campaign.freeze(open_archives(str(tmp_path / "one")))
    with campaign.store.write() as session:
        campaign.add_late_attempt(session)
    again = campaign.freeze(open_archives(str(tmp_path / "two")))
    assert (again.sha256, again.rows["attempts"]) == (first.sha256, 40)


def test_an_unsubmitted_attempt_stays_without_an_author_when_the_next_round_uses_its_task(
    campaign: Campaign, tmp_path: Path
) -> None:
    with campaign.store.write() as session:
        left = campaign.add_late_attempt(session, label_studio_task_id=campaign.ls_task)
    first = campaign.freeze(open_archives(str(tmp_path)))
    assert handed_in(next_round(campaign)).tries == 1
    assert campaign.freeze(open_archives(str(tmp_path))).sha256 == first.sha256
    with campaign.store.read() as session:
        assert session.get_one(Attempt, left.id).worker_id is None


def annotated(campaign: Campaign) -> None:
    """The round's first example was written in Label Studio."""
    with campaign.store.write() as session:
        place = session.get_one(LabelStudioTask, campaign.ls_task)
        own = LabelStudioAnnotation(
            link_id=place.link_id,
            label_studio_task_id=place.id,
            origin=Origin.THEIRS,
            external_id=1,
            result_sha256="0" * 64,
            changed_at=NOON,
            example_id=1,
        )
        session.add(own)


def test_a_late_attempt_of_a_frozen_round_is_stored_without_an_author(campaign: Campaign, tmp_path: Path) -> None:
    annotated(campaign)
    campaign.freeze(open_archives(str(tmp_path)))
    late = campaign.attempt_record(round=1, at=NOON)
    with campaign.store.write() as session:
        assert store_attempts(session, [late], now=LATER).stored == 1
    with campaign.store.read() as session:
        stored = session.scalars(select(Attempt).where(Attempt.public_id == late.verdict.id)).one()
        assert (stored.round_id, stored.worker_id) == (campaign.round_id, None)


def test_a_late_attempt_of_one_round_is_not_linked_to_the_next_rounds_example(campaign: Campaign) -> None:
    following = next_round(campaign)
    handed_in(following)
    annotated(campaign)
    late = following.attempt_record(round=2, at=NOON)
    with campaign.store.write() as session:
        store_attempts(session, [late], now=LATER)
    with campaign.store.read() as session:
        assert session.scalars(select(Attempt).where(Attempt.public_id == late.verdict.id)).one().worker_id is None


def test_an_attempt_that_is_being_stored_while_the_round_is_frozen_is_in_every_freeze_or_in_none(
    postgresql_databases: Databases, tmp_path: Path
) -> None:
    url = postgresql_databases.migrated()
    with open_store(url) as store, open_store(url) as sink:
        campaign = start_closed(store)
        frozen: list[Frozen] = []
        freezing = threading.Thread(target=lambda: frozen.append(campaign.freeze(open_archives(str(tmp_path)))))
        with sink.write() as slow:
            campaign.add_late_attempt(slow, 5_000)
            with store.write() as quick:
                campaign.add_late_attempt(quick, 5_001)
            freezing.start()
            # It waits for the slow one, or has ended without it.
            freezing.join(2)
        freezing.join(60)
        assert campaign.freeze(open_archives(str(tmp_path))).sha256 == frozen[0].sha256
