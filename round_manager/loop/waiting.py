"""What a round waits for, as reasons with hints.

A validating round can be closed once all of its HITs are finished, all submitted work is decided, all that is owed is
paid, and every worker has at least the minimum hourly pay. The owner can skip waiting for votes, for decisions on flags
and for Label Studio users, but not for workers' submissions or their money.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import case, exists, func, literal, select
from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import count, dollars
from round_manager.crowd.fair_pay import DueTopUps, due_top_ups
from round_manager.crowd.hit_planning import WORDS
from round_manager.labelstudio.projects import find_link
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
    Task,
    UncountedVote,
    spec_of,
)
from round_manager.money.budget import free_cents
from round_manager.money.prices import planning_fees, vote_cents
from round_manager.tasks.gold import gold_counts
from round_manager.tasks.rounds import repeated_fooling, tallies_of
from round_manager.work.established import LEAST_GOLD, anyone_established, awaiting_established

UNPOSTED = (HitStatus.PLANNED, HitStatus.HELD)
UNSETTLED = (EntryState.OWED, EntryState.SENT)
# Examples that wait for established validators are counted up to here.
MOST_COUNTED = 1_000


@dataclass(frozen=True)
class WaitReason:
    """One thing that a round waits for, and what can be done about it; what needs only judgements can be skipped."""

    text: str
    hint: Hint | None = None
    can_be_skipped: bool = False


UNDECIDED_VOTES = WaitReason("new votes have not been counted yet", Hint("run_manager"))


@dataclass(frozen=True)
class UnfinishedHits:
    """HITs of one kind and status that can still bring work; the last of them expires at `expires_at`.

    All posted HITs have the status assignable here: it makes no difference whether a worker holds one now.
    """

    kind: HitKind
    status: HitStatus
    was_sent: bool
    assignment_seconds: int
    hits: int
    expires_at: datetime | None

    def __str__(self) -> str:
        return f"{count(self.hits, 'HIT')} {WORDS[self.kind]}"


def waiting(session: Session, round: Round, *, now: datetime) -> list[WaitReason]:
    """Return what the round waits for now; nothing if it is closed or can be closed."""
    name = session.get_one(Task, round.task_id).name
    reasons: list[WaitReason] = []
    if round.paused_at is not None:
        paused = f"it has been paused since {when(round.paused_at)}"
        reasons.append(WaitReason(paused, Hint("resume_round", task=name)))
    if round.status is RoundStatus.DRAFT:
        has_model = session.scalar(select(exists().where(ModelVersion.task_id == round.task_id)))
        if has_model:
            reasons.append(WaitReason("it is a draft", Hint("open_round", task=name)))
        else:
            reasons.append(WaitReason("it is a draft and the task has no model yet", Hint("train_model", task=name)))
    elif round.status is RoundStatus.OPEN:
        missing = round.target_fooling - verified_fooling(session, round)
        until = f", until {when(round.closes_at)}" if round.closes_at else ""
        text = f"{count(max(0, missing), 'more validated fooling example')} of {round.target_fooling:,}"
        reasons += [WaitReason(f"it is open for {text}{until}"), *_established_votes(session, round, name)]
    elif round.status is RoundStatus.VALIDATING:
        reasons += reasons_not_to_close(session, round, now=now)
    return reasons


def reasons_not_to_close(session: Session, round: Round, *, now: datetime, force: bool = False) -> list[WaitReason]:
    """Return what a validating round must wait for before it can be closed; `force` skips what can be skipped."""
    unfinished = unfinished_work(session, round, now=now)
    left = [reason for reason in unfinished if not (force and reason.can_be_skipped)]
    # The median wage depends on all work of the round, so pay is checked once it is final.
    return left or list(_fair_pay(session, round))


def awaits_only_pay(session: Session, round: Round, *, now: datetime) -> bool:
    """Return whether nothing is left to wait for, except perhaps pay that brings workers to the minimum."""
    if round.paused_at is not None or round.status is not RoundStatus.VALIDATING:
        return False
    return not unfinished_work(session, round, now=now)


def unfinished_work(session: Session, round: Round, *, now: datetime) -> list[WaitReason]:
    """Return what a validating round waits for, apart from top-ups to the minimum hourly pay."""
    name = session.get_one(Task, round.task_id).name
    hits, pending = _unfinished_hits(session, round), tally(session, round, ExampleStatus.PENDING)
    has_validation_hits = any(hit.kind is HitKind.VALIDATE for hit in hits)
    # HITs to validate bring votes for pending examples; all others only delay the end of the round.
    wanted = {HitKind.VALIDATE} if pending else set()
    return [
        *_hits(hits, name, now, wanted),
        *_submitted_work(session, round, name),
        *_label_studio(session, round, name, now),
        *_judgements(session, round, name, pending, has_validation_hits=has_validation_hits),
        *_money(session, round, name),
    ]


def verified_fooling(session: Session, round: Round) -> int:
    """Return the number of validated fooling examples with new texts in the round, which its target counts."""
    repeated = repeated_fooling(session, round).get(ExampleStatus.VERIFIED, 0)
    return tally(session, round, ExampleStatus.VERIFIED, fooled=True) - repeated


def tally(session: Session, round: Round, status: ExampleStatus, *, fooled: bool | None = None) -> int:
    """Return the number of the round's examples with a status."""
    tallies = tallies_of(session, round).items()
    return sum(number for (one, is_fooled), number in tallies if one is status and fooled in (None, is_fooled))


