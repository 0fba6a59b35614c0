"""Waiting: what a round still waits for, in plain words.

A validating round waits until nothing can come any more: all of its HITs are finished, all that was handed in is
decided, all that is owed is paid, and nobody is paid less than the minimum for an hour. Votes, an owner's word and
people in Label Studio can be given up; workers' work and their money cannot.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import case, exists, func, literal, select
from sqlalchemy.orm import Session

from common.money import dollars
from common.text import count
from round_manager.crowd.fair_pay import missing_cents
from round_manager.labelstudio.links import find_link
from round_manager.models import (
    Assignment,
    AssignmentStatus,
    EntryState,
    ExampleStatus,
    Hit,
    HitKind,
    HitStatus,
    LabelStudioLink,
    LedgerEntry,
    ModelVersion,
    ProjectKind,
    Round,
    RoundStatus,
    RoundTally,
    Task,
    UncountedVote,
)
from round_manager.money.hit_terms import WORDS
from round_manager.specs import spec_of
from round_manager.tasks.affordability import free_cents, planning_fees, vote_cents

UNPOSTED = (HitStatus.PLANNED, HitStatus.HELD)
UNSETTLED = (EntryState.OWED, EntryState.SENT)


@dataclass(frozen=True)
class Reason:
    """One thing that a round waits for; what only lacks people's judgement can be given up."""

    text: str
    can_be_given_up: bool = False


NOT_DECIDED = Reason("votes came that nobody has settled yet; `outfox manage` does, or tells what it lacks")


@dataclass(frozen=True)
class Waiting:
    """Everything that a round waits for; nothing, where it is closed or can be."""

    reasons: tuple[Reason, ...]

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def __str__(self) -> str:
        return "; ".join(reason.text for reason in self.reasons)


@dataclass(frozen=True)
class Unfinished:
    """HITs of one kind in one state that something can still come of; the last of them is over at `expires_at`.

    Those that were posted are all called assignable: whether somebody has one now makes no difference here.
    """

    kind: HitKind
    status: HitStatus
    was_sent: bool
    assignment_seconds: int
    hits: int
    expires_at: datetime | None

    @property
    def them(self) -> str:
        """The word for so many."""
        return "it" if self.hits == 1 else "them"

    def __str__(self) -> str:
        return f"{count(self.hits, 'HIT')} {WORDS[self.kind]}"


def waiting(session: Session, round: Round, *, now: datetime) -> Waiting:
    """What the round waits for now: to be opened, to go on, for its end, or for what must come before it is closed."""
    name = session.get_one(Task, round.task_id).name
    reasons: list[Reason] = []
    if round.paused_at is not None:
        reasons.append(Reason(f"it is paused since {when(round.paused_at)}; `outfox round resume {name}` goes on"))
    if round.status is RoundStatus.DRAFT:
        has_model = session.scalar(select(exists().where(ModelVersion.task_id == round.task_id)))
        first = "" if has_model else f"once there is a model (`outfox model train {name}`), "
        reasons.append(Reason(f"it is a draft; {first}`outfox round open {name}` opens it"))
    elif round.status is RoundStatus.OPEN:
        lacking = round.target_fooling - verified_fooling(session, round)
        until = f", until {when(round.closes_at)}" if round.closes_at else ""
        text = f"{count(max(0, lacking), 'more validated fooling example')} of {round.target_fooling:,}"
        reasons.append(Reason(f"it is open for {text}{until}"))
    elif round.status is RoundStatus.VALIDATING:
        reasons += still_to_come(session, round, now=now)
    return Waiting(tuple(reasons))


def still_to_come(session: Session, round: Round, *, now: datetime, give_up: bool = False) -> list[Reason]:
    """What must come before a validating round can be closed, without what can be given up where it is."""
    work = work_to_come(session, round, now=now)
    left = [reason for reason in work if not (give_up and reason.can_be_given_up)]
    # A median goes by all who worked: pay is looked at when nothing more can change it.
    return left or list(_fair_pay(session, round))


def awaits_only_pay(session: Session, round: Round, *, now: datetime) -> bool:
    """Return whether nothing is left to wait for, except perhaps pay that brings workers to the minimum."""
    if round.paused_at is not None or round.status is not RoundStatus.VALIDATING:
        return False
    return not work_to_come(session, round, now=now)


