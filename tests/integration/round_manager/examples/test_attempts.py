from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

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
from tests.campaign import MINUTE, Campaign
from tests.campaign.base import manifest_for
from tests.fakes.clock import NOON
from tests.integration.round_manager.database.sample_rows import digest


def stored(campaign: Campaign) -> list[Attempt]:
    with campaign.store.read() as session:
        return list(session.scalars(select(Attempt).order_by(Attempt.id)))


def take(campaign: Campaign, *tries: Any) -> IntakeResult:
    with campaign.store.write() as session:
        return store_attempts(session, tries, now=NOON + 5 * MINUTE)


@pytest.mark.any_database
def test_an_attempt_is_stored_with_all_its_details(campaign: Campaign) -> None:
    tried = campaign.attempt_record()
    assert take(campaign, tried) == IntakeResult(1)
    (kept,) = stored(campaign)
    assert (kept.public_id, kept.fields, kept.label) == (tried.verdict.id, tried.fields, tried.verdict.target)
    assert (kept.fooled, kept.confidence, kept.latency_us) == (True, 0.75, 3_700)
    assert (kept.label_studio_task_id, kept.context_id) == (campaign.ls_task, campaign.context.id)
    assert (kept.asked_at, kept.round_id, kept.worker_id) == (NOON + MINUTE, campaign.round_id, None)
    with campaign.store.read() as session:
        assert collected(session, campaign.round).attempts == 1


@pytest.mark.any_database
def test_an_attempt_that_arrives_twice_is_stored_once(campaign: Campaign) -> None:
    tried, other = campaign.attempt_record(), campaign.attempt_record()
    assert take(campaign, tried, tried).stored == 1
    assert take(campaign, tried, other).stored == 1
    assert [one.public_id for one in stored(campaign)] == [tried.verdict.id, other.verdict.id]


def test_a_question_without_a_target_is_an_attempt_too(qa_campaign: Campaign) -> None:
    take(qa_campaign, qa_campaign.attempt_record(), qa_campaign.attempt_record(target="the mill", fooled=False))
    question, judged = stored(qa_campaign)
    assert (question.answer, question.fooled) == (None, None)
    assert (judged.answer, judged.fooled) == ({"text": "the mill"}, False)


@pytest.mark.any_database
@pytest.mark.parametrize("number", [None, 1])
def test_an_attempt_belongs_to_the_round_it_names_or_to_the_live_one(campaign: Campaign, number: int | None) -> None:
    take(campaign, campaign.attempt_record(round=number))
    assert stored(campaign)[0].round_id == campaign.round_id


@pytest.mark.any_database
@pytest.mark.parametrize("number", [2, 99, 10**30])
def test_an_attempt_for_a_missing_round_belongs_to_no_round(campaign: Campaign, number: int) -> None:
    take(campaign, campaign.attempt_record(round=number))
    assert stored(campaign)[0].round_id is None


@pytest.mark.any_database
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
def test_an_attempt_for_an_unknown_task_is_stored(campaign: Campaign, place: dict[str, Any]) -> None:
    assert take(campaign, campaign.attempt_record(**place)).stored == 1
    assert stored(campaign)[0].label_studio_task_id is None


def wrong_tries(campaign: Campaign) -> dict[str, Any]:
    said = ModelOutput(campaign.versions[0], "x", float("nan"), {}, True)
    return {
        "no such task": campaign.attempt_record(task="nothing"),
        "a task name that a database cannot store": campaign.attempt_record(task="\x00"),
        "a task with half of a character": campaign.attempt_record(task="\ud83d"),
        "a task longer than any": campaign.attempt_record(task="x" * 100),
        "a version name that a database cannot store": campaign.attempt_record(
            outputs=(replace(said, version="\x00"),)
        ),
        "a version longer than any": campaign.attempt_record(outputs=(replace(said, version="x" * 200),)),
        "no such source": campaign.attempt_record(source="elsewhere"),
        "a negative latency": campaign.attempt_record(latency_us=-1),
        "a latency beyond all numbers": campaign.attempt_record(latency_us=10**30),
        "a confidence that is not a number": campaign.attempt_record(outputs=(said,)),
        "a confidence above one": campaign.attempt_record(outputs=(replace(said, confidence=1.5),)),
        "half of a character": campaign.attempt_record(campaign.fields(text="half \ud83d")),
        "a NUL": campaign.attempt_record(campaign.fields(text="\x00")),
        "fooled without a target": campaign.attempt_record(target=None),
        "a target longer than any label": campaign.attempt_record(target="x" * 41),
        "a time before all times": campaign.attempt_record(at=datetime(1, 1, 1, tzinfo=UTC)),
    }


