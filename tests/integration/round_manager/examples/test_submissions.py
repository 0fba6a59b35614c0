from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from round_manager.database.store import Store
from round_manager.errors import StaleVerdict, SubmissionRefused
from round_manager.examples.attempts import store_attempts
from round_manager.examples.submissions import Submission, check_submission, submit
from round_manager.models import Attempt, Example, ExampleStatus, Round, RoundStatus, ensure_worker
from round_manager.tasks.rounds import collected
from tests.campaign import MINUTE, Campaign, start_campaign
from tests.conftest import PACKS
from tests.fakes.clock import NOON


def handed_in(campaign: Campaign, submission: Submission | None = None) -> Example:
    given = submission or campaign.submission()
    with campaign.store.write() as session:
        return submit(
            session, session.get_one(Round, campaign.round_id), given, campaign.verdict(given), now=NOON + MINUTE
        )


@pytest.mark.any_database
@pytest.mark.parametrize("name", PACKS)
def test_a_fooling_example_waits_for_its_first_votes(store: Store, name: str) -> None:
    campaign = start_campaign(store, name, label_studio=True)
    given = campaign.submission()
    verdict = campaign.verdict(given)
    assert verdict.fooled
    with store.write() as session:
        example = submit(session, session.get_one(Round, campaign.round_id), given, verdict, now=NOON + MINUTE)
    with store.read() as session:
        kept = session.get_one(Example, example.id)
        assert (kept.fields, kept.label, kept.answer) == (given.fields, given.label, given.answer)
        assert (kept.verdict_id, kept.fooled, kept.confidence) == (verdict.id, True, verdict.outputs[0].confidence)
        assert (kept.status, kept.votes_wanted) == (ExampleStatus.PENDING, campaign.spec.validation.first_votes)
        assert (kept.tries, kept.explanation) == (1, dict(given.explanation) or None)
        assert collected(session, campaign.round).by_status == {"pending": 1}


@pytest.mark.any_database
def test_the_policy_sets_the_initial_number_of_votes(campaign: Campaign) -> None:
    terms = campaign.spec.validation.model_copy(update={"policy": "anli", "first_votes": 5})
    spec = campaign.spec.model_copy(update={"validation": terms})
    given = campaign.submission()
    with campaign.store.read() as session:
        # As if the round had been opened on these terms; they are fixed once it is.
        round = session.get_one(Round, campaign.round_id)
    round.spec = spec.model_dump(mode="json")
    with campaign.store.write() as session:
        assert submit(session, round, given, campaign.verdict(given), now=NOON + MINUTE).votes_wanted == 2


@pytest.mark.any_database
def test_a_share_of_examples_that_did_not_fool_is_checked_too(campaign: Campaign) -> None:
    statuses = []
    for number in range(60):
        text = campaign.fields(text=f"{campaign.spec.label_names[0]} number {number}")
        example = handed_in(campaign, campaign.submission(fields=text, label=campaign.spec.label_names[0]))
        assert not example.fooled
        assert (example.votes_wanted > 0) == (example.status is ExampleStatus.PENDING)
        statuses.append(example.status)
    assert set(statuses) <= {ExampleStatus.PENDING, ExampleStatus.UNCHECKED}
    assert 1 <= statuses.count(ExampleStatus.UNCHECKED) < 60 or campaign.spec.validation.sample_non_fooling == 0


def test_several_models_judge_together_and_the_first_is_counted(store: Store) -> None:
    campaign = start_campaign(store, "nli", models=("a", "b"), label_studio=True)
    example = handed_in(campaign)
    assert [one["version"] for one in example.verdict["said"]] == list(campaign.versions)


@pytest.mark.any_database
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"label": "splendid"}, "the label is “splendid”"),
        ({"label": None}, "no label is chosen"),
        ({"answer": {"text": "x", "start": 0, "end": 1}}, "asks for a label"),
        ({"fields": {"text": ""}}, "is empty"),
        ({"fields": {"text": " \n "}}, "is empty"),
        ({"fields": {"text": "\u200b\u2060 \u00ad"}}, "is empty"),
        ({"fields": {"text": "x" * 20_001}}, "20,001 characters"),
        ({"fields": {"text": "half \ud83d"}}, "lone surrogate"),
        ({"fields": {"text": "NUL \x00"}}, "NUL"),
        ({"fields": {"text": "fine", "feedback": "You fooled it"}}, "`feedback` is not a field"),
        ({"fields": {"text": "fine", "prompt": "Not what was shown."}}, "not what context"),
        ({"explanation": {"mood": "good"}}, "`mood` is not a field"),
    ],
)
def test_an_invalid_example_is_refused_in_one_sentence(campaign: Campaign, changes: dict[str, Any], why: str) -> None:
    if "fields" in changes:
        changes = {**changes, "fields": campaign.fields(**changes["fields"])}
    if "explanation" in changes:
        changes = {**changes, "explanation": {**campaign.submission().explanation, **changes["explanation"]}}
    wrong = replace(campaign.submission(), **changes)
    with campaign.store.write() as session, pytest.raises(SubmissionRefused) as refused:
        submit(session, campaign.round, wrong, campaign.verdict(campaign.submission()), now=NOON)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.any_database
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "no answer is selected"),
        ({"text": "", "start": 0, "end": 0}, "is empty"),
        ({"text": "elsewhere", "start": 0, "end": 9}, "where it was selected"),
        ({"text": "x", "start": -1, "end": 0}, "where it was selected"),
        ({"text": "x", "start": "0", "end": 1}, "where it was selected"),
        ({"text": "x"}, "where it was selected"),
    ],
)
def test_an_answer_is_a_span_of_the_passage(qa_campaign: Campaign, answer: dict[str, Any] | None, why: str) -> None:
    with pytest.raises(SubmissionRefused, match=why):
        check_submission(qa_campaign.spec, qa_campaign.submission(answer=answer))