def work_to_come(session: Session, round: Round, *, now: datetime) -> list[Reason]:
    """The same, all but what brings pay to the minimum for an hour."""
    name = session.get_one(Task, round.task_id).name
    hits, pending = _unfinished(session, round), tally(session, round, ExampleStatus.PENDING)
    is_checked = any(hit.kind is HitKind.VALIDATE for hit in hits)
    # HITs to validate stand for what is pending; all others only keep the round from its end.
    wanted = {HitKind.VALIDATE} if pending else set()
    return [
        *_hits(hits, name, now, wanted),
        *_work(session, round, name),
        *_in_label_studio(session, round, name, now),
        *_judgements(session, round, name, pending, is_checked=is_checked),
        *_money(session, round, name),
    ]


def verified_fooling(session: Session, round: Round) -> int:
    """How many validated fooling examples the round has."""
    return tally(session, round, ExampleStatus.VERIFIED, fooled=True)


def tally(session: Session, round: Round, status: ExampleStatus, *, fooled: bool | None = None) -> int:
    """How many of the round's examples are in a status."""
    wanted = select(func.sum(RoundTally.examples)).where(RoundTally.round_id == round.id, RoundTally.status == status)
    return int(session.scalar(wanted if fooled is None else wanted.where(RoundTally.fooled.is_(fooled))) or 0)


def is_writing(session: Session, round: Round) -> bool:
    """Whether a HIT to create can still bring examples."""
    return any(hit.kind is HitKind.CREATE for hit in _unfinished(session, round))


def undecided(session: Session, round: Round) -> bool:
    """Whether votes came that nobody has decided by yet."""
    return bool(session.scalar(select(exists().where(UncountedVote.round_id == round.id))))


def when(moment: datetime) -> str:
    """A time as people read it."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _unfinished(session: Session, round: Round) -> list[Unfinished]:
    """HITs that something can come of; finished ones, of which there are many, are not looked at."""
    was_sent = Hit.sent_at.is_not(None)
    posted = literal(HitStatus.ASSIGNABLE, Hit.status.type)
    groups = (
        select(
            Hit.kind,
            case((Hit.status.in_(UNPOSTED), Hit.status), else_=posted).label("standing"),
            was_sent,
            Hit.assignment_seconds,
            func.count(),
            func.max(Hit.expires_at),
        )
        # The sum keeps databases from the index on rounds: the one on unfinished HITs is the short one.
        .where(Hit.finished_at.is_(None), Hit.round_id + 0 == round.id, Hit.status != HitStatus.REFUSED)
        .group_by(Hit.kind, "standing", was_sent, Hit.assignment_seconds)
        .order_by(Hit.kind, "standing")
    )
    return [Unfinished(*row) for row in session.execute(groups)]


def _hits(hits: list[Unfinished], name: str, now: datetime, wanted: set[HitKind]) -> Iterator[Reason]:
    for hit in hits:
        if hit.status is HitStatus.PLANNED and not hit.was_sent:
            cure = f"`outfox crowd post {name}` sends {hit.them}, `outfox crowd expire {name} --all` drops {hit.them}"
            yield Reason(f"{hit} planned and not sent; {cure}")
        elif hit.status is HitStatus.PLANNED:
            yield Reason(f"{hit} may or may not be posted; `outfox crowd reconcile` finds out")
        elif hit.status is HitStatus.HELD:
            yield Reason(f"{hit} held for a person to decide; `outfox crowd status {name}` shows {hit.them}")
        else:
            yield Reason(_posted(hit, name, now, is_wanted=hit.kind in wanted))


def _posted(hit: Unfinished, name: str, now: datetime, *, is_wanted: bool) -> str:
    expires_at = hit.expires_at or now
    deadline = expires_at + timedelta(seconds=hit.assignment_seconds)
    if expires_at > now and not is_wanted:
        cure = f"`outfox crowd expire {name} --kind {hit.kind.value} --all` takes {hit.them} down"
        return f"{hit} can still be taken until {when(expires_at)}; {cure}"
    if deadline > now:
        return f"{hit} not finished; work can come until {when(deadline)}"
    # Work may have come in at the last second: only who reads the marketplace knows that nothing more is there.
    its = "its" if hit.hits == 1 else "their"
    return f"{hit} not finished though {its} time is over; `outfox crowd status {name}` reads what came"


def _work(session: Session, round: Round, name: str) -> Iterator[Reason]:
    # Where something is not decided the HIT is not finished, and those are few; the sum is as above.
    handed_in = (
        select(func.count())
        .select_from(Assignment)
        .join(Hit, Hit.id == Assignment.hit_id)
        .where(Hit.finished_at.is_(None), Hit.round_id + 0 == round.id)
        .where(Assignment.status == AssignmentStatus.SUBMITTED)
    )
    found = session.scalar(handed_in) or 0
    if found:
        pieces = count(found, "piece of work is", "pieces of work are")
        cure = f"`outfox crowd approve {name} --all` approves it, or tells what only a person can decide"
        yield Reason(f"{pieces} handed in and not decided; {cure}")


def _in_label_studio(session: Session, round: Round, name: str, now: datetime) -> Iterator[Reason]:
    """Label Studio shows nobody else's drafts, so whoever may be writing there gets the same time."""
    minutes, link = spec_of(round).work.label_studio_minutes, _project(session, round, ProjectKind.CREATE)
    if not minutes or link is None or round.validating_at is None:
        return
    end = round.validating_at + timedelta(minutes=minutes)
    if now < end:
        text = f"people in Label Studio can hand in what they have begun until {when(end)}"
        yield Reason(text, can_be_given_up=True)
    elif link.synced_at is None or link.synced_at < end:
        cure = f"`outfox labelstudio sync {name}` does"
        yield Reason(f"nobody has read Label Studio since {when(end)}; {cure}", can_be_given_up=True)


