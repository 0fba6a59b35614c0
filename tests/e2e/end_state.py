"""The end state: what must be true of a demo after its rounds, whichever processes were killed."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from common.clock import SystemClock
from ml_backend.registry.registry import open_registry
from ml_backend.serving.outbox import count_waiting
from mturk.marketplace import money
from mturk.marketplace.tables import work as tables
from plugin.marketplace import marketplace_config
from plugin.settings import Settings, load_settings
from round_manager.crowd.status import loose_ends
from round_manager.database.store import open_store
from round_manager.learning.lineage import lineage
from round_manager.learning.training_data import SETTLED
from round_manager.learning.training_jobs import list_jobs
from round_manager.models import (
    Assignment,
    EntryKind,
    EntryState,
    Example,
    ExampleStatus,
    Hit,
    HitKind,
    Lease,
    LedgerEntry,
    ModelVersion,
    Round,
    RoundStatus,
    SessionStatus,
    Task,
    TrainingJob,
    TrainingState,
    UncountedVote,
    Vote,
    WorkItem,
    WorkSession,
)
from round_manager.money.budget import drift, statement
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task
from round_manager.validation.metrics import round_metrics
from tests.e2e.running_demo import about

TASK = "sentiment"
MOST_JOBS = 1_000
DECIDED = (tables.AssignmentStatus.APPROVED, tables.AssignmentStatus.REJECTED)


@dataclass(frozen=True)
class Books:
    """Both databases at the end: ours and the marketplace's."""

    settings: Settings
    config: Path
    ours: Session
    theirs: Session
    rounds: int

    @property
    def task(self) -> Task:
        return find_task(self.ours, TASK)

    @property
    def played(self) -> list[Round]:
        """Return the rounds that were opened."""
        return [one for one in list_rounds(self.ours, self.task) if one.status is not RoundStatus.DRAFT]

    @property
    def entries(self) -> list[LedgerEntry]:
        return list(self.ours.scalars(select(LedgerEntry)))

    @property
    def handed_in(self) -> list[tables.Assignment]:
        """Return the work that was submitted on the marketplace."""
        wanted = select(tables.Assignment).where(tables.Assignment.submitted_at.is_not(None))
        return list(self.theirs.scalars(wanted))


Promise = Callable[[Books], Iterator[str]]


def broken_promises(home: Path, *, rounds: int) -> list[str]:
    """Return the problems of a demo after this many rounds; empty if there are none."""
    promises: list[Promise] = [
        rounds_are_closed_frozen_and_at_their_target,
        archives_verify_themselves,
        work_is_decided_once_and_both_sides_agree,
        work_and_fooling_examples_are_paid_once,
        both_books_agree_to_the_cent,
        nothing_is_owed_reserved_or_in_doubt,
        each_round_is_learned_from_once,
        the_newest_accepted_model_answers,
        no_example_or_vote_is_lost_or_doubled,
        nothing_is_held_or_pending,
    ]
    with _books(home, rounds) as books:
        return [f"{promise.__name__}: {text}" for promise in promises for text in promise(books)]


@dataclass(frozen=True)
class Figures:
    """The results of a run."""

    rounds: int
    examples: int
    verified_fooling: int
    votes: int
    paid_cents: int
    ledger_diff_cents: int


def figures_of(home: Path) -> Figures:
    """Return the figures of a demo that has ended."""
    with _books(home, rounds=0) as books:
        wanted = Example.status == ExampleStatus.VERIFIED, Example.fooled
        return Figures(
            rounds=sum(one.frozen_at is not None for one in books.played),
            examples=books.ours.scalar(select(func.count()).select_from(Example)) or 0,
            verified_fooling=books.ours.scalar(select(func.count()).where(*wanted)) or 0,
            votes=books.ours.scalar(select(func.count()).select_from(Vote)) or 0,
            paid_cents=_confirmed_cents(books),
            ledger_diff_cents=abs(_confirmed_cents(books) - _spent_there(books)),
        )


def rounds_are_closed_frozen_and_at_their_target(books: Books) -> Iterator[str]:
    numbers = [one.number for one in books.played]
    if numbers != list(range(1, books.rounds + 1)):
        yield f"the rounds that were opened are {numbers}"
    for one in books.played:
        if one.status is not RoundStatus.CLOSED or one.frozen_at is None:
            yield f"round {one.number} is {one.status.value}, frozen at {one.frozen_at}"
        found = round_metrics(books.ours, one).counts.verified_fooling
        if found < one.target_fooling:
            yield f"round {one.number} has {found} of {one.target_fooling} validated fooling examples"


