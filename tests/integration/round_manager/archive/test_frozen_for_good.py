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
from tests.fakes.clock import NOON
from tests.integration.databases import Databases
from tests.integration.round_manager.archive.played import DAY, Played, late_attempt, play
from tests.integration.round_manager.stage import Stage

LATER = NOON + 100 * DAY


def next_round(played: Played) -> Stage:
    with played.store.write() as session:
        versions = list(session.scalars(select(ModelVersion)))
        task = session.get_one(Task, played.stage.task.id)
        opened = open_round(session, task, versions, now=LATER, actor="ada", reason="a test")
    return dataclasses.replace(played.stage, round=opened)


def handed_in(stage: Stage) -> Example:
    given = stage.submission(fields=stage.fields(text="A text that is new in round two."), submitted_at=LATER)
    with stage.store.write() as session:
        return submit(session, session.get_one(Round, stage.round.id), given, stage.verdict(given), now=LATER)


def test_an_attempt_after_the_freeze_changes_nothing(played: Played, tmp_path: Path) -> None:
    first = played.freeze(open_archives(str(tmp_path / "one")))
    with played.store.write() as session:
        late_attempt(session, played)
    again = played.freeze(open_archives(str(tmp_path / "two")))
    assert (again.sha256, again.rows["attempts"]) == (first.sha256, 40)


def test_an_unsubmitted_attempt_stays_without_an_author_when_the_next_round_uses_its_task(
    played: Played, tmp_path: Path
) -> None:
    with played.store.write() as session:
        left = late_attempt(session, played, label_studio_task_id=played.stage.ls_task)
    first = played.freeze(open_archives(str(tmp_path)))
    assert handed_in(next_round(played)).tries == 1
    assert played.freeze(open_archives(str(tmp_path))).sha256 == first.sha256
    with played.store.read() as session:
        assert session.get_one(Attempt, left.id).worker_id is None


def annotated(played: Played) -> None:
    """The round's first example was written in Label Studio."""
    with played.store.write() as session:
        place = session.get_one(LabelStudioTask, played.stage.ls_task)
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


def test_a_late_attempt_of_a_frozen_round_is_stored_without_an_author(played: Played, tmp_path: Path) -> None:
    annotated(played)
    played.freeze(open_archives(str(tmp_path)))
    late = played.stage.tried(round=1, at=NOON)
    with played.store.write() as session:
        assert store_attempts(session, [late], now=LATER).stored == 1
    with played.store.read() as session:
        stored = session.scalars(select(Attempt).where(Attempt.public_id == late.verdict.id)).one()
        assert (stored.round_id, stored.worker_id) == (played.round_id, None)


def test_a_late_attempt_of_one_round_is_not_linked_to_the_next_rounds_example(played: Played) -> None:
    stage = next_round(played)
    handed_in(stage)
    annotated(played)
    late = stage.tried(round=2, at=NOON)
    with played.store.write() as session:
        store_attempts(session, [late], now=LATER)
    with played.store.read() as session:
        assert session.scalars(select(Attempt).where(Attempt.public_id == late.verdict.id)).one().worker_id is None


def test_an_attempt_that_is_being_stored_while_the_round_is_frozen_is_in_every_freeze_or_in_none(
    postgresql_databases: Databases, tmp_path: Path
) -> None:
    url = postgresql_databases.migrated()
    with open_store(url) as store, open_store(url) as sink:
        played = play(store)
        frozen: list[Frozen] = []
        freezing = threading.Thread(target=lambda: frozen.append(played.freeze(open_archives(str(tmp_path)))))
        with sink.write() as slow:
            late_attempt(slow, played, 5_000)
            with store.write() as quick:
                late_attempt(quick, played, 5_001)
            freezing.start()
            # It waits for the slow one, or has ended without it.
            freezing.join(2)
        freezing.join(60)
        assert played.freeze(open_archives(str(tmp_path))).sha256 == frozen[0].sha256