def is_writing(session: Session, round: Round) -> bool:
    """Return whether a HIT to create can still bring examples."""
    return any(hit.kind is HitKind.CREATE for hit in _unfinished_hits(session, round))


def undecided(session: Session, round: Round) -> bool:
    """Return whether the round has votes that have not been counted yet."""
    return bool(session.scalar(select(exists().where(UncountedVote.round_id == round.id))))


def when(moment: datetime) -> str:
    """Return a time for people to read."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _unfinished_hits(session: Session, round: Round) -> list[UnfinishedHits]:
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
        # The addition keeps databases from using the index on rounds; the index on unfinished HITs is much shorter.
        .where(Hit.finished_at.is_(None), Hit.round_id + 0 == round.id, Hit.status != HitStatus.REFUSED)
        .group_by(Hit.kind, "standing", was_sent, Hit.assignment_seconds)
        .order_by(Hit.kind, "standing")
    )
    return [UnfinishedHits(*row) for row in session.execute(groups)]


def _hits(hits: list[UnfinishedHits], name: str, now: datetime, wanted: set[HitKind]) -> Iterator[WaitReason]:
    for hit in hits:
        if hit.status is HitStatus.PLANNED and not hit.was_sent:
            yield WaitReason(f"{hit} planned but not posted", Hint("post_hits", task=name))
        elif hit.status is HitStatus.PLANNED:
            yield WaitReason(f"{hit} may or may not have been posted", Hint("reconcile_crowd"))
        elif hit.status is HitStatus.HELD:
            yield WaitReason(f"{hit} held for a person to decide", Hint("show_crowd_status", task=name))
        else:
            yield _posted(hit, name, now, is_wanted=hit.kind in wanted)


def _posted(hit: UnfinishedHits, name: str, now: datetime, *, is_wanted: bool) -> WaitReason:
    expires_at = hit.expires_at or now
    deadline = expires_at + timedelta(seconds=hit.assignment_seconds)
    if expires_at > now and not is_wanted:
        hint = Hint("expire_hits", task=name, kind=hit.kind.value)
        return WaitReason(f"{hit} can still be accepted until {when(expires_at)}", hint)
    if deadline > now:
        return WaitReason(f"{hit} not finished; work can be submitted until {when(deadline)}")
    # Work may have been submitted in the last second: only the marketplace knows whether this was all.
    return WaitReason(f"{hit} not finished, but overdue", Hint("show_crowd_status", task=name))


def _submitted_work(session: Session, round: Round, name: str) -> Iterator[WaitReason]:
    # A HIT with undecided work is not finished, and few are; the addition is explained above.
    submitted = (
        select(func.count())
        .select_from(Assignment)
        .join(Hit, Hit.id == Assignment.hit_id)
        .where(Hit.finished_at.is_(None), Hit.round_id + 0 == round.id)
        .where(Assignment.status == AssignmentStatus.SUBMITTED)
    )
    found = session.scalar(submitted) or 0
    if found:
        text = f"{count(found, 'assignment')} submitted but neither approved nor rejected"
        yield WaitReason(text, Hint("approve_work", task=name))


def _label_studio(session: Session, round: Round, name: str, now: datetime) -> Iterator[WaitReason]:
    """Label Studio does not show other users' drafts, so its users get the same time to submit what they started."""
    minutes, link = spec_of(round).work.label_studio_minutes, project_of(session, round, ProjectKind.CREATE)
    if not minutes or link is None or round.validating_at is None:
        return
    end = round.validating_at + timedelta(minutes=minutes)
    if now < end:
        text = f"Label Studio users can submit what they have started until {when(end)}"
        yield WaitReason(text, can_be_skipped=True)
    elif link.synced_at is None or link.synced_at < end:
        hint = Hint("sync_label_studio", task=name)
        yield WaitReason(f"Label Studio has not been read since {when(end)}", hint, can_be_skipped=True)


