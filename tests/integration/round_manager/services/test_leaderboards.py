"""Boards, snapshots and left-out models of a leaderboard, on each database."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from outfox.figures import BoardFigures
from outfox.ranking import rank_board
from round_manager.database.store import Store
from round_manager.errors import (
    BoardInvalid,
    BoardLimitReached,
    BoardModelNotFound,
    BoardNameTaken,
    BoardNotFound,
    DataRefused,
    EvaluationsMissing,
    LeaderboardTooLarge,
    LeaderboardUnreadable,
    SnapshotNotFound,
)
from round_manager.evaluation import figures as stored_figures
from round_manager.evaluation.figures import FigureCache, read_figures
from round_manager.models import AuditEntry, Board, BoardSnapshot
from round_manager.services import board_snapshots, leaderboards
from round_manager.services.board_snapshots import list_snapshots, read_snapshot, take_snapshot
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import create_token, revoke_token
from round_manager.services.leaderboards import (
    BoardDraft,
    default_board,
    exclude_model,
    find_board,
    include_model,
    list_boards,
    remove_board,
    save_board,
)
from round_manager.tasks.tasks import create_task
from templates import BUILT_IN, load_pack
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.evaluations import TASK, store_evaluations

ADA = Actor("ada@here")
MODELS = {"va": "ada", "vb": "bo", "vc": "cy"}
HALF = {"performance": 2.5, "throughput": 0.5}


@pytest.fixture
def context(store: Store) -> ServiceContext:
    with store.write() as session:
        for name in (TASK, "nli"):
            create_task(session, load_pack(BUILT_IN / name), now=NOON)
    return ServiceContext(store, SettableClock(NOON))


@pytest.fixture
def figures(tmp_path: Path) -> BoardFigures:
    store_evaluations(tmp_path, MODELS)
    return read_figures(str(tmp_path), TASK).figures


def later(context: ServiceContext, **span: int) -> ServiceContext:
    return ServiceContext(context.store, SettableClock(NOON + timedelta(**span)))


def actions(context: ServiceContext) -> list[tuple[str, str]]:
    with context.store.read() as session:
        found = session.execute(select(AuditEntry.subject, AuditEntry.action).order_by(AuditEntry.id))
        return [(subject, action) for subject, action in found if subject != "task"]


def test_a_board_keeps_its_weights_and_is_found_by_name_and_key(context: ServiceContext, figures: BoardFigures) -> None:
    saved = save_board(context, ADA, TASK, BoardDraft("  Fast   enough ", HALF, {"seed": 0, "round 1": 5}), figures)
    assert (saved.name, dict(saved.weights), dict(saved.data_weights)) == ("Fast enough", HALF, {"seed": 0})
    forked = save_board(context, ADA, TASK, BoardDraft("Mine", HALF, {}, saved.key), figures)
    boards = list_boards(context, TASK)
    assert [one.name for one in boards.boards] == ["Mine", "Fast enough"]
    assert find_board(boards, figures, "FAST ENOUGH") == find_board(boards, figures, saved.key) == boards.boards[1]
    assert (forked.parent, boards.boards[0].parent) == ("Fast enough", "Fast enough")
    assert find_board(boards, figures, "") == find_board(boards, figures, "default") == default_board(figures)
    remove_board(context, ADA, TASK, saved.key, reason="unused")
    with pytest.raises(BoardNotFound):
        remove_board(context, ADA, TASK, "fast enough")
    assert save_board(context, ADA, TASK, BoardDraft("Fast enough", HALF), figures).key != saved.key
    assert actions(context) == [("board", "saved"), ("board", "saved"), ("board", "removed"), ("board", "saved")]


@pytest.mark.any_database
def test_names_that_look_alike_are_one(context: ServiceContext, figures: BoardFigures) -> None:
    save_board(context, ADA, TASK, BoardDraft("Straße 1", HALF), figures)
    for name in ("STRASSE 1", "Straße ①", "default", "\uff24\uff25\uff26\uff21\uff35\uff2c\uff34"):
        with pytest.raises(BoardNameTaken):
            save_board(context, ADA, TASK, BoardDraft(name, HALF), figures)
    with pytest.raises(BoardNotFound):
        find_board(list_boards(context, "nli"), figures, "Straße 1")


HOSTILE = ("", "   ", "!!!", "x" * 61, "a\x00b", "a\u202eb", "a\u200bb", "Z" + "\u0301" * 9, "\ud800")


@pytest.mark.any_database
def test_hostile_names_are_refused(context: ServiceContext, figures: BoardFigures) -> None:
    for name in HOSTILE:
        with pytest.raises(BoardInvalid):
            save_board(context, ADA, TASK, BoardDraft(name, HALF), figures)
        with pytest.raises(BoardNotFound):
            remove_board(context, ADA, TASK, name or "no such board")


WRONG: tuple[dict[str, dict[str, float]], ...] = (
        {"weights": {}}, {"weights": {"performance": 0}}, {"weights": {"performance": -1}},
        {"weights": {"performance": 6}}, {"weights": {"performance": float("nan")}}, {"weights": {"charm": 1}},
        {"data_weights": {"round 9": 1}},
        {"data_weights": dict.fromkeys(("seed", "round 1", "round 2", "suite checks"), 0)},
    )  # fmt: skip


@pytest.mark.any_database
def test_weights_that_rank_nothing_are_refused(context: ServiceContext, figures: BoardFigures) -> None:
    for wrong in WRONG:
        draft = BoardDraft("Mine", wrong.get("weights", HALF), wrong.get("data_weights", {}))
        with pytest.raises(BoardInvalid):
            save_board(context, ADA, TASK, draft, figures)


def test_a_token_saves_a_few_boards_and_no_more(context: ServiceContext, figures: BoardFigures) -> None:
    token = create_token(context, ADA, TASK, days=30).row.key
    other = create_token(context, ADA, "nli", days=30).row.key

    def save(number: int, key: str = token, *, hours: int = 0) -> None:
        actor = Actor(f"token {key}")
        save_board(later(context, hours=hours), actor, TASK, BoardDraft(f"b{number}", HALF), figures, token=key)

    for number in range(leaderboards.MOST_PER_HOUR):
        save(number)
    with pytest.raises(BoardLimitReached) as soon:
        save(99)
    assert soon.value.retry
    for number in range(leaderboards.MOST_PER_HOUR, leaderboards.MOST_OF_TOKEN):
        save(number, hours=2)
    # Removed ones count too.
    remove_board(context, ADA, TASK, "b0")
    with pytest.raises(BoardLimitReached) as never:
        save(99, hours=10)
    assert not never.value.retry
    for key in (other, "unknown"):
        with pytest.raises(DataRefused):
            save(99, key)
    revoke_token(context, ADA, token)
    with pytest.raises(DataRefused):
        save(99)
    save_board(context, ADA, TASK, BoardDraft("the owner's", HALF), figures)


@pytest.mark.any_database
def test_tokens_cannot_fill_a_task(
    context: ServiceContext, figures: BoardFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboards, "MOST_OF_TOKENS", 1)
    key = create_token(context, ADA, TASK, days=30).row.key
    save_board(context, ADA, TASK, BoardDraft("one", HALF), figures, token=key)
    with pytest.raises(BoardLimitReached):
        save_board(context, ADA, TASK, BoardDraft("two", HALF), figures, token=key)
    save_board(context, ADA, TASK, BoardDraft("two", HALF), figures)


def test_a_snapshot_stays_as_it_was(context: ServiceContext, figures: BoardFigures, tmp_path: Path) -> None:
    board = save_board(context, ADA, TASK, BoardDraft("Mine", HALF, {"seed": 0}), figures)
    before = rank_board(figures, board.weights, board.data_weights)
    taken = take_snapshot(context, ADA, TASK, board, figures)
    store_evaluations(tmp_path, {**MODELS, "vd": "dee"}, seed=7)
    assert len(read_figures(str(tmp_path), TASK).figures.models) == 4
    remove_board(context, ADA, TASK, "Mine")
    kept = read_snapshot(context, TASK, taken.key)
    assert kept.ranking.as_data() == before.as_data()
    assert kept.ranking.wide().equals(before.wide())
    assert list(kept.ranking.scores.ranks) == list(before.scores.ranks)
    assert (kept.board.name, dict(kept.board.weights), kept.created_at) == ("Mine", HALF, NOON)
    assert [one.sha256 for one in list_snapshots(context, TASK)] == [kept.sha256]
    assert json.loads(kept.content)["taken_at"] == NOON.isoformat()
    for key in ("", "0" * 16, kept.key[:15], "%", kept.key + "z", "a\x00b"):
        with pytest.raises(SnapshotNotFound):
            read_snapshot(context, TASK, key)
    with pytest.raises(SnapshotNotFound):
        read_snapshot(context, "nli", kept.key)


@pytest.mark.sqlite("the guard is removed by hand")
def test_a_snapshot_that_was_changed_behind_our_back_is_reported(
    context: ServiceContext, figures: BoardFigures
) -> None:
    taken = take_snapshot(context, ADA, TASK, default_board(figures), figures)
    with context.store.write() as session:
        session.connection().exec_driver_sql("DROP TRIGGER guard_board_snapshot_fixed")
        session.execute(update(BoardSnapshot).values(content='{"figures": {}}'))
    with pytest.raises(LeaderboardUnreadable):
        read_snapshot(context, TASK, taken.key)


@pytest.mark.any_database
def test_a_snapshot_has_a_limit(
    context: ServiceContext, figures: BoardFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_snapshots, "MOST_CHARACTERS", 1_000)
    with pytest.raises(LeaderboardTooLarge):
        take_snapshot(context, ADA, TASK, default_board(figures), figures)
    assert list_snapshots(context, TASK) == ()


def test_models_are_left_out_and_shown_again(context: ServiceContext, figures: BoardFigures) -> None:
    assert exclude_model(context, ADA, TASK, "bo", figures, reason="withdrawn") == "vb"
    assert exclude_model(context, ADA, TASK, "vb", figures) == "vb"
    left = figures.without(list_boards(context, TASK).excluded)
    assert [one.id for one in left.models] == ["va", "vc"]
    assert {one.model for one in left.figures} == {"va", "vc"}
    assert include_model(context, ADA, TASK, "bo", figures) == "vb"
    assert list_boards(context, TASK).excluded == frozenset()
    with pytest.raises(BoardModelNotFound):
        exclude_model(context, ADA, TASK, "nobody", figures)
    with pytest.raises(BoardModelNotFound):
        include_model(context, ADA, TASK, "bo", figures)
    assert actions(context) == [("excluded_model", "excluded"), ("excluded_model", "included")]


def test_figures_are_read_again_when_files_change(tmp_path: Path) -> None:
    store_evaluations(tmp_path, MODELS)
    moment = [0.0]
    cache = FigureCache(str(tmp_path), seconds=10, now=lambda: moment[0])
    first = cache.get(TASK)
    store_evaluations(tmp_path, {"vd": "dee"})
    moment[0] = 9
    assert cache.get(TASK) is first
    moment[0] = 11
    second = cache.get(TASK)
    assert (len(second.figures.models), second.version == first.version) == (4, False)
    moment[0] = 30
    assert cache.get(TASK) is second


def test_stored_evaluations_have_limits_and_mistakes_have_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EvaluationsMissing):
        read_figures(str(tmp_path), TASK)
    store_evaluations(tmp_path, MODELS)
    for name in ("MOST_FILES", "MOST_FIGURES"):
        with monkeypatch.context() as patch:
            patch.setattr(stored_figures, name, 10)
            with pytest.raises(LeaderboardTooLarge):
                read_figures(str(tmp_path), TASK)
    next((tmp_path / TASK / "evaluations").glob("*/va/*.json")).write_text("[" * 100_000)
    with pytest.raises(LeaderboardUnreadable):
        read_figures(str(tmp_path), TASK)


def test_figures_in_a_bucket_are_those_in_a_folder(bucket: str, tmp_path: Path) -> None:
    store_evaluations(tmp_path, MODELS)
    store_evaluations(bucket, MODELS)
    known = read_figures(bucket, TASK)
    assert known.figures == read_figures(str(tmp_path), TASK).figures
    assert read_figures(bucket, TASK, known) is known


@pytest.mark.any_database
def test_boards_are_rows_of_one_task(context: ServiceContext, figures: BoardFigures) -> None:
    save_board(context, ADA, TASK, BoardDraft("Mine", HALF), figures)
    assert list_boards(context, "nli").boards == ()
    with context.store.read() as session:
        assert [row.token_id for row in session.scalars(select(Board))] == [None]
