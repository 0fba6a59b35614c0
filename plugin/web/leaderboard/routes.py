"""The leaderboard over HTTP.

GET  /leaderboard/TASK                        the ranking: a page for browsers, JSON for programs
GET  /leaderboard/TASK/models/MODEL           a model: its figures, slices and card
GET  /leaderboard/TASK/ranking.csv, .parquet  one row per model
GET  /leaderboard/TASK/figures.csv, .parquet, .json   one figure per row
GET  /leaderboard/TASK/snapshots/HASH.json    a snapshot, as it was hashed
POST /leaderboard/TASK/boards                 save a board, with a data token
POST /leaderboard/TASK/session, session/end   sign in with a data token, and out

`board`, `snapshot`, and weights (`w.AXIS`, `d.DATA`) are parameters of all of these.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, make_response, redirect, render_template, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

from common.clock import Clock
from common.messages import as_sentence
from plugin.board_files import write_frame
from plugin.labelstudio.editor import PAGES, own_addresses, pages_version
from plugin.settings import Settings
from plugin.web import middleware
from plugin.web.data_files import TYPES, DataBusy
from plugin.web.leaderboard.access import FORM_FIELD, BoardAccess, FormOutdated, Reader
from plugin.web.leaderboard.boards import AXIS_PREFIX, DATA_PREFIX, Boards, ShownBoard
from plugin.web.leaderboard.card import card_html
from plugin.web.leaderboard.page import BoardPage, ModelPage
from plugin.web.middleware import ApiError, error_response
from round_manager.database.store import LazyStore
from round_manager.errors import (
    BoardInvalid,
    BoardLimitReached,
    BoardModelNotFound,
    BoardNameTaken,
    BoardNotFound,
    DataRefused,
    LeaderboardError,
    SnapshotNotFound,
)
from round_manager.services.board_snapshots import SnapshotView, snapshot_data
from round_manager.services.context import Actor, Role
from round_manager.services.leaderboards import BoardDraft, save_board
from round_manager.services.submissions import submission_overview

UNREADABLE = "this leaderboard cannot be shown at the moment; contact the task's owner"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
MOST_BYTES = 1 << 16
STATUS = {BoardNotFound: 404, BoardModelNotFound: 404, SnapshotNotFound: 404, BoardInvalid: 400, BoardNameTaken: 409}


def leaderboard_pages(settings: Settings, lazy_store: LazyStore, clock: Clock) -> Blueprint:
    """Return the routes below `/leaderboard`."""
    secure = settings.web_url.startswith("https://")
    boards = Boards(lazy_store, settings.archives_location, clock)
    return leaderboard_blueprint(boards, BoardAccess(settings.signing_secrets(), secure=secure))


def leaderboard_blueprint(boards: Boards, access: BoardAccess) -> Blueprint:
    """Return the routes below `/leaderboard` for these boards."""
    blueprint = Blueprint("leaderboard", __name__, template_folder=str(PAGES))
    views = _Views(boards, access)
    for rule, name, view in (
        ("", "board", views.board),
        ("/models/<model>", "board_model", views.model),
        ("/<any(ranking, figures):table>.<any(csv, parquet, json):form>", "board_file", views.file),
        ("/snapshots/<key>.json", "board_snapshot", views.snapshot),
    ):
        blueprint.add_url_rule(f"/leaderboard/<task>{rule}", name, view)
    for rule, name, post in (
        ("/session", "board_sign_in", views.sign_in),
        ("/session/end", "board_sign_out", views.sign_out),
        ("/boards", "board_save", views.save),
    ):
        blueprint.add_url_rule(f"/leaderboard/<task>{rule}", name, post, methods=["POST"])
    _errors(blueprint)

    @blueprint.after_request
    def guarded(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Vary"] = "Accept, Authorization, Cookie"
        # Clients revalidate every time, so that revoking a token works at once; the ETag makes that cheap.
        response.headers.setdefault("Cache-Control", "private, no-cache" if response.status_code < 400 else "no-store")
        return response

    return blueprint


class _Views:
    def __init__(self, boards: Boards, access: BoardAccess) -> None:
        self._boards = boards
        self._access = access

    def board(self, task: str) -> AnyResponse:
        reader, shown = self._open(task)
        is_page = middleware.wants_html()
        submitted = submission_overview(self._boards.context(), reader.task.name, reader.token)

        def body() -> Response:
            if not is_page:
                return _json(self._as_data(shown))
            page = BoardPage(shown, self._boards.ranking(shown), request.args)
            saved = request.args.get("saved", "")
            return self._page("leaderboard.html", reader, page, saved=saved, submitted=submitted)

        return self._cached(body, shown, reader, f"html {submitted.version}" if is_page else "json")

    def model(self, task: str, model: str) -> AnyResponse:
        reader, shown = self._open(task)

        def body() -> Response:
            ranking = self._boards.ranking(shown)
            page = BoardPage(shown, ranking, request.args)
            found = ModelPage(page, ranking, model)
            if found.model is None:
                raise BoardModelNotFound("the leaderboard has no such model")
            card = self._boards.card(task, model)
            return self._page("leaderboard-model.html", reader, page, found=found, card=card_html(card) if card else "")

        return self._cached(body, shown, reader, "html")

    def file(self, task: str, table: str, form: str) -> AnyResponse:
        reader, shown = self._open(task)

        def body() -> Response:
            ranking = self._boards.ranking(shown)
            if form == "json":
                return _json({"figures": shown.figures.as_data(), "board": _weights(shown)})
            with self._boards.slot():
                content = write_frame(ranking.wide() if table == "ranking" else ranking.long(), form)
            response = Response(content, content_type=TYPES[form])
            response.headers["Content-Disposition"] = f'attachment; filename="{reader.task.name}-{table}.{form}"'
            return response

        return self._cached(body, shown, reader, "file")

    def snapshot(self, task: str, key: str) -> AnyResponse:
        reader = self._reader(task)
        found = self._boards.show(reader.task.name, {"snapshot": key}).snapshot
        if found is None:
            raise SnapshotNotFound("there is no such snapshot")
        response = Response(found.content, mimetype="application/json")
        response.set_etag(found.sha256)
        response.make_conditional(request)
        return response

    def sign_in(self, task: str) -> AnyResponse:
        request.max_content_length = MOST_BYTES
        response = make_response(redirect(f"/leaderboard/{task}{_next()}", 303))
        self._access.sign_in(self._boards.context(), request, response, task, request.form.get("token", ""))
        return response

    def sign_out(self, task: str) -> AnyResponse:
        reader = self._reader(task)
        response = make_response(redirect(f"/leaderboard/{reader.task.name}", 303))
        self._access.sign_out(request, response, reader.task.name)
        return response

    def save(self, task: str) -> AnyResponse:
        request.max_content_length = MOST_BYTES
        reader = self._reader(task)
        self._access.check_form(request, reader)
        if not reader.token:
            raise DataRefused("saving a board requires a token; sign in with one that the task's owner gave you")
        form = request.form
        shown = self._boards.show(reader.task.name, {"board": form.get("board", "")})
        draft = BoardDraft(
            form.get("name", ""), _sent(AXIS_PREFIX), _sent(DATA_PREFIX), shown.board.key
        )  # fmt: skip
        actor = Actor(f"token {reader.token}", Role.VIEWER)
        saved = save_board(
            self._boards.context(), actor, reader.task.name, draft, shown.figures, token=reader.token
        )  # fmt: skip
        if not middleware.wants_html():
            about = {"key": saved.key, "name": saved.name, "weights": saved.weights, "data_weights": saved.data_weights}
            return make_response(about, 201)
        return redirect(f"/leaderboard/{reader.task.name}?{urlencode({'board': saved.key, 'saved': 1})}", 303)

    def _reader(self, task: str) -> Reader:
        return self._access.admit(self._boards.context(), request, task)

    def _open(self, task: str) -> tuple[Reader, ShownBoard]:
        reader = self._reader(task)
        return reader, self._boards.show(reader.task.name, request.args)

    def _cached(self, body: Callable[[], Response], shown: ShownBoard, reader: Reader, kind: str) -> Response:
        """Return what `body` makes, or 304 without making it if the client has it."""
        parts = (shown.version, kind, request.full_path, reader.token, reader.has_cookie, pages_version())
        etag = hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]
        response = Response(status=304) if request.if_none_match.contains_weak(etag) else body()
        response.set_etag(etag, weak=True)
        return response

    def _page(self, template: str, reader: Reader, page: BoardPage, **more: Any) -> Response:
        text = render_template(
            template, file=own_addresses(), page=page, shown=page.shown, reader=reader,
            form_field=FORM_FIELD, form_token=self._access.form_token(reader), axis_prefix=AXIS_PREFIX,
            data_prefix=DATA_PREFIX, **more,
        )  # fmt: skip
        return make_response(text)

    def _as_data(self, shown: ShownBoard) -> dict[str, Any]:
        """Return the ranking as JSON-compatible data."""
        ranking = self._boards.ranking(shown)
        wide = ranking.wide().astype(object)
        nearest = ranking.scores.nearest_swap
        return {
            "task": shown.figures.task,
            "board": {"key": shown.board.key, "name": shown.board.name, **_weights(shown)},
            "ranking": wide.where(wide.notna(), None).to_dict("records"),
            "amrs": dict(ranking.scores.amrs),
            "nearest_swap": None if nearest is None else {**vars(nearest), "change": nearest.change},
            "problem": ranking.scores.problem,
            "boards": [{"key": one.key, "name": one.name} for one in shown.boards.boards],
            "snapshots": [_public(one) for one in shown.snapshots],
        }


def _public(snapshot: SnapshotView) -> dict[str, Any]:
    """Return what clients see of a snapshot: not who took it, because that names a machine."""
    return {name: value for name, value in snapshot_data(snapshot).items() if name != "created_by"}


def _weights(shown: ShownBoard) -> dict[str, Any]:
    return {"weights": dict(shown.board.weights), "data_weights": dict(shown.board.data_weights)}


def _json(content: dict[str, Any]) -> Response:
    return Response(json.dumps(content, ensure_ascii=False, allow_nan=False), mimetype="application/json")


def _next() -> str:
    """Return the query of the page on which the form was: only known parameters, so it leads nowhere else."""
    known = {name: value for name in ("board", "snapshot") if (value := request.form.get(name, ""))}
    return f"?{urlencode(known)}" if known else ""


def _sent(prefix: str) -> dict[str, float]:
    """Return the weights that a form sends."""
    found = {}
    for name, value in request.form.items():
        if name.startswith(prefix):
            try:
                found[name.removeprefix(prefix)] = float(value)
            except ValueError as error:
                raise BoardInvalid("every weight must be a number") from error
    return found


def _errors(blueprint: Blueprint) -> None:
    @blueprint.errorhandler(DataRefused)
    def refused(error: DataRefused) -> Response:
        if not middleware.wants_html():
            response = error_response(ApiError.of(401, error))
            response.headers["WWW-Authenticate"] = 'Bearer realm="outfox data"'
            return response
        # The same page for a private task and for none.
        task = (request.view_args or {}).get("task", "")
        wrong = as_sentence(error.message) if request.method == "POST" else ""
        asked = {name: request.args.get(name, "") for name in ("board", "snapshot")}
        text = render_template(
            "leaderboard-sign-in.html", file=own_addresses(), task=task, wrong=wrong, asked=asked
        )  # fmt: skip
        return make_response(text, 401)

    @blueprint.errorhandler(FormOutdated)
    def outdated(error: FormOutdated) -> Response:
        return error_response(ApiError.of(403, error), for_people=error.message)

    @blueprint.errorhandler(BoardLimitReached)
    def limited(error: BoardLimitReached) -> Response:
        return error_response(ApiError.of(429, error), for_people=error.message)

    @blueprint.errorhandler(LeaderboardError)
    def failed(error: LeaderboardError) -> Response:
        status = STATUS.get(type(error))
        if status is None:
            # The message can name files.
            middleware.unavailable(error)
            return error_response(ApiError(503, UNREADABLE, error.code))
        return error_response(ApiError.of(status, error), for_people=error.message)

    @blueprint.errorhandler(DataBusy)
    def busy(error: DataBusy) -> Response:
        return error_response(ApiError.of(503, error, retry=True))

    @blueprint.errorhandler(HTTPException)
    def odd(error: HTTPException) -> Response:
        return error_response(ApiError.of_http(error))
