"""Frozen rounds over HTTP, at addresses that stay: pandas, browsers and `import outfox` read the same bytes.

/data/TASK                       what there is
/data/TASK/rounds/N/FILE         a file of a frozen round, by its hash, whole or in part
"""

import hashlib
import json
import logging

from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException, RequestedRangeNotSatisfiable

from common.clock import Clock
from plugin.lazy_store import LazyStore
from plugin.settings import Settings
from plugin.web.bearer import bearer_token
from plugin.web.byte_ranges import asked_span
from plugin.web.data_desk import DataBusy, DataDesk, DataFile, NoSuchData
from plugin.web.error_responses import ApiError, error_response
from plugin.web.middleware import REQUEST_ID
from round_manager.archive.csv_cache import CsvCache
from round_manager.errors import ArchiveError, ArchiveFileChanged, DataRefused

UNREADABLE = "this file cannot be read now; tell the task's owner"
CHANGED = "this file is not what was frozen, so it is not sent; tell the task's owner"
_log = logging.getLogger(__name__)


def data_pages(settings: Settings, lazy_store: LazyStore, clock: Clock) -> Blueprint:
    """Everything below `/data`."""
    return data_blueprint(DataDesk(lazy_store, CsvCache(settings.cache_path / "csv"), clock))


def data_blueprint(desk: DataDesk) -> Blueprint:
    """The routes of one desk."""
    blueprint = Blueprint("data", __name__)

    def listing(task: str) -> Response:
        opened = desk.opened_task(task, _token())
        leave = desk.take_place()
        try:
            body = json.dumps(desk.listing(opened), indent=1, ensure_ascii=False).encode()
        finally:
            leave()
        response = Response(body, mimetype="application/json")
        response.set_etag(hashlib.sha256(body).hexdigest())
        response.make_conditional(request)
        return response

    def file(task: str, number: int, name: str) -> Response:
        opened = desk.opened_task(task, _token())
        leave = desk.take_place()
        try:
            response = _sent(desk.file(opened, number, name))
        except BaseException:
            leave()
            raise
        # The socket's timeout (web/middleware.py) drops a client that reads less than a piece in ten seconds.
        response.call_on_close(leave)
        response.headers["Content-Disposition"] = f'attachment; filename="{task}-round-{number}-{name}"'
        return response

    blueprint.add_url_rule("/data/<task>", "listing", listing)
    blueprint.add_url_rule("/data/<task>/rounds/<int:number>/<name>", "file", file)
    _errors(blueprint)

    @blueprint.after_request
    def guarded(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"  # The address may have a token in it.
        # Asked for again each time, so that what is revoked is revoked; the ETag makes that cheap.
        response.headers.setdefault("Cache-Control", "private, no-cache")
        return response

    return blueprint


def _token() -> str:
    return bearer_token(request.headers.get("Authorization", "")) or request.args.get("token", "")


def _sent(file: DataFile) -> Response:
    """The file, a part of it, or that it is the one that the client has; never compressed, which would end ranges."""
    etag, size = f'"{file.entry.sha256}"', file.entry.size
    headers = {"ETag": etag, "Accept-Ranges": "bytes"}
    if file.public:
        headers["Cache-Control"] = "public, no-cache"
    if request.if_none_match.contains_weak(file.entry.sha256):
        return Response(status=304, headers=headers)
    # Only a GET can ask for a part.
    span = asked_span(request.headers, size, etag) if request.method == "GET" else None
    start, stop = (span.start, span.stop) if span else (0, size)
    headers["Content-Length"] = str(stop - start)
    if span:
        headers["Content-Range"] = span.told(size)
    body = file.pieces(start, stop) if request.method == "GET" else ()
    return Response(body, 206 if span else 200, headers, content_type=file.content_type)


def _errors(blueprint: Blueprint) -> None:
    @blueprint.errorhandler(DataRefused)
    def refused(error: DataRefused) -> Response:
        response = _error_response(ApiError.of(401, error))
        response.headers["WWW-Authenticate"] = 'Bearer realm="outfox data"'
        return response

    @blueprint.errorhandler(NoSuchData)
    def missing(error: NoSuchData) -> Response:
        return _error_response(ApiError.of(404, error))

    @blueprint.errorhandler(DataBusy)
    def busy(error: DataBusy) -> Response:
        return _error_response(ApiError.of(503, error, retry=True))

    @blueprint.errorhandler(ArchiveError)
    def unreadable(error: ArchiveError) -> Response:
        # Where archives are is for whoever runs this to know.
        data = {"request_id": request.environ[REQUEST_ID], "error": str(error)}
        _log.warning("an archive cannot be read", extra={"data": data})
        text = CHANGED if isinstance(error, ArchiveFileChanged) else UNREADABLE
        return _error_response(ApiError(503, text, error.code, retry=error.retry))

    @blueprint.errorhandler(RequestedRangeNotSatisfiable)
    def beyond(error: RequestedRangeNotSatisfiable) -> Response:
        response = _error_response(ApiError(416, "the file has no such bytes", "range_not_satisfiable"))
        response.headers["Content-Range"] = f"bytes */{error.length}"
        return response

    @blueprint.errorhandler(HTTPException)
    def odd(error: HTTPException) -> Response:
        return error_response(ApiError.of_http(error))


def _error_response(error: ApiError) -> Response:
    """Return the response; people read its message too."""
    return error_response(error, for_people=error.text)