def _judgements(session: Session, round: Round, name: str, pending: int, *, is_checked: bool) -> Iterator[Reason]:
    if undecided(session, round):
        yield NOT_DECIDED
    if pending and (is_checked or _can_be_judged(session, round)):
        yield Reason(f"{count(pending, 'example waits', 'examples wait')} for votes", can_be_given_up=True)
    flagged = tally(session, round, ExampleStatus.FLAGGED)
    if flagged:
        waits = count(flagged, "flagged example waits", "flagged examples wait")
        yield Reason(f"{waits} for the owner; `outfox round flags {name}` shows them", can_be_given_up=True)


def _can_be_judged(session: Session, round: Round) -> bool:
    """Whether votes can come that nobody has asked for yet: in Label Studio, or for money that is left."""
    spec = spec_of(round)
    # A vote that costs nothing is one that no HIT asks for.
    is_paid = spec.pay.validate_cents > 0 and free_cents(session, round) >= vote_cents(spec, planning_fees(session))
    return is_paid or _project(session, round, ProjectKind.VALIDATE) is not None


def _project(session: Session, round: Round, kind: ProjectKind) -> LabelStudioLink | None:
    """Where people of Label Studio write or check for the round's task; one that is gone has a number below zero."""
    link = find_link(session, round.task_id, kind)
    return link if link is not None and link.project > 0 else None


def _money(session: Session, round: Round, name: str) -> Iterator[Reason]:
    is_held = LedgerEntry.held_at.is_not(None)
    cents = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents).label("cents")
    groups = (
        select(LedgerEntry.state, is_held.label("is_held"), func.count().label("payments"), cents)
        .where(LedgerEntry.round_id == round.id, LedgerEntry.state.in_(UNSETTLED))
        .group_by(LedgerEntry.state, is_held)
        .order_by(LedgerEntry.state)
    )
    for row in session.execute(groups):
        payments = f"{count(row.payments, 'payment')}, {dollars(int(row.cents))},"
        them = "it" if row.payments == 1 else "them"
        if row.state is EntryState.OWED:
            yield Reason(f"{payments} owed; `outfox crowd pay` sends {them}")
        elif row.is_held:
            yield Reason(f"{payments} held for a person to decide; `outfox crowd status {name}` shows {them}")
        else:
            yield Reason(f"{payments} sent and not confirmed; `outfox crowd reconcile` asks about {them}")


def _fair_pay(session: Session, round: Round) -> Iterator[Reason]:
    cents = missing_cents(session, round)
    if cents:
        name = session.get_one(Task, round.task_id).name
        cure = f"`outfox crowd pay {name} --top-up` pays it, and `outfox manage` does by itself"
        yield Reason(f"its workers lack {dollars(cents)} to the minimum for an hour; {cure}")
