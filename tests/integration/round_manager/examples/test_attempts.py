from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, select

from ml_backend.verdict import ModelOutput
from round_manager.database.store import Store
from round_manager.errors import DamagedStoreError
from round_manager.examples.attempts import IntakeResult, store_attempts
from round_manager.examples.submissions import submit
from round_manager.learning.versions import register_version
from round_manager.models import Attempt, LabelStudioAnnotation, LabelStudioTask, Origin, Round
from round_manager.tasks.rounds import collected
from round_manager.tasks.tasks import create_task
from templates import find_pack
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.world import digest
from tests.integration.round_manager.stage import MINUTE, Stage, manifest_for, new_id


def stored(stage: Stage) -> list[Attempt]:
    with stage.store.read() as session:
        return list(session.scalars(select(Attempt).order_by(Attempt.id)))


def take(stage: Stage, *tries: Any) -> IntakeResult:
    with stage.store.write() as session:
        return store_attempts(session, tries, now=NOON + 5 * MINUTE)


def test_an_attempt_is_stored_with_all_its_details(stage: Stage) -> None:
    tried = stage.tried()
    assert take(stage, tried) == IntakeResult(1)
    (kept,) = stored(stage)
    assert (kept.public_id, kept.fields, kept.label) == (tried.verdict.id, tried.fields, tried.verdict.target)
    assert (kept.fooled, kept.confidence, kept.latency_us) == (True, 0.75, 3_700)
    assert (kept.label_studio_task_id, kept.context_id) == (stage.ls_task, stage.context.id)
    assert (kept.asked_at, kept.round_id, kept.worker_id) == (NOON + MINUTE, stage.round.id, None)
    with stage.store.read() as session:
        assert collected(session, stage.round).attempts == 1


def test_an_attempt_that_arrives_twice_is_stored_once(stage: Stage) -> None:
    tried, other = stage.tried(), stage.tried()
    assert take(stage, tried, tried).stored == 1
    assert take(stage, tried, other).stored == 1
    assert [one.public_id for one in stored(stage)] == [tried.verdict.id, other.verdict.id]


def test_a_question_without_a_target_is_an_attempt_too(qa: Stage) -> None:
    take(qa, qa.tried(), qa.tried(target="the mill", fooled=False))
    question, judged = stored(qa)
    assert (question.answer, question.fooled) == (None, None)
    assert (judged.answer, judged.fooled) == ({"text": "the mill"}, False)


@pytest.mark.parametrize("number", [None, 1])
def test_an_attempt_belongs_to_the_round_it_names_or_to_the_live_one(stage: Stage, number: int | None) -> None:
    take(stage, stage.tried(round=number))
    assert stored(stage)[0].round_id == stage.round.id


@pytest.mark.parametrize("number", [2, 99, 10**30])
def test_an_attempt_for_a_missing_round_belongs_to_no_round(stage: Stage, number: int) -> None:
    take(stage, stage.tried(round=number))
    assert stored(stage)[0].round_id is None


@pytest.mark.parametrize(
    "place",
    [
        {"label_studio_project": None},
        {"label_studio_project": 8},
        {"label_studio_task": 1},
        {"label_studio_task": -1},
        {"label_studio_task": 10**30},
    ],
)
def test_an_attempt_for_an_unknown_task_is_stored(stage: Stage, place: dict[str, Any]) -> None:
    assert take(stage, stage.tried(**place)).stored == 1
    assert stored(stage)[0].label_studio_task_id is None


def wrong_tries(stage: Stage) -> dict[str, Any]:
    said = ModelOutput(stage.versions[0], "x", float("nan"), {}, True)
    return {
        "no such task": stage.tried(task="nothing"),
        "a task name that a database cannot store": stage.tried(task="\x00"),
        "a task with half of a character": stage.tried(task="\ud83d"),
        "a task longer than any": stage.tried(task="x" * 100),
        "a version name that a database cannot store": stage.tried(outputs=(replace(said, version="\x00"),)),
        "a version longer than any": stage.tried(outputs=(replace(said, version="x" * 200),)),
        "no such source": stage.tried(source="elsewhere"),
        "a negative latency": stage.tried(latency_us=-1),
        "a latency beyond all numbers": stage.tried(latency_us=10**30),
        "a confidence that is not a number": stage.tried(outputs=(said,)),
        "a confidence above one": stage.tried(outputs=(replace(said, confidence=1.5),)),
        "half of a character": stage.tried(stage.fields(text="half \ud83d")),
        "a NUL": stage.tried(stage.fields(text="\x00")),
        "fooled without a target": stage.tried(target=None),
        "a target longer than any label": stage.tried(target="x" * 41),
        "a time before all times": stage.tried(at=datetime(1, 1, 1, tzinfo=UTC)),
    }


