"""Metrics are recomputed from votes, and add up to the cent and to the second."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from round_manager.errors import MetricsUnavailable
from round_manager.models import Assignment, Context, Example, ExampleStatus, HitKind, RoundTally, Task, Worker
from round_manager.money.ledger import owe_rewards
from round_manager.pseudonyms import pseudonyms
from round_manager.validation.costs import Cost
from round_manager.validation.metrics import Counts, RoundMetrics, metrics_by, round_metrics
from round_manager.validation.voted_examples import validators
from round_manager.work.validation_work import Judgement, cast_vote
from tests.campaign import Campaign, NewCampaign


def figures(campaign: Campaign) -> RoundMetrics:
    with campaign.store.read() as session:
        return round_metrics(session, campaign.round)


def by(campaign: Campaign, what: str) -> dict[str, Counts]:
    with campaign.store.read() as session:
        return {group.name: group.counts for group in metrics_by(session, campaign.round, what)}


def approve(campaign: Campaign, minutes: int) -> None:
    """Set the time of all work to this, and owe the rewards."""
    with campaign.store.write() as session:
        works = session.scalars(select(Assignment)).all()
        for work in works:
            work.active_ms = minutes * 60_000
        owe_rewards(session, works, now=campaign.now)


def name_of(campaign: Campaign, worker_id: int) -> str:
    with campaign.store.read() as session:
        return str(pseudonyms(session, session.get_one(Task, campaign.task.id)).of([worker_id])[0])


def test_error_rates_are_fooling_and_verified_shares_of_all_collected_examples(campaign: Campaign) -> None:
    verified, disputed, _ = (campaign.add_example() for _ in range(3))
    agreed, doubted = (campaign.add_example(fooled=False) for _ in range(2))
    campaign.add_example(fooled=False, status=ExampleStatus.UNCHECKED, votes_wanted=0)
    campaign.add_example(status=ExampleStatus.WITHDRAWN, decided_at=campaign.now)
    campaign.add_example(status=ExampleStatus.UNCONFIRMED)
    for example in (verified, agreed):
        campaign.vote(example, None, None)
    for example in (disputed, doubted):
        campaign.vote(example, *[campaign.other_label(example)] * 3)
    counts = figures(campaign).counts
    assert (counts.mer.count, counts.mer.of) == (3, 6)
    assert (counts.vmer.count, counts.vmer.of) == (1, 6)
    assert (counts.undecided_fooling, counts.withdrawn) == (1, 1)
    assert (counts.author_errors.count, counts.author_errors.of) == (1, 2)
    assert 0 < counts.vmer.low < 1 / 6 < counts.vmer.high < 1


def test_metrics_follow_votes_and_not_stored_counters_or_statuses(campaign: Campaign) -> None:
    right, wrong = campaign.add_example(), campaign.add_example()
    for example in (right, wrong):
        campaign.vote(example, None, None)
    campaign.decide()
    with campaign.store.write() as session:
        session.execute(update(RoundTally).values(examples=1_000))
        session.execute(update(Example).where(Example.id == wrong.id).values(status=ExampleStatus.DISPUTED))
    found = figures(campaign)
    assert (found.counts.verified_fooling, found.counts.collected, found.differing) == (2, 2, 1)


def test_a_stored_gold_label_that_contradicts_the_votes_is_reported(campaign: Campaign) -> None:
    agreed, doubted, _ = examples = [campaign.add_example() for _ in range(3)]
    for example in examples:
        campaign.vote(example, *[campaign.other_label(example)] * 3 if example is doubted else [None, None])
    campaign.decide()
    assert figures(campaign).differing == 0
    with campaign.store.write() as session:
        wrong = update(Example).values(gold_label=campaign.other_label(agreed))
        session.execute(wrong.where(Example.id == agreed.id))
        session.execute(update(Example).where(Example.id == doubted.id).values(gold_label=None))
    found = figures(campaign)
    assert (found.differing, found.counts.verified_fooling) == (2, 2)


def test_a_stored_gold_answer_that_contradicts_the_votes_is_reported(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("qa")
    example = campaign.add_example()
    campaign.vote(example, None, None)
    campaign.decide()
    assert figures(campaign).differing == 0
    with campaign.store.write() as session:
        row = session.get_one(Example, example.id)
        assert row.gold_answer is not None
        row.gold_answer = {**row.gold_answer, "start": row.gold_answer["start"] + 1}
    assert figures(campaign).differing == 1


def test_metrics_do_not_wait_for_a_decision(campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, None, None)
    before = figures(campaign)
    campaign.decide()
    assert figures(campaign) == before
    assert before.counts.verified_fooling == 1
    assert before.votes == 2


def test_the_cost_of_a_round_is_its_time_and_its_money(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0})
    (verified,) = campaign.confirmed_examples("W1")
    (disputed,) = campaign.confirmed_examples("W2")
    campaign.vote(verified, None, None)
    campaign.vote(disputed, *[campaign.other_label(disputed)] * 3)
    campaign.decide()
    approve(campaign, minutes=4)
    counts = figures(campaign).counts
    spec = campaign.spec
    assert counts.cost == Cost(2 * 4 * 60_000, 2 * (spec.pay.create_cents + 9) + spec.pay.fooled_bonus_cents + 12)
    assert (counts.seconds_per_verified, counts.cents_per_verified) == (480, counts.cost.cents)
    assert (counts.tries, counts.tries_per_fool) == (2, 1)


def test_in_house_work_reports_its_own_time(campaign: Campaign) -> None:
    example = campaign.add_example(active_ms=30_000)
    with campaign.store.write() as session:
        voter = session.scalars(select(Worker)).first()
        assert voter is not None
        other = Worker(marketplace="here", external_id="ann", first_seen_at=campaign.now)
        session.add(other)
        session.flush()
        row = session.get_one(Example, example.id)
        source = example.source
        cast_vote(session, row, other.id, source=source, voted_at=campaign.now, label=row.label, active_ms=12_000)
    assert figures(campaign).counts.cost == Cost(42_000, 0)


def test_each_example_bears_its_share_of_time_and_money_to_the_cent(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 3}, validation={"gold_rate": 0.0})
    first = campaign.confirmed_examples("W1")[0]
    campaign.clock.advance(timedelta(minutes=1))
    page = campaign.open_page("V1", kind=HitKind.VALIDATE)
    campaign.judge_all(page, Judgement(label=first.label))
    campaign.finish_page(page)
    campaign.confirm(page)
    with campaign.store.write() as session:
        works = session.scalars(select(Assignment).order_by(Assignment.id)).all()
        works[0].active_ms, works[1].active_ms = 100_001, 30_000
        owe_rewards(session, works[:1], now=campaign.now)
    whole = figures(campaign).counts
    for what in ("worker", "label", "context"):
        groups = by(campaign, what).values()
        assert sum(counts.collected for counts in groups) == 3
        assert sum(counts.cost.ms for counts in groups) == whole.cost.ms == 130_001
        assert sum(counts.cost.cents for counts in groups) == whole.cost.cents == campaign.spec.pay.create_cents + 9
        assert sum(counts.tries for counts in groups) == whole.tries
    with campaign.store.read() as session:
        keys = {one.id: one.key for one in session.scalars(select(Context))}
    own = [by(campaign, "context")[keys[one.context_id]] for one in campaign.rows(Example)]
    assert [one.cost.ms - 10_000 for one in own] == [33_333, 33_334, 33_334]


def test_time_is_attributed_to_its_example_and_the_rest_is_shared(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 3}, validation={"gold_rate": 0.0})
    page = campaign.open_page("W1", hit=campaign.add_paid_hit())
    campaign.clock.advance(timedelta(minutes=5))
    for item, count in enumerate((60_000, 90_000, 100_000)):
        text = campaign.page_text(page, item)
        campaign.ask_target(page, text, item)
        campaign.submit_example(page, text, item, active_ms=count)
    campaign.finish_page(page)
    assignment = campaign.confirm(page)
    with campaign.store.read() as session:
        keys = {one.id: one.key for one in session.scalars(select(Context))}
    places = [keys[one.context_id] for one in campaign.rows(Example)]
    assert [by(campaign, "context")[place].cost.ms for place in places] == [60_000, 30_000, 10_000]
    with campaign.store.write() as session:
        # As if ten more seconds had gone into work that does not count.
        session.get_one(Assignment, assignment.id).active_ms = 110_000
    assert [by(campaign, "context")[place].cost.ms for place in places] == [66_000, 33_000, 11_000]
    assert figures(campaign).counts.cost.ms == 110_000


def test_groups_name_workers_by_their_pseudonyms_only(campaign: Campaign) -> None:
    campaign.confirmed_examples("W1")
    campaign.confirmed_examples("W2")
    campaign.confirmed_examples("W2")
    found = by(campaign, "worker")
    ids = {example.author_id for example in campaign.rows(Example)}
    assert found.keys() == {name_of(campaign, one) for one in ids}
    assert not {"W1", "W2"} & found.keys()
    assert [counts.collected for counts in found.values()] == [2, 1]


def test_a_forgers_questions_are_not_counted_as_attempts(campaign: Campaign) -> None:
    campaign.confirmed_examples("W1")
    forged = campaign.open_page("W2")
    campaign.ask_target(forged, "whatever")
    assert figures(campaign).counts.tries == 1


def test_answers_cannot_be_grouped_by_label(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("qa")
    campaign.confirmed_examples("W1")
    with pytest.raises(MetricsUnavailable):
        by(campaign, "label")
    assert sum(counts.collected for counts in by(campaign, "context").values()) == 1


def test_alpha_measures_how_far_validators_agree(campaign: Campaign) -> None:
    one, two = campaign.add_example(), campaign.add_example()
    assert figures(campaign).alpha is None
    campaign.vote(one, None, None)
    campaign.vote(two, campaign.other_label(two), campaign.other_label(two))
    assert figures(campaign).alpha == 1.0
    campaign.vote(two, None)
    assert figures(campaign).alpha == pytest.approx(1 - 4 * 2 / 12)


def test_validators_are_compared_with_the_gold_label_and_with_gold_items(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.5, "gold_withheld": 1.0}, work={"validations_per_hit": 4})
    known = [campaign.add_example("A1") for _ in range(3)]
    for example in known:
        campaign.vote(example, None, None)
    campaign.decide()
    asked = [campaign.add_example("A2") for _ in range(2)]
    page = campaign.open_validation_page("V1")
    campaign.judge_all(page, Judgement(label=known[0].label))
    campaign.finish_page(page)
    campaign.confirm(page)
    for example in asked:
        campaign.vote(example, campaign.other_label(example))
        campaign.vote(example, campaign.other_label(example))
        campaign.vote(example, campaign.other_label(example))
    with campaign.store.read() as session:
        found = {one.name: one for one in validators(session, campaign.round)}
        worker = session.scalars(select(Worker).where(Worker.external_id == "V1")).one()
    mine = found[name_of(campaign, worker.id)]
    assert (mine.votes, mine.flags) == (2, 0)
    assert (mine.agreed.count, mine.agreed.of) == (0, 2)
    assert (mine.gold.count, mine.gold.of) == (2, 2)
    assert all(one.gold.share is None for name, one in found.items() if name != mine.name)
