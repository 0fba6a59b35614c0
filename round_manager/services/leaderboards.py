"""Leaderboards as use cases: boards with weights of their own, and models that a leaderboard leaves out.

A board never changes: whoever has its link sees the same weights. It begins with the default weights or with those of
another board. The owner saves as many as a task can have; anyone with a data token saves a few.
"""

import math
import re
import secrets
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session

from common.errors import Hint
from outfox.arguments import one_line
from outfox.dynascore import DATA_WEIGHT
from outfox.figures import BoardFigures
from outfox.ranking import default_weights, scored_axes
from round_manager.audit import note
from round_manager.errors import (
    BoardInvalid,
    BoardLimitReached,
    BoardModelNotFound,
    BoardNameTaken,
    BoardNotFound,
    DataRefused,
    DuplicateError,
)
from round_manager.models import Board, DataToken, ExcludedModel, Task
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks.tasks import find_task

DEFAULT = "Default"
MOST_WEIGHT = 5.0
LONGEST_NAME = 60
KEY_BYTES = 6
MOST_OF_TASK = 1_000
MOST_OF_TOKENS = 500
MOST_OF_TOKEN = 20
MOST_PER_HOUR = 10
# More marks on one letter cover the lines around it.
MOST_MARKS = 2
_WORD = re.compile(r"\w")
_KEY = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")


@dataclass(frozen=True)
class BoardDraft:
    """A board to save: its name, its weights, and the key of the board that it began with."""

    name: str
    weights: Mapping[str, float] = field(default_factory=dict)
    data_weights: Mapping[str, float] = field(default_factory=dict)
    parent: str = ""


@dataclass(frozen=True)
class BoardView:
    """A board as it is shown. The default board has no key."""

    key: str
    name: str
    weights: Mapping[str, float]
    data_weights: Mapping[str, float]
    parent: str = ""
    created_by: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True)
class BoardList:
    """The boards of a task, newest first, and the ids of the models that its leaderboard leaves out."""

    boards: tuple[BoardView, ...]
    excluded: frozenset[str]


def default_board(figures: BoardFigures) -> BoardView:
    """Return the board with the default weights."""
    return BoardView("", DEFAULT, default_weights(figures), {})


def list_boards(context: ServiceContext, task: str) -> BoardList:
    """Return the boards of a task and the models that are left out."""
    with context.store.read() as session:
        owner = find_task(session, task)
        rows = session.scalars(_boards(owner).order_by(Board.id.desc())).all()
        parents = {row.id: row.name for row in rows}
        excluded = session.scalars(select(ExcludedModel.model).where(ExcludedModel.task_id == owner.id)).all()
        return BoardList(tuple(_view(row, parents) for row in rows), frozenset(excluded))


def find_board(boards: BoardList, figures: BoardFigures, board: str) -> BoardView:
    """Return the board of that key or name; the default one if it is empty."""
    folded = _folded(board)
    if not folded or folded == _folded(DEFAULT):
        return default_board(figures)
    for one in boards.boards:
        if board == one.key or folded == _folded(one.name):
            return one
    raise BoardNotFound(
        f"{figures.task} has no board {one_line(board, LONGEST_NAME)!r}", hint=Hint("list_boards", task=figures.task)
    )


