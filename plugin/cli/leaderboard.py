"""`outfox leaderboard`: rank the evaluated models of a task by weights of one's own; boards and snapshots."""

from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from common.text import count
from plugin.cli.output import data_command, show, table, when
from plugin.cli.parameters import WHY
from plugin.wiring import Application

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outfox.figures import BoardFigures
    from outfox.ranking import Ranking
    from round_manager.services.board_snapshots import SnapshotView
    from round_manager.services.leaderboards import BoardList, BoardView

SHOW = "show"
# A terminal shows this many models; files and --json have all.
MOST_SHOWN = 50


class DefaultGroup(click.Group):
    """A group whose first argument is a task if it is none of the commands: `outfox leaderboard TASK`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command in front of a task."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


BOARD = click.option(
    "--board",
    default="",
    show_default=False,
    metavar="BOARD",
    help="A board, by its name or key. Default: the default one.",
)
WEIGHTS = click.option(
    "--weights", metavar="AXIS=N,…", help="Weights of axes, for example performance=4,robustness=1; others have 0."
)
DATA_WEIGHTS = click.option(
    "--data-weights", metavar="DATA=N,…", help="Weights of data sets, for example 'round 1=0'; others have 5."
)


@click.group(cls=DefaultGroup, no_args_is_help=True)
def leaderboard() -> None:
    """Rank the evaluated models of a task by their Dynascore. `outfox leaderboard TASK` is `leaderboard show TASK`."""


@leaderboard.command(SHOW)
@click.argument("task")
@BOARD
@WEIGHTS
@DATA_WEIGHTS
@click.option("--snapshot", metavar="HASH", help="A snapshot, by the beginning of its hash.")
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a CSV or Parquet file instead, by its ending.",
)
@click.option("--long", "is_long", is_flag=True, help="With --to: one figure per row, with slices.")
@data_command
def show_(
    app: Application,
    task: str,
    board: str,
    weights: str | None,
    data_weights: str | None,
    snapshot: str | None,
    target: Path | None,
    is_long: bool,
) -> None:
    """Show the ranking of a task's models, with the change of a weight that would alter it.

    Without --board or --weights the default weights apply. The models were measured by `outfox evaluate`, on the seed,
    on frozen rounds and on test suites.
    """
    from outfox.errors import InvalidArgument
    from outfox.ranking import rank, rank_board
    from round_manager.services.board_snapshots import read_snapshot
    from round_manager.services.leaderboards import default_board, find_board

    if ((weights or data_weights) and (board or snapshot)) or (board and snapshot):
        raise click.UsageError("--board, --snapshot and weights are mutually exclusive")
    if is_long and target is None:
        raise click.UsageError("--long needs --to FILE")
    if snapshot:
        with app.services() as services:
            kept = read_snapshot(services, task, snapshot)
        ranking, view = kept.ranking, kept.board
    else:
        figures, boards = _figures(app, task, need_task=bool(board))
        view = find_board(boards, figures, board) if boards and board else default_board(figures)
        if weights or data_weights:
            try:
                ranking = rank(figures, _weights("--weights", weights), _weights("--data-weights", data_weights))
            except InvalidArgument as error:
                raise click.UsageError(str(error)) from error
        else:
            ranking = rank_board(figures, view.weights, view.data_weights)
    if target is not None:
        _write(ranking, target, is_long=is_long)
        return
    show({"task": task, "board": view.name, **_ranking_data(ranking)}, summary(ranking))


@leaderboard.command()
@click.argument("task")
@click.argument("name", metavar="BOARD")
@WEIGHTS
@DATA_WEIGHTS
@click.option(
    "--from", "parent", default="", show_default=False, metavar="BOARD", help="Begin with the weights of another board."
)
@data_command
def create(app: Application, task: str, name: str, weights: str | None, data_weights: str | None, parent: str) -> None:
    """Save a board: a leaderboard with weights of its own, which never change. Weights go from 0 to 5.

    For example: outfox leaderboard create sentiment "Fast enough" --weights performance=4,throughput=2
    """
    from round_manager.services.leaderboards import BoardDraft, find_board, list_boards, save_board

    figures, _ = _figures(app, task, need_task=True)
    with app.services() as services:
        begin = find_board(list_boards(services, task), figures, parent)
        draft = BoardDraft(
            name,
            _weights("--weights", weights) or begin.weights,
            {**begin.data_weights, **(_weights("--data-weights", data_weights) or {})},
            begin.key,
        )
        saved = save_board(services, app.actor, task, draft, figures)
    url = f"{app.settings.web_url.rstrip('/')}/leaderboard/{task}?board={saved.key}"
    show({**_board_data(saved), "url": url}, f"saved {saved.name}; share it as {url}")


@leaderboard.command("list")
@click.argument("task")
@data_command
def list_(app: Application, task: str) -> None:
    """List the boards and the snapshots of a task, and the models that are left out."""
    from round_manager.services.board_snapshots import list_snapshots, snapshot_data
    from round_manager.services.leaderboards import list_boards

    with app.services() as services:
        found, snapshots = list_boards(services, task), list_snapshots(services, task)
    data = {
        "boards": [_board_data(one) for one in found.boards],
        "snapshots": [snapshot_data(one) for one in snapshots],
        "left_out": sorted(found.excluded),
    }
    show(data, Group(*_lists(found, snapshots)))


@leaderboard.command()
@click.argument("task")
@click.argument("board", metavar="BOARD")
@WHY
@data_command
def remove(app: Application, task: str, board: str, why: str) -> None:
    """Remove a board, by its name or key. Its snapshots stay."""
    from round_manager.services.leaderboards import remove_board

    with app.services() as services:
        removed = remove_board(services, app.actor, task, board, reason=why)
    show(_board_data(removed), f"removed {removed.name}")


@leaderboard.command()
@click.argument("task")
@BOARD
@WHY
@data_command
def snapshot(app: Application, task: str, board: str, why: str) -> None:
    """Freeze the leaderboard as it is now: figures, weights, models and time, under a hash of its content."""
    from round_manager.services.board_snapshots import snapshot_data, take_snapshot
    from round_manager.services.leaderboards import find_board, list_boards

    figures, _ = _figures(app, task, need_task=True)
    with app.services() as services:
        view = find_board(list_boards(services, task), figures, board)
        taken = take_snapshot(services, app.actor, task, view, figures, reason=why)
    url = f"{app.settings.web_url.rstrip('/')}/leaderboard/{task}?snapshot={taken.key}"
    show({**snapshot_data(taken), "url": url}, f"took {taken.sha256} of {view.name}; share it as {url}")


@leaderboard.command()
@click.argument("task")
@click.argument("model")
@WHY
@data_command
def hide(app: Application, task: str, model: str, why: str) -> None:
    """Leave a model out of the leaderboard, by its name or id. Snapshots keep it."""
    from round_manager.services.leaderboards import exclude_model

    figures, _ = _figures(app, task, need_task=True, every=True)
    with app.services() as services:
        found = exclude_model(services, app.actor, task, model, figures, reason=why)
    show({"task": task, "model": found, "left_out": True}, f"the leaderboard of {task} leaves out {found}")


@leaderboard.command()
@click.argument("task")
@click.argument("model")
@WHY
@data_command
def unhide(app: Application, task: str, model: str, why: str) -> None:
    """Show a model again that was left out, by its name or id."""
    from round_manager.services.leaderboards import include_model

    figures, _ = _figures(app, task, need_task=True, every=True)
    with app.services() as services:
        found = include_model(services, app.actor, task, model, figures, reason=why)
    show({"task": task, "model": found, "left_out": False}, f"the leaderboard of {task} shows {found}")


def _figures(
    app: Application, task: str, *, need_task: bool, every: bool = False
) -> "tuple[BoardFigures, BoardList | None]":
    """Return the stored figures, without models that are left out, and the boards of a task in the database."""
    from round_manager.errors import StoreError, TaskNotFound
    from round_manager.evaluation.figures import read_figures
    from round_manager.services.leaderboards import list_boards

    # Archives can be evaluated without a database.
    boards = None
    try:
        with app.services() as services:
            boards = list_boards(services, task)
    except (TaskNotFound, StoreError):
        if need_task:
            raise
    figures = read_figures(app.settings.archives_location, task).figures
    return figures if every or boards is None else figures.without(boards.excluded), boards


def _weights(option: str, written: str | None) -> dict[str, float] | None:
    """Return the weights that an option gives, None without it."""
    if not written:
        return None
    found = {}
    for part in written.split(","):
        name, _, value = part.rpartition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError as error:
            raise click.UsageError(f"{option} must be written NAME=NUMBER,…, not {part!r}") from error
    return found


def _ranking_data(ranking: "Ranking") -> dict[str, Any]:
    """Return a ranking as JSON-compatible data."""
    scores = ranking.scores
    wide = ranking.wide().astype(object)
    nearest = scores.nearest_swap
    return {
        "ranking": wide.where(wide.notna(), None).to_dict("records"),
        "weights": dict(scores.weights),
        "data_weights": {name: value for name, value in scores.data_weights.items() if name != "all"},
        "amrs": dict(scores.amrs),
        "nearest_swap": None if nearest is None else {**vars(nearest), "change": nearest.change},
        "unused": dict(scores.unused),
        "problem": scores.problem,
    }


def summary(ranking: "Ranking") -> RenderableType:
    """Return a ranking as a table, with the change of a weight that would alter it."""
    scores = ranking.scores
    names = {one.id: one.name for one in ranking.figures.models}
    performance = {(names[model], data): one for (model, data), one in ranking.performance().items()}
    data = [one.name for one in ranking.figures.data]
    rows = []
    for row in ranking.wide().head(MOST_SHOWN).astype(object).to_dict("records"):
        name = str(row["model"])
        axes = [_number(scores.averages.loc[name, axis]) for axis in scores.averages]
        cells = [_with_interval(performance.get((name, one))) for one in data]
        rows.append((scores.ranks.get(name, ""), name, _number(scores.scores.get(name), 2), *axes, *cells))
    columns = ("rank", "model", "Dynascore", *(axis.replace("_", " ") for axis in scores.averages), *data)
    lines = [f"… and {count(len(scores.averages) - MOST_SHOWN, 'model')} more"] if len(rows) == MOST_SHOWN else []
    lines += [f"{name}: {why}" for name, why in scores.left_out.items()]
    lines += [f"{axis} does not count: {why}" for axis, why in scores.unused.items()]
    weights = ", ".join(f"{axis} {weight:g}" for axis, weight in scores.weights.items() if weight)
    return Group(table(columns, rows), *lines, f"weights: {weights or 'none'}", scores.problem or swap_text(ranking))


def swap_text(ranking: "Ranking") -> str:
    """Return the smallest change of one weight that would alter the ranking, as a sentence."""
    swap = ranking.scores.nearest_swap
    if swap is None:
        return "no change of a single weight alters the ranking"
    axis, word = swap.axis.replace("_", " "), "above" if swap.change > 0 else "below"
    return f"{swap.below} would rank before {swap.above} with a weight of {axis} {word} {swap.swap_weight:.3g}"


def _number(value: Any, digits: int = 1) -> str:
    if value is None or value != value:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.{digits}f}"


def _with_interval(figure: Any) -> str:
    if figure is None:
        return ""
    if figure.low is None or figure.high is None:
        return _number(figure.value)
    return f"{_number(figure.value)} ({_number(figure.low)} to {_number(figure.high)})"


def _write(ranking: "Ranking", target: Path, *, is_long: bool) -> None:
    from plugin.board_files import FORMS, write_frame

    form = target.suffix.lower().removeprefix(".")
    if form not in FORMS:
        raise click.UsageError(f"--to must end in {' or '.join(f'.{one}' for one in FORMS)}")
    frame = ranking.long() if is_long else ranking.wide()
    with _writing(target):
        target.write_bytes(write_frame(frame, form))
    shown = f"wrote {count(len(frame), 'row')} to {target}"
    show({"file": str(target), "rows": len(frame)}, shown)


@contextmanager
def _writing(target: Path) -> "Iterator[None]":
    from plugin.errors import InputFileError

    try:
        yield
    except OSError as error:
        raise InputFileError(f"cannot write {target}: {error.strerror}") from error


def _board_data(board: "BoardView") -> dict[str, Any]:
    return {
        "key": board.key,
        "name": board.name,
        "weights": dict(board.weights),
        "data_weights": dict(board.data_weights),
        "parent": board.parent,
        "created_by": board.created_by,
        "created_at": board.created_at.isoformat() if board.created_at else None,
    }


def _lists(found: "BoardList", snapshots: "Sequence[SnapshotView]") -> "Iterator[RenderableType]":
    if found.boards:
        rows = [
            (one.key, one.name, ", ".join(f"{axis} {weight:g}" for axis, weight in one.weights.items()),
             one.created_by, when(one.created_at)) for one in found.boards
        ]  # fmt: skip
        yield table(("board", "name", "weights", "saved by", "saved"), rows)
    else:
        yield "no boards are saved; the default weights apply"
    if snapshots:
        rows_of = [(one.key, one.name, one.created_by, when(one.created_at)) for one in snapshots]
        yield table(("snapshot", "board", "taken by", "taken"), rows_of)
    if found.excluded:
        yield f"left out: {', '.join(sorted(found.excluded))}"
