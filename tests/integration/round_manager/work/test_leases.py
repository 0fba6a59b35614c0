"""After any sequence of actions, no item is leased to more workers than its rule allows."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from round_manager.models import Context, Example, HitKind, Lease, SessionStatus, Vote, Worker, WorkItem, WorkSession
from round_manager.work import context_strategies
from round_manager.work.context_strategies import RANKS, ContextUsage
from round_manager.work.errors import NothingToDo
from round_manager.work.sessions import sweep
from round_manager.work.validation_work import Judgement
from tests.campaign import Campaign, NewCampaign

WORKERS = ["W1", "W2", "W3"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "check", "check", "done", "confirm", "forge", "wait", "sweep", "example"]),
        st.sampled_from(WORKERS),
        st.integers(0, 5),
    ),
    min_size=25,
    max_size=30,
)


class Walk:
    """Random actions of several workers."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.pages: list[WorkSession] = []

    def step(self, what: str, worker: str, number: int) -> None:
        """Run one action, and check the rules after it."""
        campaign = self.campaign
        if what == "wait":
            campaign.clock.advance(timedelta(minutes=7 * number))
        elif what == "sweep":
            with campaign.store.write() as session:
                sweep(session, now=campaign.now)
        elif what == "example":
            campaign.add_example(worker, wanted=1 + number % 3)
        elif what in ("write", "check"):
            self.open(worker, HitKind.CREATE if what == "write" else HitKind.VALIDATE)
        elif self.pages:
            self.end(what, worker, self.pages[number % len(self.pages)])
        self.check_rules()

    def open(self, worker: str, kind: HitKind) -> None:
        before, held = self.standings(worker), self.held(worker)
        try:
            page = self.campaign.open_page(worker, kind=kind)
        except NothingToDo:
            return
        self.pages.append(page)
        if kind is HitKind.CREATE and not before:
            # Nothing else is left: what their own pages have held the longest.
            assert self.campaign.context_of(page).id == held[0]
        elif kind is HitKind.CREATE:
            # The context is one that the strategy ranks first among those that this worker may have.
            rank = RANKS[self.campaign.spec.rounds.context_strategy]
            chosen = before[self.campaign.context_of(page).id]
            assert rank(chosen) == min(rank(one) for one in before.values())
        else:
            self.check_wanted(page)

    def end(self, what: str, worker: str, page: WorkSession) -> None:
        campaign = self.campaign
        is_open = campaign.reload(page).status is SessionStatus.OPEN and campaign.now < page.expires_at
        is_checking = bool(campaign.rows(WorkItem, WorkItem.session_id == page.id, WorkItem.example_id.is_not(None)))
        if what == "done" and is_open:
            if is_checking:
                campaign.judge_all(page, Judgement(label="positive"))
            else:
                campaign.write_examples(page)
            campaign.finish_page(page)
        elif what == "confirm":
            campaign.confirm(page)
        elif what == "forge":
            campaign.confirm(page, worker=worker)

    def standings(self, worker: str) -> dict[int, ContextUsage]:
        """Every context that this worker may have now, counted in the plainest way."""
        campaign = self.campaign
        live = Counter(lease.context_id for lease in campaign.live_leases())
        written = [row for row in campaign.rows(Example) if row.context_id]
        names = {row.id: row.external_id for row in campaign.rows(Worker)}
        pages = [page for page in campaign.rows(WorkSession) if names[page.worker_id] == worker]
        mine = {page.id for page in pages if self.stands(page)}
        had = {lease.context_id for lease in campaign.rows(Lease) if lease.session_id in mine}
        had |= {row.context_id for row in written if row.session_id in mine and row.status != "unconfirmed"}
        return {
            row.id: ContextUsage(
                row.id,
                row.position,
                sum(one.context_id == row.id for one in written),
                sum(one.context_id == row.id and one.fooled for one in written),
                live[row.id],
            )
            for row in campaign.rows(Context, Context.retired_at.is_(None))
            if row.id not in had
        }

    def held(self, worker: str) -> list[int]:
        """The contexts on this worker's pages, the longest held first."""
        mine = {row.id for row in self.campaign.rows(Worker) if row.external_id == worker}
        leases = [one for one in self.campaign.live_leases() if one.context_id and one.worker_id in mine]
        return [int(one.context_id or 0) for one in sorted(leases, key=lambda one: (one.leased_at, one.id))]

    def stands(self, page: WorkSession) -> bool:
        if page.status is SessionStatus.OPEN:
            return self.campaign.now < page.expires_at
        return page.status in (SessionStatus.SUBMITTED, SessionStatus.CONFIRMED)

    def check_wanted(self, page: WorkSession) -> None:
        """No example was handed out beyond the votes that it wants, nor to its author, nor twice."""
        campaign = self.campaign
        for row in campaign.rows(WorkItem, WorkItem.session_id == page.id):
            example = campaign.rows(Example, Example.id == row.example_id)[0]
            live = [one for one in campaign.live_leases() if one.example_id == example.id]
            votes = campaign.rows(Vote, Vote.example_id == example.id)
            assert len(live) + len(votes) <= example.votes_wanted
            assert example.author_id != page.worker_id
            assert page.worker_id not in {vote.worker_id for vote in votes}

    def check_rules(self) -> None:
        campaign = self.campaign
        held = Counter((one.worker_id, one.context_id, one.example_id) for one in campaign.live_leases())
        assert set(held.values()) <= {1}
        with campaign.store.read() as session:
            ended = session.execute(
                select(WorkSession.status, func.count())
                .join(Lease, Lease.session_id == WorkSession.id)
                .where(Lease.ended_at.is_(None), WorkSession.status.in_(("confirmed", "unconfirmed", "expired")))
                .group_by(WorkSession.status)
            )
            assert ended.all() == []


@pytest.mark.any_database
@pytest.mark.parametrize(
    ("strategy", "window"),
    [("in_order", context_strategies.WINDOW), ("uniform", 2), ("least_fooled", 1)],
)
def test_leases_follow_their_rules_after_any_sequence_of_actions(
    new_campaign: NewCampaign, monkeypatch: pytest.MonkeyPatch, strategy: str, window: int
) -> None:
    monkeypatch.setattr(context_strategies, "WINDOW", window)
    campaign = new_campaign(
        contexts=4, work={"hits_at_once": 100}, validation={"gold_rate": 0.0}, rounds={"context_strategy": strategy}
    )

    @settings(
        max_examples=3,
        deadline=None,
        derandomize=True,
        # What came before is still in the database, so a walk cannot be made shorter and tried again.
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(steps=STEPS)
    def walk(steps: list[tuple[str, str, int]]) -> None:
        walked = Walk(campaign)
        for step in steps:
            walked.step(*step)

    walk()
    assert len({lease.outcome for lease in campaign.rows(Lease)}) > 1, "the walk came nowhere"