@pytest.mark.any_database
def test_a_label_is_not_accepted_as_an_answer(qa_campaign: Campaign) -> None:
    with pytest.raises(SubmissionRefused, match="asks for an answer"):
        check_submission(qa_campaign.spec, qa_campaign.submission(label="positive"))


@pytest.mark.any_database
def test_a_verdict_on_another_text_target_or_by_other_models_is_never_stored(campaign: Campaign) -> None:
    given = campaign.submission()
    other_text = campaign.submission(fields=campaign.fields(text="Something else."))
    other_target = campaign.submission(label=campaign.spec.label_names[0])
    stale = [
        campaign.verdict(other_text),
        campaign.verdict(other_target),
        campaign.verdict(given, versions=("m000000000000",)),
        campaign.verdict(given, versions=(*campaign.versions, "m000000000000")),
        replace(campaign.verdict(given), task="nli"),
        replace(campaign.verdict(given), fooled=None),
    ]
    for verdict in stale:
        with campaign.store.write() as session, pytest.raises(StaleVerdict) as refused:
            submit(session, campaign.round, given, verdict, now=NOON)
        assert refused.value.retry
    with campaign.store.read() as session:
        assert collected(session, campaign.round).examples == 0


@pytest.mark.any_database
@pytest.mark.parametrize("text", ["  Not  bad\nat all. ", "Not bad at all\u200b.", "Not \u2060bad at all.\ufeff"])
def test_the_same_text_by_the_same_author_counts_once_however_it_is_spaced(campaign: Campaign, text: str) -> None:
    handed_in(campaign, campaign.submission(fields=campaign.fields(text="Not bad at all.")))
    again = campaign.submission(fields=campaign.fields(text=text))
    with pytest.raises(SubmissionRefused, match="same text"):
        handed_in(campaign, again)
    handed_in(campaign, replace(again, author_id=campaign.voter))


@pytest.mark.any_database
def test_a_closed_round_accepts_no_examples(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        closing = session.get_one(Round, campaign.round_id)
        closing.status, closing.validating_at = RoundStatus.VALIDATING, NOON
    handed_in(campaign)
    with campaign.store.write() as session:
        closing = session.get_one(Round, campaign.round_id)
        closing.status, closing.closed_at = RoundStatus.CLOSED, NOON
    with pytest.raises(SubmissionRefused, match="is closed and takes no examples"):
        handed_in(campaign, campaign.submission(fields=campaign.fields(text="Late.")))


def test_the_attempts_that_led_to_an_example_are_linked_to_its_author(campaign: Campaign) -> None:
    first, second = uuid4(), uuid4()
    after = campaign.attempt_record(at=NOON + 11 * MINUTE)
    elsewhere = campaign.attempt_record(label_studio_task=None)
    earlier = campaign.attempt_record(campaign.fields(text="A first idea."), id=first)
    tries = [earlier, campaign.attempt_record(id=second), after, elsewhere]
    with campaign.store.write() as session:
        assert store_attempts(session, tries, now=NOON + 12 * MINUTE).stored == 4
    example = handed_in(campaign)
    assert example.tries == 2
    with campaign.store.read() as session:
        linked = {one.public_id: (one.worker_id, one.example_id) for one in session.query(Attempt)}
    assert linked[first] == (campaign.author, None)
    assert linked[second] == (campaign.author, example.id)
    assert linked[after.verdict.id] == linked[elsewhere.verdict.id] == (None, None)


@pytest.mark.any_database
def test_the_next_author_of_the_same_task_gets_only_their_own_attempts(campaign: Campaign) -> None:
    with campaign.store.write() as session:
        store_attempts(session, [campaign.attempt_record()], now=NOON + MINUTE)
        second = ensure_worker(session, "label_studio", "http://ls/users/3", now=NOON).id
    assert handed_in(campaign).tries == 1
    with campaign.store.write() as session:
        tries = [campaign.attempt_record(at=NOON + number * MINUTE) for number in (20, 21, 22)]
        store_attempts(session, tries, now=NOON + timedelta(hours=1))
    later = campaign.submission(author_id=second, submitted_at=NOON + 30 * MINUTE)
    assert handed_in(campaign, later).tries == 3
