"""Gold items for tests."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from round_manager.models import Task
from round_manager.tasks.gold import upload_gold
from templates import SeedRow


def update_gold(session: Session, task: Task, rows: Sequence[SeedRow], *, now: datetime) -> int:
    """Make these rows the owner's gold and retire all others, unchecked; return how many are in use."""
    return upload_gold(session, task, rows, replace=True, actor="owner@test", reason="a test", now=now).live
