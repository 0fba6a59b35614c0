from typing import Any

import pytest

from round_manager.errors import VoteRefused
from round_manager.examples.submissions import submit
from round_manager.models import Example, ExampleStatus, Round, RoundStatus, Source, Vote
from round_manager.work.validation_work import cast_vote
from tests.campaign import Campaign, NewCampaign
from tests.fakes.clock import NOON


@pytest.fixture
def campaign(new_campaign: NewCampaign) -> Campaign:
    """A campaign with two users of Label Studio."""
    return new_campaign(label_studio=True)


def example_of(campaign: Campaign) -> int:
    given = campaign.submission()
    with campaign.store.write() as session:
        return submit(session, session.get_one(Round, campaign.round_id), given, campaign.verdict(given), now=NOON).id


def vote(campaign: Campaign, example: int, worker: int | None = None, **judgement: Any) -> Vote:
    with campaign.store.write() as session:
        return cast_vote(
            session,
            session.get_one(Example, example),
            campaign.voter if worker is None else worker,
            source=Source.LABEL_STUDIO,
            voted_at=NOON,
            **judgement,
        )


def status_of(campaign: Campaign, example: int) -> ExampleStatus:
    with campaign.store.read() as session:
        return session.get_one(Example, example).status


@pytest.mark.any_database
def test_a_vote_is_kept_and_leaves_the_example_pending(campaign: Campaign) -> None:
    example = example_of(campaign)
    kept = vote(campaign, example, label="positive", comment="  ", active_ms=4_000)
    assert (kept.label, kept.comment, kept.active_ms, kept.author_id) == ("positive", None, 4_000, campaign.author)
    assert status_of(campaign, example) is ExampleStatus.PENDING


@pytest.mark.any_database
def test_a_flag_sends_the_example_to_its_owner(campaign: Campaign) -> None:
    example = example_of(campaign)
    kept = vote(campaign, example, flag="It makes no sense", comment="Really not.")
    assert (kept.flag, kept.comment) == ("It makes no sense", "Really not.")
    assert status_of(campaign, example) is ExampleStatus.FLAGGED


@pytest.mark.any_database
def test_a_flag_does_not_undo_a_decision(campaign: Campaign) -> None:
    example = example_of(campaign)
    with campaign.store.write() as session:
        decided = session.get_one(Example, example)
        decided.status, decided.decided_at, decided.gold_label = ExampleStatus.VERIFIED, NOON, "positive"
    vote(campaign, example, flag="It makes no sense")
    assert status_of(campaign, example) is ExampleStatus.VERIFIED


@pytest.mark.any_database
def test_no_validator_judges_their_own_example(campaign: Campaign) -> None:
    with pytest.raises(VoteRefused, match="their own"):
        vote(campaign, example_of(campaign), campaign.author, label="positive")


@pytest.mark.any_database
def test_no_validator_judges_an_example_twice(campaign: Campaign) -> None:
    example = example_of(campaign)
    vote(campaign, example, label="positive")
    with pytest.raises(VoteRefused, match="already"):
        vote(campaign, example, label="negative")


@pytest.mark.any_database
@pytest.mark.parametrize(
    "judgement",
    [
        {},
        {"label": "positive", "flag": "no"},
        {"label": "splendid"},
        {"label": ""},
        {"answer": {"text": "x", "start": 0, "end": 1}},
        {"flag": "  "},
        {"label": "positive", "comment": "\x00"},
    ],
)
def test_an_invalid_vote_is_refused(campaign: Campaign, judgement: dict[str, Any]) -> None:
    with pytest.raises(VoteRefused):
        vote(campaign, example_of(campaign), **judgement)


@pytest.mark.any_database
def test_an_answer_in_a_vote_is_a_span_of_the_passage(new_campaign: NewCampaign) -> None:
    qa = new_campaign("qa", label_studio=True)
    example = example_of(qa)
    with pytest.raises(VoteRefused, match="where it was selected"):
        vote(qa, example, answer={"text": "nothing", "start": 0, "end": 7})
    kept = vote(qa, example, answer=qa.last_word(qa.context))
    assert kept.answer == qa.last_word(qa.context)


@pytest.mark.any_database
def test_a_closed_round_accepts_no_votes(campaign: Campaign) -> None:
    example = example_of(campaign)
    for status, moment in ((RoundStatus.VALIDATING, "validating_at"), (RoundStatus.CLOSED, "closed_at")):
        with campaign.store.write() as session:
            closing = session.get_one(Round, campaign.round_id)
            closing.status = status
            setattr(closing, moment, NOON)
    with pytest.raises(VoteRefused, match="is closed and takes no votes"):
        vote(campaign, example, label="positive")


def test_a_withdrawn_example_accepts_no_votes(campaign: Campaign) -> None:
    example = example_of(campaign)
    with campaign.store.write() as session:
        gone = session.get_one(Example, example)
        gone.status, gone.decided_at = ExampleStatus.WITHDRAWN, NOON
    with pytest.raises(VoteRefused, match="withdrawn"):
        vote(campaign, example, label="positive")
