"""Use cases of people: groups of workers and their rounds, the names that owners give them, reports of their work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from round_manager import audit
from round_manager.models import Round, ensure_worker
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks import groups
from round_manager.tasks.groups import GroupSummary
from round_manager.tasks.rounds import choose_round
from round_manager.tasks.tasks import find_task
from round_manager.validation.work_report import Period, PersonWork, report_work


@dataclass(frozen=True)
class WorkReport:
    """What each person did from the first day to the last one, both included."""

    first: date
    last: date
    task: str | None
    group: str | None
    people: list[PersonWork]


def list_groups(context: ServiceContext) -> list[GroupSummary]:
    """Return all groups with their members and rounds."""
    with context.store.read() as session:
        return groups.list_groups(session)


def create_group(context: ServiceContext, actor: Actor, name: str, *, reason: str = "") -> str:
    """Create a group of workers, and return its name."""
    now = context.now()
    with context.store.write() as session:
        group = groups.add_group(session, name, now=now)
        audit.note(session, "created", group, actor=actor.name, reason=reason, now=now)
        return group.name


def add_to_group(
    context: ServiceContext, actor: Actor, marketplace: str, name: str, worker_ids: Sequence[str], *, reason: str = ""
) -> int:
    """Add workers to a group, and return how many were not in it; ids that are new here belong to the marketplace."""
    now = context.now()
    with context.store.write() as session:
        group = groups.find_group(session, name)
        known = {one.external_id: one for one in groups.known_workers(session, worker_ids)}
        members = [known.get(one) or ensure_worker(session, marketplace, one, now=now) for one in worker_ids]
        added = groups.add_members(session, group, members, now=now)
        after = {"added": added}
        audit.note(session, "added members to", group, actor=actor.name, reason=reason, now=now, after=after)
        return added


def remove_from_group(
    context: ServiceContext, actor: Actor, name: str, worker_ids: Sequence[str], *, reason: str = ""
) -> None:
    """Remove workers from a group; what they have open they may finish."""
    with context.store.write() as session:
        group = groups.find_group(session, name)
        groups.remove_members(session, group, groups.find_workers(session, worker_ids))
        audit.note(session, "removed members from", group, actor=actor.name, reason=reason, now=context.now())


def assign_round(
    context: ServiceContext, actor: Actor, task: str, number: int | None, names: Sequence[str], *, reason: str = ""
) -> int:
    """Give a round to groups instead of those that it had, or to everyone without any; return its number."""
    now = context.now()
    with context.store.write() as session:
        round: Round = choose_round(session, find_task(session, task), number)
        before = groups.groups_of_round(session, round)
        chosen = [groups.find_group(session, name) for name in dict.fromkeys(names)]
        groups.set_round_groups(session, round, chosen, now=now)
        audit.note(
            session, "assigned to groups", round, actor=actor.name, reason=reason, now=now, of=round,
            before={"groups": before}, after={"groups": [group.name for group in chosen]},
        )  # fmt: skip
        return round.number


def name_workers(context: ServiceContext, actor: Actor, marketplace: str, names: Mapping[str, str]) -> int:
    """Store what the owner calls workers, by id; an empty name removes one. Return how many were stored."""
    now = context.now()
    with context.store.write() as session:
        known = {one.external_id for one in groups.known_workers(session, list(names))}
        for new in names.keys() - known:
            ensure_worker(session, marketplace, new, now=now)
        return groups.name_workers(session, names)


def work_report(
    context: ServiceContext, first: date, last: date, *, task: str | None = None, group: str | None = None
) -> WorkReport:
    """Return what each person did on these days (UTC), in one task or in all, for one group or for everyone."""
    since = datetime.combine(first, time(), UTC)
    until = datetime.combine(last + timedelta(days=1), time(), UTC)
    with context.store.read() as session:
        task_id = find_task(session, task).id if task else None
        members = groups.members_of(session, groups.find_group(session, group)) if group else None
        workers = None if members is None else frozenset(one.id for one in members)
        return WorkReport(first, last, task, group, report_work(session, Period(since, until, task_id, workers)))
