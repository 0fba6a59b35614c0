"""Ways in: whether examples can reach an open round at all, from people in Label Studio or from a crowd."""

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from round_manager.labelstudio.mirror import find_link
from round_manager.models import Hit, HitKind, ProjectKind, Round, RoundStatus, Task
from round_manager.specs import spec_of


def no_way_in(session: Session, round: Round, *, has_marketplace: bool) -> str:
    """Why nothing can come to an open round, and what to do; nothing where something can."""
    if round.status is not RoundStatus.OPEN or _is_connected(session, round):
        return ""
    name, is_paid = session.get_one(Task, round.task_id).name, spec_of(round).pay.create_cents > 0
    # Whoever posted HITs for it has the keys, even if this machine does not.
    if _was_posted(session, round) or (has_marketplace and is_paid):
        return ""
    connect = f"`outfox labelstudio connect {name}` lets people write in Label Studio"
    if has_marketplace:
        lacks = "the task has no Label Studio project, and no HITs to create while pay.create_cents is 0"
        cure = f"raise it in task.yaml, run `outfox task create {name}` and open the next round for a crowd"
    else:
        lacks = "the task has no Label Studio project, and there are no access keys for a marketplace here"
        keys = "OUTFOX_CROWD_KEY_ID and OUTFOX_CROWD_KEY_SECRET"
        cure = f"set {keys} for a crowd (`outfox marketplace account` makes some)"
    return f"nothing can come in: {lacks}; {connect}, or {cure}"


def _is_connected(session: Session, round: Round) -> bool:
    """Whether people of Label Studio write for the round's task; a project that is gone has a number below zero."""
    link = find_link(session, round.task_id, ProjectKind.CREATE)
    return link is not None and link.project > 0


def _was_posted(session: Session, round: Round) -> bool:
    return bool(session.scalar(select(exists().where(Hit.round_id == round.id, Hit.kind == HitKind.CREATE))))