def save_board(
    context: ServiceContext, actor: Actor, task: str, draft: BoardDraft, figures: BoardFigures, *, token: str = ""
) -> BoardView:
    """Save a board; `token` is the key of the data token it is saved with, none for the owner.

    Raises:
        BoardInvalid: The name or a weight is invalid.
        BoardNameTaken: Another board has this name, or one that looks the same.
        BoardLimitReached: The token or the task has too many boards.
    """
    name = checked_name(draft.name)
    weights, data_weights = checked_weights(draft, figures)
    now = context.now()
    try:
        with context.store.write() as session:
            owner = find_task(session, task)
            saved_with = _locked_token(session, owner, token, now) if token else None
            _check_limits(session, owner, saved_with, now)
            of_key = _boards(owner).where(Board.key == draft.parent)
            parent = session.scalar(of_key) if _KEY.fullmatch(draft.parent) else None
            row = Board(
                task_id=owner.id,
                key=secrets.token_hex(KEY_BYTES),
                name=name,
                folded_name=_folded(name),
                weights=weights,
                data_weights=data_weights,
                parent_id=parent.id if parent else None,
                token_id=saved_with.id if saved_with else None,
                created_by=actor.name,
                created_at=now,
            )
            session.add(row)
            session.flush()
            after = {"name": name, "weights": weights, "data_weights": data_weights}
            note(session, "saved", row, actor=actor.name, reason="", now=now, of=owner, after=after)
            return _view(row, {parent.id: parent.name} if parent else {})
    except DuplicateError as error:
        text = f"{task} has a board with the name {name!r}, or one that looks the same; choose another name"
        raise BoardNameTaken(text, hint=Hint("list_boards", task=task)) from error


def remove_board(context: ServiceContext, actor: Actor, task: str, board: str, *, reason: str = "") -> BoardView:
    """Remove the board of that key or name from the leaderboard; its name can be used again."""
    now = context.now()
    with context.store.write() as session:
        owner = find_task(session, task)
        named = Board.key == board if _KEY.fullmatch(board) else Board.folded_name == _folded(board)
        # A database may refuse to compare other texts.
        valid = board.isprintable() and len(board) <= LONGEST_NAME
        row = session.scalar(_boards(owner).where(named).with_for_update()) if valid else None
        if row is None:
            text = f"{task} has no board {one_line(board, LONGEST_NAME)!r}"
            raise BoardNotFound(text, hint=Hint("list_boards", task=task))
        row.removed_at = now
        note(session, "removed", row, actor=actor.name, reason=reason, now=now, of=owner, before={"name": row.name})
        return _view(row, {})


def exclude_model(
    context: ServiceContext, actor: Actor, task: str, model: str, figures: BoardFigures, *, reason: str = ""
) -> str:
    """Leave a model out of the task's leaderboard, by its id or name; return its id. Safe to repeat."""
    found = next((one.id for one in figures.models if model in (one.id, one.name)), None)
    if found is None:
        text = f"the leaderboard of {task} has no model {one_line(model, LONGEST_NAME)!r}"
        raise BoardModelNotFound(text, hint=Hint("show_leaderboard", task=task))
    now = context.now()
    with context.store.write() as session:
        owner = find_task(session, task)
        known = select(ExcludedModel).where(ExcludedModel.task_id == owner.id, ExcludedModel.model == found)
        if session.scalar(known) is None:
            row = ExcludedModel(task_id=owner.id, model=found, excluded_at=now)
            session.add(row)
            session.flush()
            note(session, "excluded", row, actor=actor.name, reason=reason, now=now, of=owner, after={"model": found})
    return found


def include_model(
    context: ServiceContext, actor: Actor, task: str, model: str, figures: BoardFigures, *, reason: str = ""
) -> str:
    """Show a model again that was left out, by its id or name; return its id."""
    found = next((one.id for one in figures.models if model in (one.id, one.name)), model)
    now = context.now()
    with context.store.write() as session:
        owner = find_task(session, task)
        known = select(ExcludedModel).where(ExcludedModel.task_id == owner.id, ExcludedModel.model == found)
        row = session.scalar(known) if found.isprintable() else None
        if row is None:
            text = f"{one_line(model, LONGEST_NAME)!r} is not left out of the leaderboard of {task}"
            raise BoardModelNotFound(text, hint=Hint("list_boards", task=task))
        note(session, "included", row, actor=actor.name, reason=reason, now=now, of=owner, before={"model": found})
        session.execute(delete(ExcludedModel).where(ExcludedModel.id == row.id))
    return found


