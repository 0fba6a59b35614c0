"""A campaign that managers run, with models, archives and trainings; managers can be killed."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from plugin.manager.loop import STEPS, Manager, StepOutcome
from plugin.manager.step import ManagerContext, Step
from round_manager.archive.storage import open_archives
from round_manager.crowd.collection import Collector
from round_manager.crowd.hit_posting import HitPoster
from round_manager.crowd.payments import PaymentSender
from round_manager.crowd.reconciliation import Reconciler
from round_manager.crowd.reviews import Rejections
from round_manager.crowd.workers import WorkerAccess
from round_manager.database.store import Store
from round_manager.jobs import JobOutcome, JobOwner, JobRequest, JobStatus
from round_manager.learning.training_jobs import finish_job, start_job
from round_manager.learning.versions import find_versions
from round_manager.models import (
    Assignment,
    Example,
    Hit,
    HitKind,
    HitStatus,
    LedgerEntry,
    Round,
    TrainingState,
    Vote,
    WorkItem,
    WorkSession,
)
from round_manager.services.context import Actor, ConnectedCrowd, Role, ServiceContext
from round_manager.services.model_versions import ModelDeployment, register_versions
from round_manager.services.submission_supervisor import SubmissionSupervisor
from round_manager.services.training_supervisor import TrainingSupervisor
from round_manager.tasks.rounds import list_rounds, pinned_versions
from round_manager.tasks.tasks import find_task
from round_manager.work.errors import NothingToDo, WorkRefused
from round_manager.work.validation_work import Judgement, judge_item
from tests.campaign import Campaign, start_campaign
from tests.fakes.registry import QuickRegistry, load_fixed, make_version
from tests.integration.plugin.manager.kills import Killed, KillingCrowd, KillingStore, RandomKills

TASK = "sentiment"
MANAGER = "manager@test"
WORKERS = tuple(f"W{number}" for number in range(1, 9))
SMALL: dict[str, dict[str, Any]] = {
    "rounds": {"target_fooling": 3, "split_by_worker": False, "held_out_share": 0.0},
    "validation": {"gold_rate": 0.0, "sample_non_fooling": 0.0},
    "budget": {"round_cents": 20_000, "task_cents": 60_000},
    "pay": {"minimum_hourly_cents": 0},
    "work": {"create_minutes": 60, "validate_minutes": 60},
}


@dataclass(frozen=True)
class FakeRunner:
    """Runs instant trainings that end as the campaign says; each rotates in a new version."""

    campaign: "ManagedCampaign"
    durable: bool = False

    def start(self, request: JobRequest) -> None:
        campaign = self.campaign
        pid = next(campaign.numbers)
        version = campaign.new_version(f"after {pid}")
        campaign.trained.append(version)
        models = ModelDeployment(campaign.registry, "models", load_fixed)
        register_versions(campaign.manager_services, models, TASK, [version])
        with campaign.store.write() as session:
            task = find_task(session, request.task)
            last = [one for one in list_rounds(session, task) if one.closed_at][-1]
            owner = JobOwner(MANAGER, "here", pid, request.token)
            job = start_job(session, task, last, "head", owner, now=campaign.now)
            made = find_versions(session, task, [version])[0]
            how = campaign.training_ends
            may_pass = campaign.training_may_pass
            finish_job(session, job.id, how, "because", now=campaign.now, version=made, retry=may_pass)
        if how is TrainingState.ROTATED:
            campaign.registry.set_pins(TASK, (version,))

    def status(self, request: JobRequest) -> JobStatus:
        rotated = self.campaign.training_ends is TrainingState.ROTATED
        return JobStatus(JobOutcome.SUCCEEDED if rotated else JobOutcome.FAILED, "because")

    def stop(self, request: JobRequest) -> None: ...

    def log(self, request: JobRequest) -> str:
        return ""


@dataclass(kw_only=True)
class ManagedCampaign(Campaign):
    """A campaign whose rounds a manager runs; each pass has a new manager.

    A manager works on its own store, so that a test can kill it while the workers go on.
    """

    crowd: KillingCrowd
    models: Path
    archives: Path
    manager_store: Store
    training_ends: TrainingState = TrainingState.ROTATED
    training_may_pass: bool = False
    last_round: int | None = None
    check_pages: Callable[[], bool] = lambda: True
    check_backend: Callable[[str, int], None] = lambda task, number: None
    slow: timedelta = timedelta(seconds=1)
    trained: list[str] = field(default_factory=list)
    workers: Iterator[str] = field(default_factory=lambda: cycle(WORKERS))

    def __post_init__(self) -> None:
        self._trainings = self._supervisor()

    @property
    def registry(self) -> QuickRegistry:
        return QuickRegistry(self.models)

    @property
    def manager_services(self) -> ServiceContext:
        return ServiceContext(self.manager_store, self.clock)

    def manager_context(self, **changes: Any) -> ManagerContext:
        store, crowd, clock = self.manager_store, self.crowd, self.clock
        poster = HitPoster(store, crowd, clock, lambda hit: f"http://pages.test/{hit.public_id.hex}", threads=1)
        payments = PaymentSender(store, crowd, clock, actor=MANAGER, threads=1)
        connected = ConnectedCrowd(
            crowd=crowd,
            poster=poster,
            collector=Collector(store, crowd, clock, threads=1),
            payments=payments,
            reconciler=Reconciler(store, crowd, clock, poster, payments),
            rejections=Rejections(store, crowd, clock),
            access=WorkerAccess(store, crowd, clock),
        )
        parts: dict[str, Any] = {
            "services": self.manager_services,
            "actor": Actor(MANAGER, Role.SYSTEM),
            "crowd": connected,
            "label_studio": None,
            "archives": lambda: open_archives(str(self.archives)),
            "models": lambda: ModelDeployment(self.registry, "models", load_fixed, 5.0),
            "trainings": self._trainings,
            "submissions": SubmissionSupervisor(self.manager_services, FakeRunner(self)),
            "check_pages": self.check_pages,
            "check_backend": self.check_backend,
            "last_round": self.last_round,
        }
        return ManagerContext(**{**parts, **changes})

    def manage(
        self, steps: Sequence[Step] = STEPS, *, respect_backoff: bool = False, **changes: Any
    ) -> list[StepOutcome]:
        """Run one pass of a newly started manager."""
        return Manager(self.manager_context(**changes), steps).once(respect_backoff=respect_backoff)

    def with_kills(self, kills: RandomKills) -> "ManagedCampaign":
        """Return the same campaign with managers that may be killed around any transaction and after any call."""
        self.crowd.kills = kills
        return replace(self, manager_store=KillingStore(self.store, kills))

    def qualify_workers(self, *workers: str) -> None:
        """Give the workers the task's qualification, by default all of them."""
        for worker in workers or WORKERS:
            WorkerAccess(self.store, self.crowd, self.clock).grant(self.task, worker, actor="owner", reason="a test")

    def new_version(self, note: str) -> str:
        return make_version(self.models, "negative", note=note)

    def rounds(self) -> list[Round]:
        return self.rows(Round)

    def statuses(self) -> list[str]:
        return [one.status.value for one in self.rounds()]

    def open_hits(self, kind: HitKind) -> list[Hit]:
        """Return the HITs that workers can accept."""
        return self.rows(Hit, Hit.kind == kind, Hit.status == HitStatus.ASSIGNABLE)

    def write_hits(self, most: int = 100, *, fooling: bool = True) -> int:
        """Let workers accept and submit creation HITs; return how many did."""
        done = 0
        for hit in self.open_hits(HitKind.CREATE)[:most]:
            worker = next(self.workers)
            page = self.try_hit(hit, worker)
            if page is None:
                continue
            self.write_examples(page) if fooling else self._write_three_attempts(page)
            self.submit_hit(hit, worker, page)
            done += 1
        return done

    def check_hits(self, most: int = 100, *, agree: bool = True) -> int:
        """Let workers submit validation HITs, agreeing with the authors or not; return how many did."""
        done = 0
        for hit in self.open_hits(HitKind.VALIDATE)[:most]:
            for _ in WORKERS:
                worker = next(self.workers)
                page = self.try_hit(hit, worker)
                if page is not None:
                    self._judge(page, agree=agree)
                    self.submit_hit(hit, worker, page)
                    done += 1
                    break
        return done

    def play(self, until: Callable[[], bool], turns: int = 40) -> None:
        """Alternate managers and workers until the condition is true."""
        for _ in range(turns):
            self.settle()
            if until():
                return
            self.write_hits()
            self.check_hits()
        raise AssertionError(f"the condition is still false: {self.end_state()}")

    def settle(self, passes: int = 200) -> None:
        """Run passes until one has nothing to do; restart a killed manager."""
        for _ in range(passes):
            try:
                outcomes = self.manage()
            except Killed:
                # A new manager process does not know the trainings of the killed one.
                self._trainings = self._supervisor()
                continue
            if not any(outcome.result.done for outcome in outcomes):
                return
        raise AssertionError("there is always something to do")

    def is_over(self, rounds: int) -> bool:
        """Return whether this many rounds were opened, and all are closed and frozen."""
        frozen = [one.frozen_at is not None for one in self.rounds() if one.opened_at is not None]
        return len(frozen) == rounds and all(frozen)

    def end_state(self) -> dict[str, Any]:
        """Return everything that must not depend on the number of managers or on how often they die."""
        with self.store.read() as session:
            entries = session.execute(
                select(Round.number, LedgerEntry.kind, LedgerEntry.state, func.sum(LedgerEntry.cents))
                .join(Round, Round.id == LedgerEntry.round_id)
                .group_by(Round.number, LedgerEntry.kind, LedgerEntry.state)
            ).all()
            examples = session.execute(
                select(Round.number, Example.status, Example.split).join(Round, Round.id == Example.round_id)
            ).all()
            votes = session.scalar(select(func.count()).select_from(Vote))
        return {
            "rounds": self.statuses(),
            "money": sorted(f"{round} {kind} {state} {cents}" for round, kind, state, cents in entries),
            "examples": Counter(f"{round} {status} {split}" for round, status, split in examples),
            "votes": votes,
            "hits": Counter(hit.kind.value for hit in self.rows(Hit)),
            "posted": len(list(self.crowd._hits)),
            "account": self.crowd._available(),
        }

    def _supervisor(self) -> TrainingSupervisor:
        return TrainingSupervisor(self.manager_services, Actor(MANAGER), FakeRunner(self))

    def try_hit(self, hit: Hit, worker: str) -> WorkSession | None:
        """Let a worker accept the HIT and open its page; they return a HIT without work."""
        place = 1 + len(self.rows(Assignment, Assignment.hit_id == hit.id))
        with self.store.read() as session:
            # Texts are judged by the round's own model.
            self.versions = pinned_versions(session, session.get_one(Round, hit.round_id))
        try:
            return self.accept_hit(hit, worker, place)
        except (NothingToDo, WorkRefused):
            self.crowd.give_back(str(hit.external_id), worker)
            return None

    def submit_hit(self, hit: Hit, worker: str, page: WorkSession) -> None:
        """Submit the page and its HIT, after the time that a worker takes here."""
        self.clock.advance(self.slow)
        super().submit_hit(hit, worker, page)

    def _write_three_attempts(self, page: WorkSession) -> None:
        with self.store.read() as session:
            target = session.scalars(select(WorkItem.label).where(WorkItem.session_id == page.id)).one()
        texts = [f"This is {target} {page.id}, version {number}" for number in range(3)]
        for text in texts:
            self.ask_target(page, text)
        self.submit_example(page, texts[-1])

    def _judge(self, page: WorkSession, *, agree: bool) -> None:
        with self.store.write() as session:
            for item in session.scalars(select(WorkItem).where(WorkItem.session_id == page.id)).all():
                example = session.get_one(Example, item.example_id)
                label = example.label if agree else self.other_label(example)
                judge_item(session, page, item.item, Judgement(label=label), now=self.now)


def start_managed(store: Store, folder: Path, **terms: Any) -> ManagedCampaign:
    """Start the sentiment task with round 1 open, on small terms; parts of its spec can be changed."""
    parts: dict[str, Any] = {name: {**SMALL.get(name, {}), **terms.get(name, {})} for name in {*SMALL, *terms}}
    begun = start_campaign(store, TASK, **parts)
    campaign = begun.extended(
        ManagedCampaign,
        crowd=KillingCrowd(begun.clock.now),
        models=folder / "models",
        archives=folder / "archives",
        manager_store=store,
    )
    campaign.archives.mkdir()
    campaign.registry.set_pins(TASK, (campaign.new_version("base"),))
    return campaign
