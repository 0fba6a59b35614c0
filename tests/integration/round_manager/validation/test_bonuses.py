"""A verified fooling example earns its author the bonus once; a bonus that can no longer be earned is released."""

import pytest

from round_manager.crowd.confirmation import mark_rejected
from round_manager.crowd.reviews import Rejections
from round_manager.models import Assignment, EntryKind, Example, ExampleStatus, Hit, Task
from round_manager.money.ledger import release
from round_manager.validation.decisions import Decisions
from round_manager.validation.flags import find_example, keep, withdraw
from tests.campaign import OWNER, Campaign, NewCampaign
from tests.fakes.crowd import FakeCrowd


@pytest.mark.any_database
def test_a_verified_fooling_example_owes_its_author_the_bonus_once(campaign: Campaign) -> None:
    (example,) = campaign.confirmed_examples()
    campaign.vote(example, None, None)
    assert campaign.bonus_states() == {"reserved": 1}
    found = campaign.decide()
    assert (found.verified, found.bonuses, found.released) == (1, 1, 0)
    campaign.vote(example)
    assert campaign.decide().bonuses == 0
    assert (campaign.bonus_states(), campaign.examples_with_bonus()) == ({"owed": 1}, [example.id])


@pytest.mark.any_database
def test_a_disputed_example_releases_its_bonus(campaign: Campaign) -> None:
    (example,) = campaign.confirmed_examples()
    campaign.vote(example, *[campaign.other_label(example)] * 3)
    found = campaign.decide()
    assert (found.disputed, found.released) == (1, 1)
    assert campaign.bonus_states() == {"released": 1}


@pytest.mark.any_database
def test_in_house_work_has_no_bonus(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, None, None)
    assert campaign.decide().bonuses == 0
    assert campaign.examples_with_bonus() == []


@pytest.mark.any_database
def test_an_example_that_did_not_fool_releases_its_bonus_when_confirmed(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"sample_non_fooling": 0.0}, work={"tries_before_skip": 0})
    (example,) = campaign.confirmed_examples(fooled=False)
    assert campaign.status_of(example) is ExampleStatus.UNCHECKED
    assert campaign.bonus_states() == {"released": 1}


@pytest.mark.any_database
def test_an_example_that_did_not_fool_earns_nothing_even_if_verified(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"sample_non_fooling": 1.0}, work={"tries_before_skip": 0})
    (example,) = campaign.confirmed_examples(fooled=False)
    campaign.vote(example, None, None)
    found = campaign.decide()
    assert (found.verified, found.bonuses) == (1, 0)
    assert campaign.bonus_states() == {"released": 1}


@pytest.mark.any_database
def test_each_example_of_a_hit_has_its_own_bonus(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 3})
    hit = campaign.add_paid_hit(assignments=2)
    first, second, third = campaign.confirmed_examples(hit=hit)
    campaign.vote(first, None, None)
    campaign.vote(second, *[campaign.other_label(second)] * 3)
    campaign.decide()
    # One is owed and one released; one waits for votes, and three for the worker of the other assignment.
    assert campaign.bonus_states() == {"owed": 1, "released": 1, "reserved": 4}
    campaign.vote(third, None, None)
    campaign.decide()
    assert sorted(campaign.examples_with_bonus()) == [first.id, third.id]


@pytest.mark.any_database
def test_rejected_work_earns_nothing_and_takes_no_other_works_bonus(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 1})
    hit = campaign.add_paid_hit(assignments=2)
    (good,) = campaign.confirmed_examples("W1", hit=hit)
    (bad,) = campaign.confirmed_examples("W2", hit=hit)
    campaign.vote(bad, *[campaign.other_label(bad)] * 3)
    campaign.decide()
    assert campaign.bonus_states() == {"reserved": 1, "released": 1}
    with campaign.store.write() as session:
        work = session.get_one(Assignment, campaign.assignment_of(bad).id)
        mark_rejected(session, work, "No.", OWNER, campaign.now, now=campaign.now)
    assert campaign.bonus_states() == {"reserved": 1, "released": 1}
    campaign.vote(good, None, None)
    campaign.decide()
    assert campaign.examples_with_bonus() == [good.id]


@pytest.mark.any_database
def test_an_overridden_rejection_earns_the_bonus(campaign: Campaign) -> None:
    (example,) = campaign.confirmed_examples()
    work = campaign.assignment_of(example)
    with campaign.store.write() as session:
        mark_rejected(session, session.get_one(Assignment, work.id), "No.", OWNER, campaign.now, now=campaign.now)
    assert campaign.bonus_states() == {"released": 1}
    campaign.vote(example, None, None)
    assert campaign.decide().bonuses == 0
    crowd = FakeCrowd(campaign.clock.now)
    Rejections(campaign.store, crowd, campaign.clock).override(work.external_id, actor=OWNER, reason="Yes.")
    assert campaign.examples_with_bonus() == [example.id]


