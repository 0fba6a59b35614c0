"""The people of the benchmark: an owner who opens rounds and approves top-ups, and workers who write and judge.

They use the marketplace and the pages as people do, by a clock that jumps, and give back a HIT whose page refuses them.
"""

import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Self

from sqlalchemy import select

from common.clock import SystemClock
from round_manager.models import Example, Hit, HitKind, ModelVersion, RoundStatus, Task, WorkItem, WorkSession
from round_manager.services import work as pages
from round_manager.services.context import ConnectedCrowd
from round_manager.services.payments import find_due_top_ups, owe_top_ups, plan_top_ups
from round_manager.tasks.rounds import live_round, open_round
from round_manager.work.errors import WorkRefused
from round_manager.work.validation_work import Judgement
from tests.bench.crashing.place import Place, TakenHit
from tests.campaign import Campaign

WORKERS = 8
HOUR = 3_600.0
# Seconds of work on one page; at the task's minimum, most pages pay less than that.
SHORTEST, LONGEST = 20.0, 80.0
SHARE_FOOLING, SHARE_AGREEING, SHARE_JUMPING = 0.8, 0.9, 0.1
SECONDS_BETWEEN_VISITS = 0.05


@dataclass
class CrewCounts:
    """What people did."""

    rounds: int = 1
    written: int = 0
    judged: int = 0
    returned: int = 0
    approvals: int = 0
    jumps: int = 0

    @property
    def submitted(self) -> int:
        """How many HITs the marketplace accepted from workers."""
        return self.written + self.judged


@dataclass
class Crew:
    """Works in a thread until the end of the block; `stop_opening` lets the last round end."""

    campaign: Campaign
    place: Place
    crowd: ConnectedCrowd
    dice: Random
    counts: CrewCounts = field(default_factory=CrewCounts)

    def __post_init__(self) -> None:
        self._workers = self.place.add_workers(WORKERS)
        self._opens = True
        self._end = threading.Event()
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="crew", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def check(self) -> None:
        """Raise an error if one stopped the work."""
        if self._failure is not None:
            raise RuntimeError("the crew stopped") from self._failure

    def stop_opening(self) -> None:
        """Open no further round."""
        self._opens = False

    def wait_for_end(self, seconds: float) -> None:
        """Wait until the last round is closed."""
        if not self._over.wait(seconds):
            self.check()
            raise TimeoutError(f"the last round is not closed: {[one.text for one in self.campaign.waiting()]}")
        self.check()

    def _run(self) -> None:
        try:
            while not self._end.wait(SECONDS_BETWEEN_VISITS):
                self._own()
                self._visit(self.dice.choice(self._workers))
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: `check` raises it
            self._failure = error
            self._over.set()

    def _own(self) -> None:
        """Open the next round after the last one is closed, and approve top-ups that wait for the owner."""
        campaign, task = self.campaign, self.campaign.task
        with campaign.store.read() as session:
            live = live_round(session, task.id)
        if live is None and not self._opens:
            self._over.set()
        elif live is None:
            with campaign.store.write() as session:
                versions = session.scalars(select(ModelVersion)).all()
                owner, now = session.get_one(Task, task.id), SystemClock().now()
                opened = open_round(session, owner, versions, now=now, actor="owner", reason="the last one is closed")
            self.campaign, self._workers = replace(campaign, round_id=opened.id), self.place.add_workers(WORKERS)
            self.counts.rounds += 1
        elif live.status is RoundStatus.VALIDATING and find_due_top_ups(campaign.services, task.name).need_approval:
            plan = plan_top_ups(campaign.services, self.crowd, task.name)
            self.counts.approvals += owe_top_ups(campaign.services, campaign.owner, self.crowd, plan) > 0

    def _visit(self, worker: str) -> None:
        """Take a HIT, do its work and submit it; give it back if its page refuses the worker."""
        taken = self.place.accept(worker, self.dice)
        if taken is None:
            return
        try:
            kind = self._work(worker, taken)
        except WorkRefused:
            self.place.give_back(worker, taken)
            self.counts.returned += 1
            return
        self.place.submit(taken)
        if kind is HitKind.CREATE:
            self.counts.written += 1
        else:
            self.counts.judged += 1

    def _work(self, worker: str, taken: TakenHit) -> HitKind:
        campaign, dice = self.campaign, self.dice
        (hit,) = campaign.rows(Hit, Hit.key == taken.key)
        self._jump()
        page = campaign.open_page(worker, hit=hit, assignment=taken.assignment_id)
        seconds = dice.uniform(SHORTEST, LONGEST)
        campaign.clock.advance(timedelta(seconds=seconds))
        pages.record_active_time(campaign.services, page.public_id, int(1_000 * seconds))
        if dice.random() < SHARE_JUMPING:
            self._jump()
        if hit.kind is HitKind.CREATE:
            campaign.write_examples(page, fooling=dice.random() < SHARE_FOOLING)
        else:
            self._judge(page)
        campaign.finish_page(page)
        return HitKind(hit.kind)

    def _judge(self, page: WorkSession) -> None:
        """Agree with the author mostly, so that most texts that fooled the model earn their bonus."""
        campaign = self.campaign
        for item in campaign.rows(WorkItem, WorkItem.session_id == page.id):
            (example,) = campaign.rows(Example, Example.id == item.example_id)
            others = [name for name in campaign.spec.label_names if name != example.label]
            label = example.label if self.dice.random() < SHARE_AGREEING else others[0]
            judgement = Judgement(label=label)
            pages.judge_example(campaign.services, page.public_id, item.item, read=partial(_given, judgement))

    def _jump(self) -> None:
        """Set the clock of the pages to a time within an hour of the real one."""
        self.campaign.clock.set(SystemClock().now() + timedelta(seconds=self.dice.uniform(-HOUR, HOUR)))
        self.counts.jumps += 1


def _given(judgement: Judgement, *_shown: object) -> Judgement:
    return judgement
