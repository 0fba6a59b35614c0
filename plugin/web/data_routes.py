"""Frozen rounds over HTTP, at stable addresses: pandas, browsers and `import outfox` read the same bytes.

/data/TASK                       the frozen rounds and their files
/data/TASK/rounds/N/FILE         a file of a frozen round, whole or a byte range, with its hash as the ETag
"""

import hashlib
import json
import logging

from flask import Blueprint, Response, request
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException, RequestedRangeNotSatisfiable
from werkzeug.http import parse_range_header

from common.clock import Clock
from plugin.settings import Settings
from plugin.web.data_files import DataBusy, DataFile, DataFileNotFound, DataFiles
from plugin.web.middleware import REQUEST_ID, ApiError, bearer_token, error_response
from round_manager.archive.csv_cache import CsvCache
from round_manager.database.store import LazyStore
from round_manager.errors import ArchiveError, ArchiveFileChanged, DataRefused

UNREADABLE = "this file cannot be read at the moment; contact the task's owner"
CHANGED = "this file is not what was frozen, so it is not sent; contact the task's owner"
_log = logging.getLogger(__name__)


def data_pages(settings: Settings, lazy_store: LazyStore, clock: Clock) -> Blueprint:
    """Return the routes below `/data`."""
    return data_blueprint(DataFiles(lazy_store, CsvCache(settings.cache_path / "csv"), clock))


def data_blueprint(files: DataFiles) -> Blueprint:
    """Return the routes below `/data` for these files."""
    blueprint = Blueprint("data", __name__)

    def listing(task: str) -> Response:
        found = files.read_task(task, data_token())
        release = files.take_slot()
        try:
            body = json.dumps(files.listing(found), indent=1, ensure_ascii=False).encode()
        finally:
            release()
        response = Response(body, mimetype="application/json")
        response.set_etag(hashlib.sha256(body).hexdigest())
        response.make_conditional(request)
        return response

    def file(task: str, number: int, name: str) -> Response:
        found = files.read_task(task, data_token())
        release = files.take_slot()
        try:
            # Sending it takes no thread while the client is slow, so the slot is not kept for that.
            response = _file_response(files.file(found, number, name))
        finally:
            release()
        response.headers["Content-Disposition"] = f'attachment; filename="{task}-round-{number}-{name}"'
        return response

    blueprint.add_url_rule("/data/<task>", "listing", listing)
    blueprint.add_url_rule("/data/<task>/rounds/<int:number>/<name>", "file", file)
    _errors(blueprint)

    @blueprint.after_request
    def guarded(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"  # The URL may contain a token.
        # Clients revalidate every time, so that revoking a token works at once; the ETag makes that cheap.
        response.headers.setdefault("Cache-Control", "private, no-cache")
        return response

    return blueprint


def data_token() -> str:
    """Return the token of the request's header or address; empty if it has none."""
    return bearer_token(request.headers.get("Authorization", "")) or request.args.get("token", "")


def _file_response(file: DataFile) -> Response:
    """Return the file, a byte range of it, or 304; never compressed, because that would break ranges."""
    etag, size = f'"{file.entry.sha256}"', file.entry.size
    headers = {"ETag": etag, "Accept-Ranges": "bytes"}
    if file.public:
        headers["Cache-Control"] = "public, no-cache"
    if request.if_none_match.contains_weak(file.entry.sha256):
        return Response(status=304, headers=headers)
    # Only GET supports ranges.
    span = requested_span(request.headers, size, etag) if request.method == "GET" else None
    sent = span or range(size)
    headers["Content-Length"] = str(len(sent))
    if span:
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
    body = file.pieces(sent.start, sent.stop) if request.method == "GET" else ()
    return Response(body, 206 if span else 200, headers, content_type=file.content_type)


def _errors(blueprint: Blueprint) -> None:
    blueprint.register_error_handler(DataRefused, refused_response)

    @blueprint.errorhandler(DataFileNotFound)
    def missing(error: DataFileNotFound) -> Response:
        return _error_response(ApiError.of(404, error))

    @blueprint.errorhandler(DataBusy)
    def busy(error: DataBusy) -> Response:
        return _error_response(ApiError.of(503, error, retry=True))

    @blueprint.errorhandler(ArchiveError)
    def unreadable(error: ArchiveError) -> Response:
        # The address of the archive is for the operator only.
        data = {"request_id": request.environ[REQUEST_ID], "error": str(error)}
        _log.warning("an archive cannot be read", extra={"data": data})
        text = CHANGED if isinstance(error, ArchiveFileChanged) else UNREADABLE
        return _error_response(ApiError(503, text, error.code, retry=error.retry))

    @blueprint.errorhandler(RequestedRangeNotSatisfiable)
    def beyond(error: RequestedRangeNotSatisfiable) -> Response:
        response = _error_response(ApiError(416, "the file does not have these bytes", "range_not_satisfiable"))
        response.headers["Content-Range"] = f"bytes */{error.length}"
        return response

    @blueprint.errorhandler(HTTPException)
    def odd(error: HTTPException) -> Response:
        return error_response(ApiError.of_http(error))


def refused_response(error: DataRefused) -> Response:
    """Return the response to a client without a valid token."""
    response = _error_response(ApiError.of(401, error))
    response.headers["WWW-Authenticate"] = 'Bearer realm="outfox data"'
    return response


def _error_response(error: ApiError) -> Response:
    """Return the response; people read its message too."""
    return error_response(error, for_people=error.text)


def requested_span(headers: Headers, size: int, etag: str) -> range | None:
    """Return the requested byte range (RFC 9110, section 14); None if the whole file is to be sent.

    The whole file is sent for several ranges, for an invalid range, and for If-Range with another ETag.
    """
    asked = parse_range_header(headers.get("Range"))
    if asked is None or asked.units != "bytes" or len(asked.ranges) != 1:
        return None
    if headers.get("If-Range", etag) != etag:
        return None
    start, stop = asked.ranges[0]
    span = range(max(0, start + size) if start < 0 else start, size if stop is None else min(stop, size))
    if not span:
        raise RequestedRangeNotSatisfiable(size)
    return span
