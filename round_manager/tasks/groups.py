"""Groups of workers: who is in them, which rounds are theirs, and the names that the owner gives to workers.

A round without groups is for everyone. Otherwise only members of its groups get pages of it; on our marketplace, others
do not see its HITs. Annotators in Label Studio are given their projects there, so groups do not restrict them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, delete, exists, select
from sqlalchemy.orm import Session

from common.errors import Hint
from round_manager.errors import GroupExists, GroupNotFound, NameInvalid, UnknownWorker
from round_manager.models import GroupMember, Round, RoundGroup, Task, Worker, WorkerGroup

LONGEST_GROUP, LONGEST_NAME = 80, 200


@dataclass(frozen=True)
class GroupSummary:
    """A group with the ids of its members, and its rounds as task and number."""

    name: str
    members: tuple[str, ...]
    rounds: tuple[tuple[str, int], ...]


def may_work(session: Session, round_id: int | None, worker: Worker | None) -> bool:
    """Whether a round is for everyone, or for a group that the worker is in."""
    if round_id is None:
        return True
    return bool(session.scalar(_MAY_WORK, {"round": round_id, "worker": worker.id if worker else 0}))


# Built once: each new page runs it.
_GROUPS = select(RoundGroup.group_id).where(RoundGroup.round_id == bindparam("round"))
_MINE = select(GroupMember.worker_id).where(
    GroupMember.group_id.in_(_GROUPS), GroupMember.worker_id == bindparam("worker")
)
_MAY_WORK = select(~exists(_GROUPS) | exists(_MINE))


def add_group(session: Session, name: str, *, now: datetime) -> WorkerGroup:
    """Create a group; GroupExists if the name is taken."""
    wanted = _checked(name, LONGEST_GROUP, "group")
    if session.scalar(select(WorkerGroup.id).where(WorkerGroup.name == wanted)) is not None:
        raise GroupExists(f"there is a group {wanted} already")
    group = WorkerGroup(name=wanted, created_at=now)
    session.add(group)
    session.flush()
    return group


def find_group(session: Session, name: str) -> WorkerGroup:
    """Return the group of that name, or raise GroupNotFound."""
    found = session.scalar(select(WorkerGroup).where(WorkerGroup.name == name.strip()))
    if found is None:
        raise GroupNotFound(f"there is no group {name}", hint=Hint("list_groups"))
    return found


def add_members(session: Session, group: WorkerGroup, workers: Sequence[Worker], *, now: datetime) -> int:
    """Add workers to a group, and return how many were not in it."""
    known = set(session.scalars(select(GroupMember.worker_id).where(GroupMember.group_id == group.id)))
    new = {worker.id for worker in workers} - known
    session.add_all(GroupMember(group_id=group.id, worker_id=one, added_at=now) for one in sorted(new))
    session.flush()
    return len(new)


def remove_members(session: Session, group: WorkerGroup, workers: Sequence[Worker]) -> None:
    """Remove workers from a group; pages that are open stay theirs."""
    ids = [worker.id for worker in workers]
    session.execute(delete(GroupMember).where(GroupMember.group_id == group.id, GroupMember.worker_id.in_(ids)))


def set_round_groups(session: Session, round: Round, groups: Sequence[WorkerGroup], *, now: datetime) -> None:
    """Give a round to these groups instead of those that it had; none of them make it everyone's."""
    session.execute(delete(RoundGroup).where(RoundGroup.round_id == round.id))
    session.add_all(RoundGroup(round_id=round.id, group_id=group.id, assigned_at=now) for group in groups)
    session.flush()


def list_groups(session: Session) -> list[GroupSummary]:
    """Return all groups, by name."""
    return [
        GroupSummary(
            group.name, tuple(worker.external_id for worker in members_of(session, group)), _rounds(session, group)
        )
        for group in session.scalars(select(WorkerGroup).order_by(WorkerGroup.name))
    ]


def members_of(session: Session, group: WorkerGroup) -> list[Worker]:
    """Return the members of a group."""
    wanted = select(Worker).join(GroupMember, GroupMember.worker_id == Worker.id)
    return list(session.scalars(wanted.where(GroupMember.group_id == group.id).order_by(Worker.external_id)))


def groups_of_round(session: Session, round: Round) -> list[str]:
    """Return the names of the groups that a round is for; none if it is for everyone."""
    wanted = select(WorkerGroup.name).join(RoundGroup, RoundGroup.group_id == WorkerGroup.id)
    return list(session.scalars(wanted.where(RoundGroup.round_id == round.id).order_by(WorkerGroup.name)))


def groups_of_workers(session: Session) -> dict[int, list[str]]:
    """Return the names of the groups of each worker who is in any, by database id."""
    found: dict[int, list[str]] = {}
    wanted = select(GroupMember.worker_id, WorkerGroup.name).join(WorkerGroup, WorkerGroup.id == GroupMember.group_id)
    for worker_id, name in session.execute(wanted.order_by(WorkerGroup.name)):
        found.setdefault(worker_id, []).append(name)
    return found


def name_workers(session: Session, names: Mapping[str, str]) -> int:
    """Store the names of workers by their ids, and return how many are known; an empty name removes one."""
    named = {
        worker_id: _checked(name, LONGEST_NAME, "name") if name.strip() else None for worker_id, name in names.items()
    }
    workers = session.scalars(select(Worker).where(Worker.external_id.in_(named))).all()
    for worker in workers:
        worker.name = named[worker.external_id]
    session.flush()
    return len(workers)


def known_workers(session: Session, ids: Sequence[str]) -> list[Worker]:
    """Return the workers with these ids who are known here."""
    return list(session.scalars(select(Worker).where(Worker.external_id.in_(ids)).order_by(Worker.id)))


def find_workers(session: Session, ids: Sequence[str]) -> list[Worker]:
    """Return the workers with these ids, on marketplaces or in Label Studio; UnknownWorker if one is missing."""
    found = known_workers(session, ids)
    missing = sorted(set(ids) - {worker.external_id for worker in found})
    if missing:
        raise UnknownWorker(f"worker {missing[0]} is not known here")
    return found


def _rounds(session: Session, group: WorkerGroup) -> tuple[tuple[str, int], ...]:
    wanted = (
        select(Task.name, Round.number)
        .join(Round, Round.task_id == Task.id)
        .join(RoundGroup, RoundGroup.round_id == Round.id)
        .where(RoundGroup.group_id == group.id)
        .order_by(Task.name, Round.number)
    )
    return tuple((task, number) for task, number in session.execute(wanted))


def _checked(text: str, longest: int, what: str) -> str:
    name = text.strip()
    if not name or len(name) > longest or not name.isprintable():
        raise NameInvalid(f"a {what} has 1 to {longest} printable characters, not {text[:longest]!r}")
    return name
