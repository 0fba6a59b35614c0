"""Metrics are recomputed from votes, and add up to the cent and to the second."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from round_manager.bulk_rows import pseudonyms
from round_manager.errors import MetricsUnavailable
from round_manager.examples.votes import cast_vote
from round_manager.models import Assignment, Context, Example, ExampleStatus, HitKind, RoundTally, Task, Worker
from round_manager.money.ledger import owe_rewards
from round_manager.validation.costs import Cost
from round_manager.validation.metrics import Counts, RoundMetrics, metrics_by, round_metrics
from round_manager.validation.validators import validators
from round_manager.work.validation_work import Judgement
from tests.integration.round_manager.validation.conftest import SeatPanel
from tests.integration.round_manager.validation.panel import Panel


def figures(panel: Panel) -> RoundMetrics:
    with panel.store.read() as session:
        return round_metrics(session, panel.round)


def by(panel: Panel, what: str) -> dict[str, Counts]:
    with panel.store.read() as session:
        return {group.name: group.counts for group in metrics_by(session, panel.round, what)}


def approve(panel: Panel, minutes: int) -> None:
    """Set the time of all work to this, and owe the rewards."""
    with panel.store.write() as session:
        works = session.scalars(select(Assignment)).all()
        for work in works:
            work.active_ms = minutes * 60_000
        owe_rewards(session, works, now=panel.now)


def name_of(panel: Panel, worker_id: int) -> str:
    with panel.store.read() as session:
        return str(pseudonyms(session, session.get_one(Task, panel.floor.task.id)).of([worker_id])[0])


def test_error_rates_are_fooling_and_verified_shares_of_all_collected_examples(panel: Panel) -> None:
    verified, disputed, _ = (panel.floor.pending() for _ in range(3))
    agreed, doubted = (panel.floor.pending(fooled=False) for _ in range(2))
    panel.floor.pending(fooled=False, status=ExampleStatus.UNCHECKED, votes_wanted=0)
    panel.floor.pending(status=ExampleStatus.WITHDRAWN, decided_at=panel.now)
    panel.floor.pending(status=ExampleStatus.UNCONFIRMED)
    for example in (verified, agreed):
        panel.vote(example, None, None)
    for example in (disputed, doubted):
        panel.vote(example, *[panel.other(example)] * 3)
    counts = figures(panel).counts
    assert (counts.mer.count, counts.mer.of) == (3, 6)
    assert (counts.vmer.count, counts.vmer.of) == (1, 6)
    assert (counts.undecided_fooling, counts.withdrawn) == (1, 1)
    assert (counts.author_errors.count, counts.author_errors.of) == (1, 2)
    assert 0 < counts.vmer.low < 1 / 6 < counts.vmer.high < 1


def test_metrics_follow_votes_and_not_stored_counters_or_statuses(panel: Panel) -> None:
    right, wrong = panel.floor.pending(), panel.floor.pending()
    for example in (right, wrong):
        panel.vote(example, None, None)
    panel.decide()
    with panel.store.write() as session:
        session.execute(update(RoundTally).values(examples=1_000))
        session.execute(update(Example).where(Example.id == wrong.id).values(status=ExampleStatus.DISPUTED))
    found = figures(panel)
    assert (found.counts.verified_fooling, found.counts.collected, found.differing) == (2, 2, 1)


def test_a_stored_gold_label_that_contradicts_the_votes_is_reported(panel: Panel) -> None:
    agreed, doubted, _ = examples = [panel.floor.pending() for _ in range(3)]
    for example in examples:
        panel.vote(example, *[panel.other(example)] * 3 if example is doubted else [None, None])
    panel.decide()
    assert figures(panel).differing == 0
    with panel.store.write() as session:
        wrong = update(Example).values(gold_label=panel.other(agreed))
        session.execute(wrong.where(Example.id == agreed.id))
        session.execute(update(Example).where(Example.id == doubted.id).values(gold_label=None))
    found = figures(panel)
    assert (found.differing, found.counts.verified_fooling) == (2, 2)


def test_a_stored_gold_answer_that_contradicts_the_votes_is_reported(seat: SeatPanel) -> None:
    panel = seat("qa")
    example = panel.floor.pending()
    panel.vote(example, None, None)
    panel.decide()
    assert figures(panel).differing == 0
    with panel.store.write() as session:
        row = session.get_one(Example, example.id)
        assert row.gold_answer is not None
        row.gold_answer = {**row.gold_answer, "start": row.gold_answer["start"] + 1}
    assert figures(panel).differing == 1


def test_metrics_do_not_wait_for_a_decision(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example, None, None)
    before = figures(panel)
    panel.decide()
    assert figures(panel) == before
    assert before.counts.verified_fooling == 1
    assert before.votes == 2


def test_the_cost_of_a_round_is_its_time_and_its_money(seat: SeatPanel) -> None:
    panel = seat(validation={"gold_rate": 0.0})
    (verified,) = panel.written("W1")
    (disputed,) = panel.written("W2")
    panel.vote(verified, None, None)
    panel.vote(disputed, *[panel.other(disputed)] * 3)
    panel.decide()
    approve(panel, minutes=4)
    counts = figures(panel).counts
    spec = panel.floor.spec
    assert counts.cost == Cost(2 * 4 * 60_000, 2 * (spec.pay.create_cents + 9) + spec.pay.fooled_bonus_cents + 12)
    assert (counts.seconds_per_verified, counts.cents_per_verified) == (480, counts.cost.cents)
    assert (counts.tries, counts.tries_per_fool) == (2, 1)


def test_in_house_work_reports_its_own_time(panel: Panel) -> None:
    example = panel.floor.pending(active_ms=30_000)
    with panel.store.write() as session:
        voter = session.scalars(select(Worker)).first()
        assert voter is not None
        other = Worker(marketplace="here", external_id="ann", first_seen_at=panel.now)
        session.add(other)
        session.flush()
        row = session.get_one(Example, example.id)
        source = example.source
        cast_vote(session, row, other.id, source=source, voted_at=panel.now, label=row.label, active_ms=12_000)
    assert figures(panel).counts.cost == Cost(42_000, 0)


def test_each_example_bears_its_share_of_time_and_money_to_the_cent(seat: SeatPanel) -> None:
    panel = seat(work={"examples_per_hit": 3}, validation={"gold_rate": 0.0})
    first = panel.written("W1")[0]
    panel.floor.clock.advance(timedelta(minutes=1))
    page = panel.floor.open("V1", kind=HitKind.VALIDATE)
    panel.floor.judge_all(page, Judgement(label=first.label))
    panel.floor.finish(page)
    panel.floor.confirm(page)
    with panel.store.write() as session:
        works = session.scalars(select(Assignment).order_by(Assignment.id)).all()
        works[0].active_ms, works[1].active_ms = 100_001, 30_000
        owe_rewards(session, works[:1], now=panel.now)
    whole = figures(panel).counts
    for what in ("worker", "label", "context"):
        groups = by(panel, what).values()
        assert sum(counts.collected for counts in groups) == 3
        assert sum(counts.cost.ms for counts in groups) == whole.cost.ms == 130_001
        assert sum(counts.cost.cents for counts in groups) == whole.cost.cents == panel.floor.spec.pay.create_cents + 9
        assert sum(counts.tries for counts in groups) == whole.tries
    with panel.store.read() as session:
        keys = {one.id: one.key for one in session.scalars(select(Context))}
    own = [by(panel, "context")[keys[one.context_id]] for one in panel.floor.rows(Example)]
    assert [one.cost.ms - 10_000 for one in own] == [33_333, 33_334, 33_334]


def test_time_is_attributed_to_its_example_and_the_rest_is_shared(seat: SeatPanel) -> None:
    panel = seat(work={"examples_per_hit": 3}, validation={"gold_rate": 0.0})
    page = panel.floor.open("W1", hit=panel.hit())
    panel.floor.clock.advance(timedelta(minutes=5))
    for item, count in enumerate((60_000, 90_000, 100_000)):
        text = panel.floor.fooling(page, item)
        panel.floor.ask(page, text, item)
        panel.floor.hand_in(page, text, item, active_ms=count)
    panel.floor.finish(page)
    assignment = panel.floor.confirm(page)
    with panel.store.read() as session:
        keys = {one.id: one.key for one in session.scalars(select(Context))}
    places = [keys[one.context_id] for one in panel.floor.rows(Example)]
    assert [by(panel, "context")[place].cost.ms for place in places] == [60_000, 30_000, 10_000]
    with panel.store.write() as session:
        # As if ten more seconds had gone into work that does not count.
        session.get_one(Assignment, assignment.id).active_ms = 110_000
    assert [by(panel, "context")[place].cost.ms for place in places] == [66_000, 33_000, 11_000]
    assert figures(panel).counts.cost.ms == 110_000


def test_groups_name_workers_by_their_pseudonyms_only(panel: Panel) -> None:
    panel.written("W1")
    panel.written("W2")
    panel.written("W2")
    found = by(panel, "worker")
    ids = {example.author_id for example in panel.floor.rows(Example)}
    assert found.keys() == {name_of(panel, one) for one in ids}
    assert not {"W1", "W2"} & found.keys()
    assert [counts.collected for counts in found.values()] == [2, 1]


def test_a_forgers_questions_are_not_counted_as_attempts(panel: Panel) -> None:
    panel.written("W1")
    forged = panel.floor.open("W2")
    panel.floor.ask(forged, "whatever")
    assert figures(panel).counts.tries == 1


def test_answers_cannot_be_grouped_by_label(seat: SeatPanel) -> None:
    panel = seat("qa")
    panel.written("W1")
    with pytest.raises(MetricsUnavailable):
        by(panel, "label")
    assert sum(counts.collected for counts in by(panel, "context").values()) == 1


def test_alpha_measures_how_far_validators_agree(panel: Panel) -> None:
    one, two = panel.floor.pending(), panel.floor.pending()
    assert figures(panel).alpha is None
    panel.vote(one, None, None)
    panel.vote(two, panel.other(two), panel.other(two))
    assert figures(panel).alpha == 1.0
    panel.vote(two, None)
    assert figures(panel).alpha == pytest.approx(1 - 4 * 2 / 12)


def test_validators_are_compared_with_the_gold_label_and_with_gold_items(seat: SeatPanel) -> None:
    panel = seat(validation={"gold_rate": 0.5}, work={"validations_per_hit": 4})
    known = [panel.floor.pending("A1") for _ in range(3)]
    for example in known:
        panel.vote(example, None, None)
    panel.decide()
    asked = [panel.floor.pending("A2") for _ in range(2)]
    page = panel.floor.validating("V1")
    panel.floor.judge_all(page, Judgement(label=known[0].label))
    panel.floor.finish(page)
    panel.floor.confirm(page)
    for example in asked:
        panel.vote(example, panel.other(example))
        panel.vote(example, panel.other(example))
        panel.vote(example, panel.other(example))
    with panel.store.read() as session:
        found = {one.name: one for one in validators(session, panel.round)}
        worker = session.scalars(select(Worker).where(Worker.external_id == "V1")).one()
    mine = found[name_of(panel, worker.id)]
    assert (mine.votes, mine.flags) == (2, 0)
    assert (mine.agreed.count, mine.agreed.of) == (0, 2)
    assert (mine.gold.count, mine.gold.of) == (2, 2)
    assert all(one.gold.share is None for name, one in found.items() if name != mine.name)
