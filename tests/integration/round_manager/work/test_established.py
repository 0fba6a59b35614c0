"""A task can ask for the vote of an established validator: many votes, and right on gold."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from round_manager.archive.storage import open_archives
from round_manager.archive.verification import verify
from round_manager.loop.supply_facts import lacking_votes
from round_manager.models import Example, ExampleStatus, Round, Source, Vote
from round_manager.work.validation_work import Judgement
from tests.campaign import DAY, Campaign, NewCampaign
from tests.fakes.clock import NOON
from tests.fakes.gold import update_gold
from tests.integration.round_manager.work.test_gold_choice import private

TERMS = {"established_votes": 1, "established_after": 5, "gold_rate": 0.5, "gold_withheld": 0.0}


@pytest.fixture
def campaign(new_campaign: NewCampaign) -> Campaign:
    made = new_campaign(validation=TERMS, work={"validations_per_hit": 10})
    with made.store.write() as session:
        update_gold(session, made.task, [private(number) for number in range(20)], now=made.now)
    return made


def establish(campaign: Campaign, worker: str, label: str = "positive") -> None:
    """Let a worker judge five examples and five gold items, whose label is positive."""
    examples = [campaign.add_example(f"A{number}", wanted=9) for number in range(5)]
    page = campaign.open_validation_page(worker)
    campaign.judge_all(page, Judgement(label=label))
    campaign.finish_page(page)
    campaign.confirm(page)
    for example in examples:
        with campaign.store.write() as session:
            session.get_one(Example, example.id).votes_wanted = 0


def vote(campaign: Campaign, example: Example, *labels: str | None, voters: Sequence[str] = ()) -> None:
    """Vote as workers do, on pages."""
    campaign.vote(example, *labels, voters=voters, source=Source.PAGES)


@pytest.mark.parametrize(("label", "status"), [("positive", "verified"), ("negative", "pending")])
def test_two_agreeing_votes_verify_only_with_an_established_validator(
    campaign: Campaign, label: str, status: str
) -> None:
    establish(campaign, "EXPERT", label)
    example = campaign.add_example("A9")
    vote(campaign, example, None, None)
    campaign.decide()
    assert campaign.reload(example).status is ExampleStatus.PENDING
    assert campaign.reload(example).votes_wanted == 3
    vote(campaign, example, None, voters=["EXPERT"])
    campaign.decide()
    assert campaign.reload(example).status == status
    assert [vote.established for vote in campaign.rows(Vote, Vote.example_id == example.id)] == [
        False, False, status == "verified",
    ]  # fmt: skip


def test_the_last_vote_is_kept_for_an_established_validator(campaign: Campaign) -> None:
    establish(campaign, "EXPERT")
    example = campaign.add_example("A9")
    campaign.open_validation_page("V1")
    assert campaign.finds_nothing("V2")
    campaign.open_validation_page("EXPERT")
    assert {lease.example_id for lease in campaign.live_leases()} == {example.id}
    assert len(campaign.live_leases()) == 2


def test_without_a_vote_of_an_established_validator_there_is_no_gold_label(campaign: Campaign) -> None:
    example = campaign.add_example("A9")
    vote(campaign, example, *[None] * campaign.spec.validation.max_votes)
    campaign.decide()
    decided = campaign.reload(example)
    assert (decided.status, decided.gold_label) == (ExampleStatus.DISPUTED, None)


def test_an_archive_records_whose_votes_were_established_and_verifies(campaign: Campaign, tmp_path: Path) -> None:
    establish(campaign, "EXPERT")
    example = campaign.add_example("A9")
    vote(campaign, example, None, None, voters=["V1", "EXPERT"])
    campaign.decide()
    campaign.mark_closed(at=NOON + 90 * DAY)
    found = verify(Path(campaign.freeze(open_archives(str(tmp_path))).where))
    assert found.problems == ()
    assert "gold labels, recounted" in found.checked


def test_an_established_validator_who_disagrees_does_not_confirm_what_two_accounts_agreed_on(
    campaign: Campaign,
) -> None:
    establish(campaign, "EXPERT")
    example = campaign.add_example("A9")
    vote(
        campaign,
        example,
        None,
        None,
        campaign.other_label(example),
        None,
        None,
        voters=["V1", "V2", "EXPERT", "V4", "V5"],
    )
    campaign.decide()
    assert campaign.status_of(example) is ExampleStatus.DISPUTED


def test_votes_in_label_studio_are_those_of_established_validators(campaign: Campaign) -> None:
    example = campaign.add_example("A9")
    vote(campaign, example, None)
    campaign.vote(example, None)
    campaign.decide()
    assert campaign.status_of(example) is ExampleStatus.VERIFIED


def test_the_owner_reads_which_examples_wait_for_an_established_validator_and_how_one_becomes_one(
    campaign: Campaign,
) -> None:
    example = campaign.add_example("A9")
    vote(campaign, example, None)
    (_, reason) = campaign.waiting()
    assert (reason.hint and reason.hint.action, reason.can_be_skipped) == ("connect_label_studio", True)
    assert "5 votes and 80%" in reason.text
    assert lacking(campaign) == []
    establish(campaign, "EXPERT")
    (_, reason) = campaign.waiting()
    assert reason.hint is None
    assert lacking(campaign) == [1]


def test_without_gold_the_owner_is_asked_for_some(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=TERMS)
    vote(campaign, campaign.add_example("A9"), None)
    (_, reason) = campaign.waiting()
    assert reason.hint is not None
    assert reason.hint.action == "upload_gold"


def lacking(campaign: Campaign) -> list[int]:
    """Return the votes for which HITs are posted."""
    with campaign.store.read() as session:
        return lacking_votes(session, session.get_one(Round, campaign.round_id))
