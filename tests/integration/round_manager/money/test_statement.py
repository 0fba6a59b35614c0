"""The statement of any moment adds up."""

from datetime import date, timedelta

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from crowd.errors import CrowdUnavailable
from round_manager.models import EntryKind, Task
from round_manager.money.budget import StatementLine, end_of, statement
from tests.integration.databases import Databases
from tests.integration.round_manager.crowd.counter import DAY, OWNER, Counter, open_counter


def lines(counter: Counter, *, days_ago: int = 0) -> tuple[StatementLine, StatementLine]:
    with counter.store.read() as session:
        task = session.get_one(Task, counter.task.id)
        whole, first = statement(session, task, at=counter.clock.now() + timedelta(seconds=1) - days_ago * DAY)
    return whole, first


def test_a_days_statement_does_not_change_later(counter: Counter) -> None:
    counter.post(4)
    done = counter.work(minutes=1)
    counter.collector.run()
    _, posted = lines(counter)
    assert posted.figures.reserved_cents == counter.figures().reserved_cents > 0
    assert posted.newly_reserved_cents == posted.figures.reserved_cents
    counter.clock.advance(DAY)
    counter.approve(done[:2])
    counter.payments.run()
    counter.rejections.reject(done[2], "No.", actor=OWNER)
    _, today = lines(counter)
    assert today.figures.sent_cents == today.confirmed_cents == today.newly_sent_cents > 0
    assert today.newly_released_cents > 0
    assert today.newly_reserved_cents == 0
    _, yesterday = lines(counter, days_ago=1)
    assert yesterday.figures == posted.figures
    assert all(line.adds_up for line in (posted, today, yesterday))


def test_a_payment_in_doubt_counts_as_sent_until_it_is_settled(counter: Counter) -> None:
    (done,) = counter.collected()
    counter.approve([done])
    counter.crowd.fail(CrowdUnavailable("silence"), call=2)
    counter.payments.run()
    _, line = lines(counter)
    assert line.figures.sent_cents > 0
    assert line.confirmed_cents == 0
    assert line.adds_up


def test_a_day_ends_when_the_next_begins() -> None:
    assert end_of(date(2027, 3, 1)).isoformat() == "2027-03-02T00:00:00+00:00"


class Books(RuleBasedStateMachine):
    """Random operations on a ledger, which is checked after every step."""

    counter: Counter

    @rule(hits=st.integers(1, 3), assignments=st.integers(1, 2))
    def post(self, hits: int, assignments: int) -> None:
        self.counter.post(hits, assignments=assignments)

    @rule(worker=st.sampled_from(["W1", "W2", "W3"]), count=st.integers(1, 3))
    def work(self, worker: str, count: int) -> None:
        for hit in list(self.counter.crowd.hits())[:count]:
            held_by = {one.worker_id for one in self.counter.crowd.assignments(hit.hit_id)}
            if hit.available and hit.state == "assignable" and worker not in held_by:
                self.counter.crowd.submit(hit.hit_id, worker)

    @rule()
    def collect(self) -> None:
        self.counter.collector.run()

    @rule(first=st.integers(0, 5), count=st.integers(1, 4))
    def approve(self, first: int, count: int) -> None:
        self.counter.approve(self._undecided()[first : first + count])

    @rule(place=st.integers(0, 5))
    def reject(self, place: int) -> None:
        for one in self._undecided()[place : place + 1]:
            self.counter.rejections.reject(one, "No.", actor=OWNER)

    @rule(place=st.integers(0, 5), cents=st.integers(1, 90))
    def bonus(self, place: int, cents: int) -> None:
        for one in self._undecided()[place : place + 1]:
            self.counter.bonus(one, cents)

    @rule()
    def pay(self) -> None:
        self.counter.payments.run()

    @rule(call=st.integers(1, 6), after=st.booleans(), what=st.sampled_from(["post", "pay", "reconcile"]))
    def fail(self, call: int, after: bool, what: str) -> None:
        self.counter.crowd.fail(CrowdUnavailable("silence"), call=call, after=after)
        if what == "post":
            self.counter.post(2)
        elif what == "pay":
            self.counter.payments.run()
        else:
            self.counter.reconciler.run()
        self.counter.crowd.forgive()

    @rule()
    def reconcile(self) -> None:
        self.counter.reconciler.run()

    @rule(hours=st.integers(1, 30))
    def wait(self, hours: int) -> None:
        self.counter.clock.advance(timedelta(hours=hours))
        self.counter.collector.run()  # what the marketplace approved automatically meanwhile

    @invariant()
    def the_books_add_up(self) -> None:
        self.counter.check()

    def _undecided(self) -> list[str]:
        from round_manager.crowd.reviews import undecided

        with self.counter.store.read() as session:
            return [one.assignment_id for one in undecided(session, self.counter.crowd.name)]


def test_the_ledger_always_adds_up(any_databases: Databases) -> None:
    class Fresh(Books):
        def __init__(self) -> None:
            super().__init__()
            self._opened = any_databases.opened()
            self.counter = open_counter(self._opened.__enter__())

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


def test_an_extra_bonus_has_a_key_of_its_kind(counter: Counter) -> None:
    (done,) = counter.collected()
    assert counter.bonus(done).startswith("x-")
    assert counter.states(EntryKind.EXTRA) == {"owed": 1}