def test_an_invalid_attempt_does_not_block_the_others(campaign: Campaign) -> None:
    wrong = wrong_tries(campaign)
    right = [campaign.attempt_record() for _ in wrong]
    mixed = [one for pair in zip(right, wrong.values(), strict=True) for one in pair]
    intake = take(campaign, *mixed)
    assert intake.stored == len(right)
    names = {one.verdict.id: name for name, one in wrong.items()}
    assert {names[one] for one in intake.refused} == set(wrong)
    assert {one.public_id for one in stored(campaign)} == {one.verdict.id for one in right}
    assert not any("half" in why and "\ud83d" in why for why in intake.refused.values())


@pytest.mark.any_database
def test_an_attempt_that_a_corrupt_database_rejects_can_be_retried(campaign: Campaign) -> None:
    def spoiled(*_: Any) -> None:
        raise DamagedStoreError("outfox.db is damaged")

    def take_it() -> None:
        with campaign.store.write() as session:
            event.listen(session, "before_flush", spoiled)
            store_attempts(session, [campaign.attempt_record()], now=NOON + 5 * MINUTE)

    # A refused attempt would be discarded by its sender.
    with pytest.raises(DamagedStoreError):
        take_it()


@pytest.mark.any_database
def test_an_unregistered_version_is_distinguished(campaign: Campaign) -> None:
    said = replace(campaign.attempt_record().verdict.outputs[0], version="m000000000000")
    intake = take(campaign, campaign.attempt_record(outputs=(said,)), campaign.attempt_record())
    assert intake.unknown == {("sentiment", "m000000000000")}
    assert (intake.stored, len(intake.refused)) == (1, 1)


def test_an_attempt_from_a_fast_clock_is_not_dated_in_the_future(campaign: Campaign) -> None:
    take(campaign, campaign.attempt_record(at=NOON + timedelta(days=1)))
    assert stored(campaign)[0].asked_at == NOON + 5 * MINUTE


@pytest.mark.any_database
def test_an_attempt_before_the_first_round_belongs_to_no_round(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        nli = create_task(session, find_pack("nli"), now=NOON)
        version = register_version(session, nli, manifest_for(find_pack("nli").spec), "models/nli", now=NOON)
    said = replace(campaign.attempt_record().verdict.outputs[0], version=version.name)
    assert (
        take(
            campaign,
            campaign.attempt_record(task="nli", outputs=(said,), round=1),
            campaign.attempt_record(task="nli", outputs=(said,)),
        ).stored
        == 2
    )
    assert [one.round_id for one in stored(campaign)] == [None, None]


def test_attempts_that_arrive_after_their_example_are_linked_to_its_author(campaign: Campaign) -> None:
    given = campaign.submission()
    with campaign.store.write() as session:
        example = submit(session, session.get_one(Round, campaign.round_id), given, campaign.verdict(given), now=NOON)
        place = session.get_one(LabelStudioTask, campaign.ls_task)
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
    tries = [
        campaign.attempt_record(id=uuid4()),
        campaign.attempt_record(campaign.fields(text="A first idea.")),
        campaign.attempt_record(at=late),
    ]
    with campaign.store.write() as session:
        store_attempts(session, tries, now=NOON + timedelta(hours=1))
    same, other, after = stored(campaign)
    assert (same.worker_id, same.example_id) == (campaign.author, example.id)
    assert (other.worker_id, other.example_id) == (campaign.author, None)
    assert (after.worker_id, after.example_id) == (None, None)


def test_an_empty_batch_is_accepted(store: Store) -> None:
    with store.write() as session:
        assert store_attempts(session, [], now=NOON) == IntakeResult()
