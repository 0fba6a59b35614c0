"""The statement of any moment adds up."""

from datetime import date, timedelta

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from crowd.errors import CrowdUnavailable
from round_manager.models import EntryKind, Task
from round_manager.money.budget import StatementLine, end_of, statement
from tests.campaign import DAY, OWNER, Campaign, start_campaign
from tests.integration.databases import Databases


def lines(campaign: Campaign, *, days_ago: int = 0) -> tuple[StatementLine, StatementLine]:
    with campaign.store.read() as session:
        task = session.get_one(Task, campaign.task.id)
        whole, first = statement(session, task, at=campaign.now + timedelta(seconds=1) - days_ago * DAY)
    return whole, first


def test_a_days_statement_does_not_change_later(campaign: Campaign) -> None:
    campaign.post_hits(4)
    done = campaign.submit_all(minutes=1)
    campaign.marketplace.collector.run()
    _, posted = lines(campaign)
    assert posted.figures.reserved_cents == campaign.figures().reserved_cents > 0
    assert posted.newly_reserved_cents == posted.figures.reserved_cents
    campaign.clock.advance(DAY)
    campaign.approve(done[:2])
    campaign.marketplace.payments.run()
    campaign.marketplace.rejections.reject(done[2], "No.", actor=OWNER)
    _, today = lines(campaign)
    assert today.figures.sent_cents == today.confirmed_cents == today.newly_sent_cents > 0
    assert today.newly_released_cents > 0
    assert today.newly_reserved_cents == 0
    _, yesterday = lines(campaign, days_ago=1)
    assert yesterday.figures == posted.figures
    assert all(line.adds_up for line in (posted, today, yesterday))


def test_a_payment_in_doubt_counts_as_sent_until_it_is_settled(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    campaign.approve([done])
    campaign.crowd.fail(CrowdUnavailable("silence"), call=2)
    campaign.marketplace.payments.run()
    _, line = lines(campaign)
    assert line.figures.sent_cents > 0
    assert line.confirmed_cents == 0
    assert line.adds_up


def test_a_day_ends_when_the_next_begins() -> None:
    assert end_of(date(2027, 3, 1)).isoformat() == "2027-03-02T00:00:00+00:00"


class LedgerMachine(RuleBasedStateMachine):
    """Random operations on a ledger, which is checked after every step."""

    campaign: Campaign

    @rule(hits=st.integers(1, 3), assignments=st.integers(1, 2))
    def post(self, hits: int, assignments: int) -> None:
        self.campaign.post_hits(hits, assignments=assignments)

    @rule(worker=st.sampled_from(["W1", "W2", "W3"]), count=st.integers(1, 3))
    def work(self, worker: str, count: int) -> None:
        for hit in list(self.campaign.crowd.hits())[:count]:
            held_by = {one.worker_id for one in self.campaign.crowd.assignments(hit.hit_id)}
            if hit.available and hit.state == "assignable" and worker not in held_by:
                self.campaign.crowd.submit(hit.hit_id, worker)

    @rule()
    def collect(self) -> None:
        self.campaign.marketplace.collector.run()

    @rule(first=st.integers(0, 5), count=st.integers(1, 4))
    def approve(self, first: int, count: int) -> None:
        self.campaign.approve(self._undecided()[first : first + count])

    @rule(place=st.integers(0, 5))
    def reject(self, place: int) -> None:
        for one in self._undecided()[place : place + 1]:
            self.campaign.marketplace.rejections.reject(one, "No.", actor=OWNER)

    @rule(place=st.integers(0, 5), cents=st.integers(1, 90))
    def bonus(self, place: int, cents: int) -> None:
        for one in self._undecided()[place : place + 1]:
            self.campaign.give_bonus(one, cents)

    @rule()
    def pay(self) -> None:
        self.campaign.marketplace.payments.run()

    @rule(call=st.integers(1, 6), after=st.booleans(), what=st.sampled_from(["post", "pay", "reconcile"]))
    def fail(self, call: int, after: bool, what: str) -> None:
        self.campaign.crowd.fail(CrowdUnavailable("silence"), call=call, after=after)
        if what == "post":
            self.campaign.post_hits(2)
        elif what == "pay":
            self.campaign.marketplace.payments.run()
        else:
            self.campaign.marketplace.reconciler.run()
        self.campaign.crowd.forgive()

    @rule()
    def reconcile(self) -> None:
        self.campaign.marketplace.reconciler.run()

    @rule(hours=st.integers(1, 30))
    def wait(self, hours: int) -> None:
        self.campaign.clock.advance(timedelta(hours=hours))
        self.campaign.marketplace.collector.run()  # what the marketplace approved automatically meanwhile

    @invariant()
    def the_books_add_up(self) -> None:
        self.campaign.check_ledger()

    def _undecided(self) -> list[str]:
        from round_manager.crowd.reviews import undecided

        with self.campaign.store.read() as session:
            return [one.assignment_id for one in undecided(session, self.campaign.crowd.name)]


def test_the_ledger_always_adds_up(any_databases: Databases) -> None:
    class Fresh(LedgerMachine):
        def __init__(self) -> None:
            super().__init__()
            self._opened = any_databases.opened()
            self.campaign = start_campaign(self._opened.__enter__())

        def teardown(self) -> None:
            self._opened.__exit__(None, None, None)

    run_state_machine_as_test(
        Fresh,
        settings=settings(
            max_examples=10,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            # Shrinking a failure takes minutes here; the printed steps are enough.
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_an_extra_bonus_has_a_key_of_its_kind(campaign: Campaign) -> None:
    (done,) = campaign.collected()
    assert campaign.give_bonus(done).startswith("x-")
    assert campaign.ledger_states(EntryKind.EXTRA) == {"owed": 1}
