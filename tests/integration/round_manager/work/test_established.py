"""A task can ask for the vote of an established validator: many votes, and right on gold."""

from pathlib import Path

import pytest

from round_manager.archive.storage import open_archives
from round_manager.archive.verification import verify
from round_manager.models import Example, ExampleStatus, Vote
from round_manager.work.errors import NothingToDo
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


@pytest.mark.parametrize(("label", "status"), [("positive", "verified"), ("negative", "pending")])
def test_two_agreeing_votes_verify_only_with_an_established_validator(
    campaign: Campaign, label: str, status: str
) -> None:
    establish(campaign, "EXPERT", label)
    example = campaign.add_example("A9")
    campaign.vote(example, None, None)
    campaign.decide()
    assert campaign.reload(example).status is ExampleStatus.PENDING
    assert campaign.reload(example).votes_wanted == 3
    campaign.vote(example, None, voters=["EXPERT"])
    campaign.decide()
    assert campaign.reload(example).status == status
    assert [vote.established for vote in campaign.rows(Vote, Vote.example_id == example.id)] == [
        False, False, status == "verified",
    ]  # fmt: skip


def test_the_last_vote_is_kept_for_an_established_validator(campaign: Campaign) -> None:
    establish(campaign, "EXPERT")
    example = campaign.add_example("A9")
    campaign.open_validation_page("V1")
    with pytest.raises(NothingToDo):
        campaign.open_validation_page("V2")
    campaign.open_validation_page("EXPERT")
    assert {lease.example_id for lease in campaign.live_leases()} == {example.id}
    assert len(campaign.live_leases()) == 2


def test_without_a_vote_of_an_established_validator_there_is_no_gold_label(campaign: Campaign) -> None:
    example = campaign.add_example("A9")
    campaign.vote(example, *[None] * campaign.spec.validation.max_votes)
    campaign.decide()
    decided = campaign.reload(example)
    assert (decided.status, decided.gold_label) == (ExampleStatus.DISPUTED, None)


def test_an_archive_records_whose_votes_were_established_and_verifies(campaign: Campaign, tmp_path: Path) -> None:
    establish(campaign, "EXPERT")
    example = campaign.add_example("A9")
    campaign.vote(example, None, None, voters=["V1", "EXPERT"])
    campaign.decide()
    campaign.mark_closed(at=NOON + 90 * DAY)
    found = verify(Path(campaign.freeze(open_archives(str(tmp_path))).where))
    assert found.problems == ()
    assert "gold labels, recounted" in found.checked
