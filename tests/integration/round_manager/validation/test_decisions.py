"""Votes decide examples, by the round's policy, once and for good."""

import pytest
from sqlalchemy import event, insert

from round_manager import migrations
from round_manager.database.store import open_store
from round_manager.models import Example, ExampleStatus, Source, Vote, ensure_worker
from tests.campaign import MARKET, Campaign, NewCampaign, start_campaign
from tests.integration.databases import Databases

VERIFIED, DISPUTED, PENDING = ExampleStatus.VERIFIED, ExampleStatus.DISPUTED, ExampleStatus.PENDING


@pytest.mark.any_database
def test_two_people_who_agree_with_the_author_verify_an_example(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example)
    assert campaign.decide().verified == 0
    assert campaign.status_of(example) is PENDING
    campaign.vote(example)
    assert campaign.decide().verified == 1
    kept = campaign.reload(example)
    assert (kept.status, kept.gold_label, kept.decided_at) == (VERIFIED, example.label, campaign.now)


@pytest.mark.any_database
def test_each_disagreement_adds_one_vote_until_more_than_half_agree(campaign: Campaign) -> None:
    example = campaign.add_example()
    other = campaign.other_label(example)
    campaign.vote(example, None, other)
    assert campaign.decide().want_more == 1
    assert campaign.reload(example).votes_wanted == 3
    campaign.vote(example, None)
    assert campaign.decide().want_more == 1
    assert campaign.reload(example).votes_wanted == 4
    campaign.vote(example, None)
    assert campaign.decide().verified == 1


@pytest.mark.any_database
def test_an_example_with_another_majority_label_is_disputed_with_that_label(campaign: Campaign) -> None:
    example = campaign.add_example()
    other = campaign.other_label(example)
    campaign.vote(example, other, other, other)
    assert campaign.decide().disputed == 1
    kept = campaign.reload(example)
    assert (kept.status, kept.gold_label) == (DISPUTED, other)


@pytest.mark.any_database
def test_without_a_majority_there_is_no_gold_label(campaign: Campaign) -> None:
    example = campaign.add_example()
    one, two = campaign.other_label(example), campaign.other_label(example, 1)
    campaign.vote(example, None, one, two, None, one)
    assert campaign.decide().disputed == 1
    kept = campaign.reload(example)
    assert (kept.status, kept.gold_label) == (DISPUTED, None)


@pytest.mark.any_database
def test_a_late_vote_never_changes_a_decision(campaign: Campaign) -> None:
    early, late = campaign.add_example(), campaign.add_example()
    campaign.vote(early)
    campaign.vote(early)
    campaign.decide()
    for example in (early, late):
        campaign.vote(example, *[None] * (2 if example is late else 0), *[campaign.other_label(example)] * 3)
    campaign.decide()
    assert (campaign.status_of(early), campaign.status_of(late)) == (VERIFIED, VERIFIED)
    assert campaign.uncounted_votes() == 0


@pytest.mark.any_database
def test_answers_that_share_enough_words_agree(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("qa")
    (example,) = campaign.confirmed_examples()
    passage, answer = str(example.fields["passage"]), dict(example.answer or {})
    assert not passage.startswith(answer["text"])
    # The author chose the last word; two words with it still share two thirds of theirs.
    before = passage[: answer["start"]].rstrip().rindex(" ") + 1
    campaign.vote_answer(example, before, answer["end"])
    campaign.vote_answer(example, answer["start"], answer["end"])
    assert campaign.decide().verified == 1
    assert campaign.reload(example).gold_answer == answer


@pytest.mark.any_database
def test_a_different_answer_that_validators_agree_on_is_the_gold_answer(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("qa")
    (example,) = campaign.confirmed_examples()
    first = str(example.fields["passage"]).index(" ")
    for _ in range(3):
        campaign.vote_answer(example, 0, first)
    assert campaign.decide().disputed == 1
    assert campaign.reload(example).gold_answer["end"] == first


@pytest.mark.any_database
def test_the_rounds_own_policy_decides(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("nli")  # anli: two verifiers, and a third when they disagree
    agreed, split = campaign.add_example(), campaign.add_example()
    campaign.vote(agreed, campaign.other_label(agreed), campaign.other_label(agreed))
    campaign.vote(split, None, campaign.other_label(split))
    found = campaign.decide()
    assert (found.disputed, found.want_more) == (1, 1)
    campaign.vote(split, campaign.other_label(split, 1))
    assert campaign.decide().disputed == 1
    assert campaign.reload(split).gold_label is None


@pytest.mark.any_database
def test_an_example_that_did_not_fool_is_decided_like_any_other(campaign: Campaign) -> None:
    example = campaign.add_example(fooled=False)
    campaign.vote(example, None, None)
    assert campaign.decide().verified == 1


def test_a_closed_round_decides_nothing_more(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, None, None)
    campaign.mark_closed()
    assert campaign.decide().verified == 0
    assert campaign.status_of(example) is PENDING
    assert campaign.uncounted_votes() == 0


def test_each_vote_of_a_bulk_insert_is_queued(campaign: Campaign) -> None:
    examples = [campaign.add_example() for _ in range(3)]
    with campaign.store.write() as session:
        voters = [ensure_worker(session, MARKET, f"B{number}", now=campaign.now).id for number in range(2)]
        row = {"source": Source.IMPORT, "item": 0, "voted_at": campaign.now}
        rows = [
            {**row, "example_id": one.id, "author_id": one.author_id, "worker_id": voter, "label": one.label}
            for one in examples
            for voter in voters
        ]
        session.execute(insert(Vote), rows)
    assert campaign.uncounted_votes() == 6
    assert campaign.decide().verified == 3


@pytest.mark.any_database
def test_only_examples_with_new_votes_are_read(campaign: Campaign) -> None:
    for _ in range(20):
        campaign.vote(campaign.add_example())
    assert campaign.decide().want_more == 0
    example = campaign.add_example()
    campaign.vote(example, None, None)
    read: list[int] = []
    listener = lambda found, _: read.append(found.id)  # noqa: E731 - it is removed by its name
    event.listen(Example, "load", listener)
    try:
        assert campaign.decide().verified == 1
    finally:
        event.remove(Example, "load", listener)
    assert read == [example.id]
    assert len(campaign.rows(Example, Example.status == PENDING)) == 20


def test_the_migration_queues_earlier_votes(databases: Databases) -> None:
    url = databases.migrated()
    with open_store(url) as store:
        campaign = start_campaign(store)
        decided, waiting = campaign.add_example(), campaign.add_example()
        campaign.vote(decided, None, None)
        campaign.decide()
        campaign.vote(waiting, None, None)
        migrations.downgrade(store.engine, "0009")
        store.upgrade()
        assert campaign.uncounted_votes() == 2
        assert campaign.decide().verified == 1
    databases.drop(url)