def checked_name(name: str) -> str:
    """Return a board's name in the form in which it is stored; raise BoardInvalid."""
    found = " ".join(unicodedata.normalize("NFC", name).split())
    marks = 0
    for char in found:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks > MOST_MARKS or not char.isprintable():
            raise BoardInvalid("the name of a board cannot have invisible characters or piles of accents")
    if not 1 <= len(found) <= LONGEST_NAME or not _WORD.search(found):
        raise BoardInvalid(f"the name of a board has 1 to {LONGEST_NAME} characters, with a letter or a digit")
    if _folded(found) == _folded(DEFAULT):
        raise BoardNameTaken(f"{DEFAULT} is the name of the board with the default weights; choose another name")
    return found


def checked_weights(draft: BoardDraft, figures: BoardFigures) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weights of a draft as they are stored; raise BoardInvalid."""
    axes = {axis: _weight(axis, value) for axis, value in draft.weights.items() if value}
    data = {name: _weight(name, value) for name, value in draft.data_weights.items()}
    known = (*scored_axes(figures), *(one.name for one in figures.data))
    for name in (*axes, *data):
        if name not in known:
            text = f"{one_line(name, LONGEST_NAME)!r} is neither an axis nor a data set of {figures.task}"
            raise BoardInvalid(f"{text}; known are {', '.join(known)}")
    if not axes or all(data.get(one.name, DATA_WEIGHT) == 0 for one in figures.data):
        raise BoardInvalid("a board needs an axis and a data set with a weight above zero")
    return axes, {name: weight for name, weight in data.items() if weight != DATA_WEIGHT}


def _weight(name: str, value: float) -> float:
    if isinstance(value, bool) or not math.isfinite(value) or not 0 <= value <= MOST_WEIGHT:
        raise BoardInvalid(f"the weight of {one_line(name, LONGEST_NAME)} must be from 0 to {MOST_WEIGHT:g}")
    return round(float(value), 2)


def _check_limits(session: Session, owner: Task, token: DataToken | None, now: datetime) -> None:
    # Removed boards of a token count: removing them must not invite more.
    of_task = session.scalar(select(func.count()).select_from(_boards(owner).subquery())) or 0
    if of_task >= (MOST_OF_TASK if token is None else MOST_OF_TOKENS):
        raise BoardLimitReached(f"{owner.name} has {of_task} boards, which is the limit; remove some first")
    if token is None:
        return
    saved = select(func.count(), func.count().filter(Board.created_at > now - timedelta(hours=1)))
    total, recent = session.execute(saved.where(Board.token_id == token.id, Board.token_id.is_not(None))).one()
    if total >= MOST_OF_TOKEN:
        raise BoardLimitReached(f"{MOST_OF_TOKEN} boards were saved with this token, which is the limit")
    if recent >= MOST_PER_HOUR:
        error = BoardLimitReached(f"{MOST_PER_HOUR} boards were saved with this token within an hour; try again later")
        error.retry = True
        raise error


def _locked_token(session: Session, owner: Task, key: str, now: datetime) -> DataToken:
    """Return the token; locked, so that two requests do not pass the limit together."""
    wanted = select(DataToken).where(DataToken.key == key, DataToken.task_id == owner.id)
    token = session.scalar(wanted.with_for_update())
    if token is None or token.revoked_at is not None or now >= token.expires_at:
        raise DataRefused("saving a board requires a valid token; ask the task's owner for one")
    return token


def _boards(owner: Task) -> Select[Board]:
    return select(Board).where(Board.task_id == owner.id, Board.removed_at.is_(None))


def _view(row: Board, parents: Mapping[int, str]) -> BoardView:
    parent = parents.get(row.parent_id, "") if row.parent_id else ""
    return BoardView(row.key, row.name, row.weights, row.data_weights, parent, row.created_by, row.created_at)


def _folded(name: str) -> str:
    """Return what two names that look alike have in common."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