def _judgements(
    session: Session, round: Round, name: str, pending: int, *, has_validation_hits: bool
) -> Iterator[WaitReason]:
    if undecided(session, round):
        yield UNDECIDED_VOTES
    if pending and (has_validation_hits or _can_be_validated(session, round)):
        yield WaitReason(f"{count(pending, 'example waits', 'examples wait')} for votes", can_be_skipped=True)
        yield from _established_votes(session, round, name)
    flagged = tally(session, round, ExampleStatus.FLAGGED)
    if flagged:
        text = f"{count(flagged, 'flagged example waits', 'flagged examples wait')} for the owner's decision"
        yield WaitReason(text, Hint("list_flags", task=name), can_be_skipped=True)


def _established_votes(session: Session, round: Round, name: str) -> Iterator[WaitReason]:
    """Return the examples that only an established validator can decide, and how a worker becomes one."""
    found = awaiting_established(session, round, MOST_COUNTED)
    if not found:
        return
    more = " or more" if found == MOST_COUNTED else ""
    text = f"{found:,}{more} of the waiting examples lack only the vote of an established validator"
    if anyone_established(session, round):
        yield WaitReason(text, can_be_skipped=True)
        return
    terms, has_project = spec_of(round).validation, project_of(session, round, ProjectKind.VALIDATE) is not None
    needed = f"{count(terms.established_after, 'vote')} and {terms.established_accuracy:.0%}"
    how = f"a worker becomes one with {needed} of at least {LEAST_GOLD} gold items right; Label Studio votes count too"
    hint = None if has_project else Hint("connect_label_studio", task=name)
    if gold_counts(session, round.task_id).live < LEAST_GOLD:
        hint = Hint("upload_gold", task=name)
    yield WaitReason(f"{text}, and the task has none yet: {how}", hint, can_be_skipped=True)


def _can_be_validated(session: Session, round: Round) -> bool:
    """Return whether more votes are possible: from Label Studio, or from HITs that the budget covers."""
    spec = spec_of(round)
    # No HITs are posted for votes that are not paid.
    may_be_paid = spec.pay.validate_cents > 0 and not round.in_house
    is_paid = may_be_paid and free_cents(session, round) >= vote_cents(spec, planning_fees(session))
    return is_paid or project_of(session, round, ProjectKind.VALIDATE) is not None


def project_of(session: Session, round: Round, kind: ProjectKind) -> LabelStudioLink | None:
    """Return the Label Studio project of the round's task; a deleted project has a number below zero."""
    link = find_link(session, round.task_id, kind)
    return link if link is not None and link.project > 0 else None


def _money(session: Session, round: Round, name: str) -> Iterator[WaitReason]:
    is_held = LedgerEntry.held_at.is_not(None)
    cents = func.sum(LedgerEntry.cents + LedgerEntry.fee_cents).label("cents")
    groups = (
        select(LedgerEntry.state, is_held.label("is_held"), func.count().label("payments"), cents)
        .where(LedgerEntry.round_id == round.id, LedgerEntry.state.in_(UNSETTLED))
        .group_by(LedgerEntry.state, is_held)
        .order_by(LedgerEntry.state)
    )
    for row in session.execute(groups):
        payments = f"{count(row.payments, 'payment')} ({dollars(int(row.cents))})"
        if row.state is EntryState.OWED:
            yield WaitReason(f"{payments} owed", Hint("pay_workers"))
        elif row.is_held:
            yield WaitReason(f"{payments} held for a person to decide", Hint("show_crowd_status", task=name))
        else:
            yield WaitReason(f"{payments} sent but not confirmed", Hint("reconcile_crowd"))


def _fair_pay(session: Session, round: Round) -> Iterator[WaitReason]:
    due, name = due_top_ups(session, round), session.get_one(Task, round.task_id).name
    if due.need_approval:
        yield top_up_approval(due, name)
    elif due.cents:
        text = f"workers are {dollars(due.cents)} below the minimum hourly pay"
        yield WaitReason(text, Hint("top_up_pay", task=name))


def top_up_approval(due: DueTopUps, name: str) -> WaitReason:
    """Return that a task's top-ups wait for the owner."""
    total = due.cents + due.owed_before_cents
    text = f"top-ups of {dollars(due.cents)} wait for the owner's approval"
    limit = f"the round's {dollars(total)} exceed the limit of {dollars(due.limit_cents)}"
    return WaitReason(f"{text}: {limit}", Hint("approve_top_ups", task=name))