def test_a_bonus_is_owed_as_soon_as_the_budget_covers_it(campaign: Campaign) -> None:
    (example,) = campaign.confirmed_examples()
    with campaign.store.write() as session:
        release(session, [campaign.assignment_of(example).hit_id], EntryKind.BONUS, now=campaign.now)
    campaign.set_budget(54)
    campaign.vote(example, None, None)
    for _ in range(2):
        found = campaign.decide()
        assert (found.bonuses, found.uncovered) == (0, 1)
    assert campaign.status_of(example) is ExampleStatus.VERIFIED
    campaign.set_budget(1_000)
    assert campaign.decide().bonuses == 1
    assert (campaign.examples_with_bonus(), campaign.uncounted_votes()) == ([example.id], 0)


@pytest.mark.any_database
def test_a_bonus_for_a_kept_example_is_owed_as_soon_as_the_budget_covers_it(campaign: Campaign) -> None:
    (example,) = campaign.confirmed_examples()
    campaign.vote(example, None, None)
    campaign.vote(example, flag="It names a person")
    campaign.decide()
    with campaign.store.write() as session:
        release(session, [campaign.assignment_of(example).hit_id], EntryKind.BONUS, now=campaign.now)
    bound = campaign.spend_budget()
    with campaign.store.write() as session:
        row = find_example(session, session.get_one(Task, campaign.task.id), example.public_id)
        keep(session, row, actor=OWNER, reason="It does not", now=campaign.now)
    assert (campaign.status_of(example), campaign.decide().uncovered) == (ExampleStatus.VERIFIED, 1)
    campaign.set_budget(bound + 1_000)
    assert [campaign.decide().bonuses for _ in range(2)] == [1, 0]
    assert (campaign.examples_with_bonus(), campaign.uncounted_votes()) == ([example.id], 0)


@pytest.mark.any_database
def test_a_closed_round_releases_bonuses_that_can_no_longer_be_earned(campaign: Campaign) -> None:
    earned, undecided = campaign.confirmed_examples("W1")[0], campaign.confirmed_examples("W2")[0]
    campaign.add_paid_hit(assignments=3)
    campaign.vote(earned, None, None)
    campaign.vote(undecided)
    campaign.decide()
    assert campaign.bonus_states() == {"owed": 1, "reserved": 4}
    campaign.mark_closed()
    assert campaign.decide().released == 4
    assert campaign.bonus_states() == {"owed": 1, "released": 4}
    assert campaign.decide().released == 0


@pytest.mark.any_database
def test_a_flagged_example_keeps_its_bonus_until_its_owner_decides(campaign: Campaign) -> None:
    kept, withdrawn = campaign.confirmed_examples("W1")[0], campaign.confirmed_examples("W2")[0]
    for example in (kept, withdrawn):
        campaign.vote(example, None, None)
        campaign.vote(example, flag="It names a person")
    assert campaign.decide() == Decisions()
    assert campaign.bonus_states() == {"reserved": 2}
    with campaign.store.write() as session:
        task = session.get_one(Task, campaign.task.id)
        keep(session, find_example(session, task, kept.public_id), actor=OWNER, reason="It does not", now=campaign.now)
        row = find_example(session, task, withdrawn.public_id)
        withdraw(session, row, actor=OWNER, reason="It does", now=campaign.now)
    assert (campaign.status_of(kept), campaign.status_of(withdrawn)) == (
        ExampleStatus.VERIFIED,
        ExampleStatus.WITHDRAWN,
    )
    assert (campaign.bonus_states(), campaign.examples_with_bonus()) == ({"owed": 1, "released": 1}, [kept.id])


def test_unfinished_hits_keep_only_what_they_can_still_cost(campaign: Campaign) -> None:
    hit = campaign.add_paid_hit(assignments=2)
    (example,) = campaign.confirmed_examples("W1", hit=hit)
    campaign.vote(example, *[campaign.other_label(example)] * 3)
    campaign.decide()
    assert campaign.bonus_states() == {"released": 1, "reserved": 1}
    assert campaign.rows(Hit, Hit.finished_at.is_not(None)) == []
    assert campaign.rows(Example, Example.status == ExampleStatus.PENDING) == []
