"""Snapshots of leaderboards as use cases: figures, weights, scores and time, frozen under a hash of their content."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select

from common.errors import Hint
from outfox.arguments import one_line
from outfox.figures import BoardFigures
from outfox.ranking import Ranking, rank_board
from round_manager.audit import note
from round_manager.errors import EvaluationsMissing, LeaderboardTooLarge, LeaderboardUnreadable, SnapshotNotFound
from round_manager.models import Board, BoardSnapshot
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.leaderboards import BoardView
from round_manager.tasks.tasks import find_task

MOST_CHARACTERS = 1 << 24
# The beginning of the hash that names a snapshot in links.
KEY_CHARS = 16
_KEY = re.compile(r"[0-9a-f]{16,64}")


@dataclass(frozen=True)
class SnapshotView:
    """A snapshot in a list."""

    sha256: str
    name: str
    created_by: str
    created_at: datetime

    @property
    def key(self) -> str:
        """The part of the hash that links have."""
        return self.sha256[:KEY_CHARS]


@dataclass(frozen=True)
class Snapshot(SnapshotView):
    """A snapshot with its content, and what follows from it."""

    content: str
    ranking: Ranking
    board: BoardView


def take_snapshot(
    context: ServiceContext, actor: Actor, task: str, board: BoardView, figures: BoardFigures, *, reason: str = ""
) -> SnapshotView:
    """Freeze the leaderboard as it is now, by the weights of a board."""
    if not figures.figures:
        raise EvaluationsMissing(f"{task} has no figures", hint=Hint("evaluate_models", task=task))
    now = context.now()
    ranking = rank_board(figures, board.weights, board.data_weights)
    weights = {"weights": dict(board.weights), "data_weights": dict(board.data_weights)}
    content = canonical(
        {
            "taken_at": now.isoformat(),
            "board": {"name": board.name, "key": board.key, **weights},
            **ranking.as_data(),
        }
    )
    if len(content) > MOST_CHARACTERS:
        text = f"the snapshot has {len(content):,} characters; {MOST_CHARACTERS:,} can be stored"
        raise LeaderboardTooLarge(text)
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    with context.store.write() as session:
        owner = find_task(session, task)
        of_board = select(Board.id).where(Board.task_id == owner.id, Board.key == board.key)
        row = BoardSnapshot(
            task_id=owner.id,
            board_id=session.scalar(of_board) if board.key else None,
            name=board.name,
            content=content,
            sha256=sha256,
            created_by=actor.name,
            created_at=now,
        )
        session.add(row)
        session.flush()
        after = {"sha256": sha256, "name": board.name}
        note(session, "taken", row, actor=actor.name, reason=reason, now=now, of=owner, after=after)
    return SnapshotView(sha256, board.name, actor.name, now)


def list_snapshots(context: ServiceContext, task: str) -> tuple[SnapshotView, ...]:
    """Return the snapshots of a task, newest first, without their content."""
    with context.store.read() as session:
        owner = find_task(session, task)
        columns = select(
            BoardSnapshot.sha256, BoardSnapshot.name, BoardSnapshot.created_by, BoardSnapshot.created_at
        ).where(BoardSnapshot.task_id == owner.id)
        return tuple(SnapshotView(*row) for row in session.execute(columns.order_by(BoardSnapshot.id.desc())))


def read_snapshot(context: ServiceContext, task: str, key: str) -> Snapshot:
    """Return the snapshot whose hash begins with the key; its content is compared with the hash.

    Raises:
        SnapshotNotFound: The task has no such snapshot.
        LeaderboardUnreadable: The content is not what was stored.
    """
    with context.store.read() as session:
        owner = find_task(session, task)
        wanted = select(BoardSnapshot).where(BoardSnapshot.task_id == owner.id, BoardSnapshot.sha256.startswith(key))
        row = session.scalar(wanted) if _KEY.fullmatch(key) else None
    if row is None:
        text = f"{task} has no snapshot {one_line(key, KEY_CHARS)!r}"
        raise SnapshotNotFound(text, hint=Hint("list_boards", task=task))
    damaged = f"the snapshot {row.sha256[:KEY_CHARS]} of {task} is corrupt; restore the database from a copy"
    if hashlib.sha256(row.content.encode()).hexdigest() != row.sha256:
        raise LeaderboardUnreadable(damaged)
    try:
        found = json.loads(row.content)
        ranking, about = Ranking.from_data(found), found["board"]
    except (ValueError, KeyError, TypeError) as error:
        raise LeaderboardUnreadable(damaged) from error
    board = BoardView(about["key"], about["name"], about["weights"], about["data_weights"])
    return Snapshot(row.sha256, row.name, row.created_by, row.created_at, row.content, ranking, board)


def canonical(content: Mapping[str, Any]) -> str:
    """Return JSON that is the same for the same content."""
    return json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def snapshot_data(view: SnapshotView) -> dict[str, Any]:
    """Return what lists show of a snapshot, as JSON-compatible data."""
    about = {name: value for name, value in asdict(view).items() if name in SnapshotView.__dataclass_fields__}
    return {"key": view.key, **about, "created_at": view.created_at.isoformat()}