def archives_verify_themselves(books: Books) -> Iterator[str]:
    for one in books.played:
        yield from about(books.config, "round", "verify", TASK, "--round", str(one.number))["problems"]


def work_is_decided_once_and_both_sides_agree(books: Books) -> Iterator[str]:
    mirrored = Counter(books.ours.scalars(select(Assignment.external_id)))
    status = {one.external_id: one.status.value for one in books.ours.scalars(select(Assignment))}
    for work in books.handed_in:
        if work.status not in DECIDED:
            yield f"assignment {work.id} is {work.status.value}"
        if (mirrored[work.id], status.get(work.id)) != (1, work.status.value.lower()):
            yield f"assignment {work.id} is {work.status.value} there, and here {status.get(work.id)}"


def work_and_fooling_examples_are_paid_once(books: Books) -> Iterator[str]:
    paid = [entry for entry in books.entries if entry.state is EntryState.CONFIRMED]
    external = {one.id: one.external_id for one in books.ours.scalars(select(Assignment))}
    rewards = Counter(external[one.assignment_id or 0] for one in paid if one.kind is EntryKind.REWARD)
    approved = Counter(one.id for one in books.handed_in if one.status is tables.AssignmentStatus.APPROVED)
    if rewards != approved:
        yield f"rewards {rewards - approved} are too many, and {approved - rewards} are missing"
    is_new = Example.duplicate.is_(None)
    # Work in Label Studio is not paid.
    on_page = Example.session_id.is_not(None)
    wanted = select(Example.id).where(Example.status == ExampleStatus.VERIFIED, Example.fooled, is_new, on_page)
    deserved, bonuses = Counter(books.ours.scalars(wanted)), Counter(one.example_id for one in paid if one.example_id)
    if bonuses != deserved:
        yield f"bonuses {bonuses - deserved} are too many, and {deserved - bonuses} are missing"
    ours = Counter((external[one.assignment_id or 0], one.cents) for one in paid if one.kind is not EntryKind.REWARD)
    theirs = Counter((one.assignment_id, one.cents) for one in books.theirs.scalars(select(tables.Bonus)))
    if ours != theirs:
        yield f"bonuses {ours - theirs} are only in our books, and {theirs - ours} only in theirs"


def both_books_agree_to_the_cent(books: Books) -> Iterator[str]:
    if not money.summary(books.theirs).is_balanced:
        yield "the marketplace's money does not add up"
    if _confirmed_cents(books) != _spent_there(books):
        yield f"{_confirmed_cents(books)} cents are confirmed here, and {_spent_there(books)} were spent there"
    whole, *lines = statement(books.ours, books.task, at=SystemClock().now())
    off = drift(books.ours, books.task, whole)
    off += sum(drift(books.ours, *one) for one in zip(list_rounds(books.ours, books.task), lines, strict=True))
    if off or not all(line.adds_up for line in (whole, *lines)):
        yield f"the statements do not add up, or are off by {off} cents"


def nothing_is_owed_reserved_or_in_doubt(books: Books) -> Iterator[str]:
    states = Counter(one.state for one in books.entries)
    for state in (EntryState.OWED, EntryState.SENT, EntryState.REFUSED):
        if states[state]:
            yield f"{states[state]} payments are {state.value}"
    closed = {one.id for one in books.played}
    reserved = [one.key for one in books.entries if one.state is EntryState.RESERVED and one.round_id in closed]
    if reserved:
        yield f"{len(reserved)} payments of closed rounds are still reserved"
    ends = loose_ends(books.ours, next(iter(books.ours.scalars(select(Hit.marketplace).limit(1)))))
    for name, found in vars(ends).items():
        if found:
            yield f"{len(found)} HITs or payments are {name}: {found[0].why}"