def test_an_invalid_attempt_does_not_block_the_others(stage: Stage) -> None:
    wrong = wrong_tries(stage)
    right = [stage.tried() for _ in wrong]
    mixed = [one for pair in zip(right, wrong.values(), strict=True) for one in pair]
    intake = take(stage, *mixed)
    assert intake.stored == len(right)
    names = {one.verdict.id: name for name, one in wrong.items()}
    assert {names[one] for one in intake.refused} == set(wrong)
    assert {one.public_id for one in stored(stage)} == {one.verdict.id for one in right}
    assert not any("half" in why and "\ud83d" in why for why in intake.refused.values())


def test_an_attempt_that_a_corrupt_database_rejects_can_be_retried(stage: Stage) -> None:
    def spoiled(*_: Any) -> None:
        raise DamagedStoreError("outfox.db is damaged")

    def take_it() -> None:
        with stage.store.write() as session:
            event.listen(session, "before_flush", spoiled)
            store_attempts(session, [stage.tried()], now=NOON + 5 * MINUTE)

    # A refused attempt would be discarded by its sender.
    with pytest.raises(DamagedStoreError):
        take_it()


def test_an_unregistered_version_is_distinguished(stage: Stage) -> None:
    said = replace(stage.tried().verdict.outputs[0], version="m000000000000")
    intake = take(stage, stage.tried(outputs=(said,)), stage.tried())
    assert intake.unknown == {("sentiment", "m000000000000")}
    assert (intake.stored, len(intake.refused)) == (1, 1)


def test_an_attempt_from_a_fast_clock_is_not_dated_in_the_future(stage: Stage) -> None:
    take(stage, stage.tried(at=NOON + timedelta(days=1)))
    assert stored(stage)[0].asked_at == NOON + 5 * MINUTE


def test_an_attempt_before_the_first_round_belongs_to_no_round(stage: Stage) -> None:
    with stage.store.write() as session:
        nli = create_task(session, find_pack("nli"), now=NOON)
        version = register_version(session, nli, manifest_for(find_pack("nli").spec), "models/nli", now=NOON)
    said = replace(stage.tried().verdict.outputs[0], version=version.name)
    assert (
        take(stage, stage.tried(task="nli", outputs=(said,), round=1), stage.tried(task="nli", outputs=(said,))).stored
        == 2
    )
    assert [one.round_id for one in stored(stage)] == [None, None]


def test_attempts_that_arrive_after_their_example_are_linked_to_its_author(stage: Stage) -> None:
    given = stage.submission()
    with stage.store.write() as session:
        example = submit(session, session.get_one(Round, stage.round.id), given, stage.verdict(given), now=NOON)
        place = session.get_one(LabelStudioTask, stage.ls_task)
        session.add(
            LabelStudioAnnotation(
                link_id=place.link_id,
                label_studio_task_id=place.id,
                origin=Origin.THEIRS,
                external_id=1,
                result_sha256=digest("result"),
                changed_at=NOON,
                example_id=example.id,
            )
        )
    late = given.submitted_at + timedelta(minutes=1)
    tries = [stage.tried(id=new_id()), stage.tried(stage.fields(text="A first idea.")), stage.tried(at=late)]
    with stage.store.write() as session:
        store_attempts(session, tries, now=NOON + timedelta(hours=1))
    same, other, after = stored(stage)
    assert (same.worker_id, same.example_id) == (stage.author, example.id)
    assert (other.worker_id, other.example_id) == (stage.author, None)
    assert (after.worker_id, after.example_id) == (None, None)


def test_an_empty_batch_is_accepted(store: Store) -> None:
    with store.write() as session:
        assert store_attempts(session, [], now=NOON) == IntakeResult()
