"""A task with a marketplace, workers, models, archives, and managers that can be killed."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count, cycle
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
from round_manager.services.context import Actor, ConnectedCrowd, ServiceContext
from round_manager.services.model_versions import ModelDeployment, register_versions
from round_manager.services.training_supervisor import TrainingSupervisor
from round_manager.tasks.rounds import list_rounds, pinned_versions
from round_manager.tasks.tasks import find_task
from round_manager.work.errors import NothingToDo, WorkRefused
from round_manager.work.validation_work import Judgement, judge_item
from tests.fakes.registry import QuickRegistry, load_fixed, make_version
from tests.integration.plugin.manager.mortal import Fate, Killed, MortalCrowd, MortalStore
from tests.integration.round_manager.work.floor import Floor, lay_floor

TASK = "sentiment"
MANAGER = "manager@test"
PEOPLE = tuple(f"W{number}" for number in range(1, 9))
SMALL: dict[str, dict[str, Any]] = {
    "rounds": {"target_fooling": 3, "split_by_worker": False, "held_out_share": 0.0},
    "validation": {"gold_rate": 0.0, "sample_non_fooling": 0.0},
    "budget": {"round_cents": 20_000, "task_cents": 60_000},
    "pay": {"minimum_hourly_cents": 0},
    "work": {"create_minutes": 60, "validate_minutes": 60},
}


@dataclass(frozen=True)
class FakeRunner:
    """Runs instant trainings that end as the company says; each rotates in a new version."""

    company: "Company"

    def start(self, request: JobRequest) -> None:
        company = self.company
        pid = next(company.numbers)
        version = company.new_version(f"after {pid}")
        company.trained.append(version)
        models = ModelDeployment(company.registry, "models", load_fixed)
        register_versions(company.service_context, models, TASK, [version])
        with company.store.write() as session:
            task = find_task(session, request.task)
            last = [one for one in list_rounds(session, task) if one.closed_at][-1]
            owner = JobOwner(MANAGER, "here", pid, request.token)
            job = start_job(session, task, last, "head", owner, now=company.clock.now())
            made = find_versions(session, task, [version])[0]
            how = company.training_ends
            may_pass = company.training_may_pass
            finish_job(session, job.id, how, "because", now=company.clock.now(), version=made, retry=may_pass)
        if how is TrainingState.ROTATED:
            company.registry.set_pins(TASK, (version,))

    def status(self, request: JobRequest) -> JobStatus:
        rotated = self.company.training_ends is TrainingState.ROTATED
        return JobStatus(JobOutcome.SUCCEEDED if rotated else JobOutcome.FAILED, "because")

    def stop(self, request: JobRequest) -> None: ...

    def log(self, request: JobRequest) -> str:
        return ""


@dataclass
class Company:
    """One task's rounds and their workers; each pass has a new manager."""

    floor: Floor
    store: Store
    crowd: MortalCrowd
    models: Path
    archives: Path
    training_ends: TrainingState = TrainingState.ROTATED
    training_may_pass: bool = False
    last_round: int | None = None
    check_pages: Callable[[], bool] = lambda: True
    check_backend: Callable[[str, int], None] = lambda task, number: None
    slow: timedelta = timedelta(seconds=1)
    trained: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    turns: Iterator[str] = field(default_factory=lambda: cycle(PEOPLE))

    def __post_init__(self) -> None:
        self._trainings = self._supervisor()

    @property
    def clock(self) -> Any:
        return self.floor.clock

    @property
    def registry(self) -> QuickRegistry:
        return QuickRegistry(self.models)

    def context(self, **changes: Any) -> ManagerContext:
        store, crowd, clock = self.store, self.crowd, self.clock
        poster = HitPoster(store, crowd, clock, lambda hit: f"http://pages.test/{hit.public_id.hex}", threads=1)
        payments = PaymentSender(store, crowd, clock, actor=MANAGER, threads=1)
        services = ConnectedCrowd(
            crowd=crowd,
            poster=poster,
            collector=Collector(store, crowd, clock, threads=1),
            payments=payments,
            reconciler=Reconciler(store, crowd, clock, poster, payments),
            rejections=Rejections(store, crowd, clock),
            access=WorkerAccess(store, crowd, clock),
        )
        parts: dict[str, Any] = {
            "store": store,
            "clock": clock,
            "who": MANAGER,
            "crowd": services,
            "label_studio": None,
            "archives": lambda: open_archives(str(self.archives)),
            "models": lambda: ModelDeployment(self.registry, "models", load_fixed, 5.0),
            "trainings": self._trainings,
            "check_pages": self.check_pages,
            "check_backend": self.check_backend,
            "last_round": self.last_round,
        }
        return ManagerContext(**{**parts, **changes})

    def manage(
        self, steps: Sequence[Step] = STEPS, *, respect_backoff: bool = False, **changes: Any
    ) -> list[StepOutcome]:
        """Run one pass of a newly started manager."""
        return Manager(self.context(**changes), steps).once(respect_backoff=respect_backoff)

    def mortal(self, fate: Fate) -> "Company":
        """Return the same company with managers that may die around any transaction and after any call."""
        self.crowd.fate = fate
        return replace(self, store=MortalStore(self.store, fate))

    def hire(self, *people: str) -> None:
        """Give the workers the task's qualification."""
        for person in people or PEOPLE:
            WorkerAccess(self.store, self.crowd, self.clock).grant(
                self.floor.task, person, actor="owner", reason="a test"
            )

    def new_version(self, note: str) -> str:
        return make_version(self.models, "negative", note=note)

    def rounds(self) -> list[Round]:
        return self.floor.rows(Round)

    def statuses(self) -> list[str]:
        return [one.status.value for one in self.rounds()]

    def standing(self, kind: HitKind) -> list[Hit]:
        """Return the HITs that workers can accept."""
        return self.floor.rows(Hit, Hit.kind == kind, Hit.status == HitStatus.ASSIGNABLE)

    def write(self, most: int = 100, *, fooling: bool = True) -> int:
        """Let workers accept and submit creation HITs; return how many did."""
        done = 0
        for hit in self.standing(HitKind.CREATE)[:most]:
            worker = next(self.turns)
            page = self.take(hit, worker)
            if page is None:
                continue
            self.floor.write_all(page) if fooling else self._write_plainly(page)
            self.submit(hit, worker, page)
            done += 1
        return done

    def check(self, most: int = 100, *, agree: bool = True) -> int:
        """Let workers submit validation HITs, agreeing with the authors or not; return how many did."""
        done = 0
        for hit in self.standing(HitKind.VALIDATE)[:most]:
            for _ in PEOPLE:
                worker = next(self.turns)
                page = self.take(hit, worker)
                if page is not None:
                    self._judge(page, agree=agree)
                    self.submit(hit, worker, page)
                    done += 1
                    break
        return done

    def play(self, until: Callable[[], bool], turns: int = 40) -> None:
        """Alternate managers and workers until the condition is true."""
        for _ in range(turns):
            self.settle()
            if until():
                return
            self.write()
            self.check()
        raise AssertionError(f"it does not come to that: {self.books()}")

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

    def books(self) -> dict[str, Any]:
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
            "hits": Counter(hit.kind.value for hit in self.floor.rows(Hit)),
            "posted": len(list(self.crowd._hits)),
            "account": self.crowd._available(),
        }

    @property
    def service_context(self) -> ServiceContext:
        return ServiceContext(self.store, self.clock)

    def _supervisor(self) -> TrainingSupervisor:
        return TrainingSupervisor(self.service_context, Actor(MANAGER), FakeRunner(self))

    def take(self, hit: Hit, worker: str) -> WorkSession | None:
        """Let a worker accept the HIT and open its page; they return a HIT without work."""
        self.crowd.accept(str(hit.external_id), worker)
        number = 1 + len(self.floor.rows(Assignment, Assignment.hit_id == hit.id))
        with self.store.read() as session:
            # Texts are judged by the round's own model.
            (self.floor.version,) = pinned_versions(session, session.get_one(Round, hit.round_id))
        try:
            return self.floor.open(worker, hit=hit, assignment=f"{hit.external_id}W{number}")
        except (NothingToDo, WorkRefused):
            self.crowd.give_back(str(hit.external_id), worker)
            return None

    def submit(self, hit: Hit, worker: str, page: WorkSession) -> None:
        """Submit the page and its HIT, after the time that a worker takes here."""
        self.clock.advance(self.slow)
        self.floor.finish(page)
        assert self.crowd.submit(str(hit.external_id), worker) == page.claimed_assignment

    def _write_plainly(self, page: WorkSession) -> None:
        with self.store.read() as session:
            target = session.scalars(select(WorkItem.label).where(WorkItem.session_id == page.id)).one()
        texts = [f"This is {target} {page.id}, version {number}" for number in range(3)]
        for text in texts:
            self.floor.ask(page, text)
        self.floor.hand_in(page, texts[-1])

    def _judge(self, page: WorkSession, *, agree: bool) -> None:
        with self.floor.write() as session:
            for item in session.scalars(select(WorkItem).where(WorkItem.session_id == page.id)).all():
                right = session.get_one(Example, item.example_id).label
                wrong = next(name for name in self.floor.spec.label_names if name != right)
                judge_item(session, page, item.item, Judgement(label=right if agree else wrong), now=self.floor.now)


def found_company(store: Store, folder: Path, **terms: dict[str, Any]) -> Company:
    """The sentiment task with round 1 open, on small terms; parts of its spec can be changed."""
    parts = {name: {**SMALL.get(name, {}), **terms.get(name, {})} for name in {*SMALL, *terms}}
    floor = lay_floor(store, TASK, contexts=8, **parts)
    company = Company(floor, store, MortalCrowd(floor.clock.now), folder / "models", folder / "archives")
    company.archives.mkdir()
    company.registry.set_pins(TASK, (company.new_version("base"),))
    return company