def each_round_is_learned_from_once(books: Books) -> Iterator[str]:
    jobs = list_jobs(books.ours, books.task, MOST_JOBS)
    for one in books.played:
        settled = [job for job in jobs if job.round_id == one.id and job.state in SETTLED]
        if len(settled) != 1:
            yield f"round {one.number} has {len(settled)} finished trainings"
            continue
        line = lineage(books.ours, books.task, _version(books, settled[0]), lambda name: None)
        learned = [source.source for source in line[0].learned]
        if learned != ["seed", *(f"round {number}" for number in range(1, one.number + 1))]:
            yield f"the model after round {one.number} learned from {learned}"
    if any(job.state is TrainingState.RUNNING for job in jobs):
        yield "a training is called running"


def the_newest_accepted_model_answers(books: Books) -> Iterator[str]:
    jobs = list_jobs(books.ours, books.task, MOST_JOBS)
    accepted = [_version(books, job) for job in jobs if job.state is TrainingState.ROTATED]
    registry = open_registry(books.settings.registry_location, books.settings.cache_path / "models")
    pins = registry.pins(TASK)
    live = pins.versions if pins else ()
    if accepted and live != (accepted[0],):
        yield f"{live} answers, and {accepted[0]} was accepted last"


def no_example_or_vote_is_lost_or_doubled(books: Books) -> Iterator[str]:
    """Check that each confirmed page has one example or vote per item; gold questions do not count as votes.

    Examples and votes of Label Studio have no page.
    """
    items = select(WorkItem.session_id, WorkItem.item).join(WorkSession, WorkSession.id == WorkItem.session_id)
    confirmed = items.where(WorkSession.status == SessionStatus.CONFIRMED)
    judged = (WorkItem.example_id.is_not(None), WorkItem.judgement.is_not(None), WorkItem.expected_label.is_(None))
    examples = select(Example.session_id, Example.item).where(Example.session_id.is_not(None))
    votes = select(Vote.session_id, Vote.item).where(Vote.session_id.is_not(None))
    pages = {
        "example": (confirmed.where(WorkItem.context_id.is_not(None)), examples),
        "vote": (confirmed.where(*judged), votes),
    }
    for name, (wanted, stored) in pages.items():
        due, there = (Counter(map(tuple, books.ours.execute(one))) for one in (wanted, stored))
        if due != there:
            yield f"{name}s of {list(due - there)} are lost, and of {list(there - due)} too many"
    for name, column in (("voter", [Vote.example_id, Vote.worker_id]), ("verdict", [Example.verdict_id])):
        twice = [one for one, number in Counter(map(tuple, books.ours.execute(select(*column)))).items() if number > 1]
        if twice:
            yield f"one {name} counts twice: {twice}"


def nothing_is_held_or_pending(books: Books) -> Iterator[str]:
    unfinished = Hit.finished_at.is_(None)
    counts = {
        "leases": select(func.count()).select_from(Lease).where(Lease.ended_at.is_(None)),
        "pages to be confirmed": select(func.count()).where(WorkSession.status == SessionStatus.SUBMITTED),
        "uncounted votes": select(func.count()).select_from(UncountedVote),
        "unfinished HITs": select(func.count()).where(unfinished, Hit.kind != HitKind.QUIZ),
        "examples waiting": select(func.count()).where(
            Example.status.in_((ExampleStatus.PENDING, ExampleStatus.UNCONFIRMED))
        ),
    }
    for name, wanted in counts.items():
        if number := books.ours.scalar(wanted):
            yield f"{number} {name} are left"
    if tries := count_waiting(books.settings.home_path / "tries"):
        yield f"{tries} tries wait in the outbox"


def _confirmed_cents(books: Books) -> int:
    return sum(one.cents + one.fee_cents for one in books.entries if one.state is EntryState.CONFIRMED)


def _spent_there(books: Books) -> int:
    sums = money.summary(books.theirs)
    return sums.workers_cents + sums.fees_cents + sums.paid_out_cents


def _version(books: Books, job: TrainingJob) -> str:
    return books.ours.get_one(ModelVersion, job.model_version_id).name


@contextmanager
def _books(home: Path, rounds: int) -> Iterator[Books]:
    config = home / "demo.toml"
    settings = load_settings({}, config=config)
    place = marketplace_config(settings, SystemClock(), public_url=settings.crowd_url)
    with open_store(settings.database) as store, store.read() as ours, place.open() as market, market.read() as theirs:
        yield Books(settings, config, ours, theirs, rounds)
