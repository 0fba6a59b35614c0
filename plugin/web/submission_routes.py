"""Submission of models over HTTP, with a data token: the body is the file, everything else is in the address.

POST   /data/TASK/submissions       submit a model or its predictions
GET    /data/TASK/submissions       the submissions of the token
GET    /data/TASK/submissions/ID    one of them, with its figures
DELETE /data/TASK/submissions/ID    cancel it, or remove it if it has ended
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flask import Blueprint, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from common.clock import Clock
from common.errors import CodedError
from ml_backend.errors import ModelError
from plugin.web.data_files import DataBusy
from plugin.web.data_routes import data_token, refused_response
from plugin.web.middleware import ApiError, error_response
from round_manager.database.store import LazyStore
from round_manager.errors import (
    DataRefused,
    EndpointNotAllowed,
    ModelSubmissionError,
    SubmissionDuplicate,
    SubmissionInvalid,
    SubmissionNameTaken,
    SubmissionNotFound,
    SubmissionQuotaExceeded,
    SubmissionsClosed,
    SubmissionStateError,
    SubmissionTooLarge,
)
from round_manager.evaluation.submitted_files import MODEL_HINT, SubmittedFiles
from round_manager.models import SubmissionState
from round_manager.services import submissions
from round_manager.services.context import ServiceContext
from round_manager.services.data_access import ListedToken, find_token

FORMS = {
    "application/zip": "zip",
    "application/x-zip-compressed": "zip",
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}
ENDPOINTS = ("url", "endpoint")
VISIBILITIES = ("anonymous", "named")
STATUSES: Mapping[type[CodedError], int] = {
    EndpointNotAllowed: 403,
    SubmissionsClosed: 403,
    SubmissionNotFound: 404,
    SubmissionDuplicate: 409,
    SubmissionNameTaken: 409,
    SubmissionStateError: 409,
    SubmissionTooLarge: 413,
    SubmissionQuotaExceeded: 429,
}
# Receiving and checking large files takes long.
MOST_AT_ONCE = 2
MOST_BYTES = 1 << 50


class Receiving:
    """The submissions that are being received in this process: one of each token, and a few in all."""

    def __init__(self) -> None:
        self._tokens: set[int] = set()
        self._lock = threading.Lock()

    @contextmanager
    def slot(self, token: int) -> Iterator[None]:
        """Take a slot for a token's submission, by the token's id; raise DataBusy if there is none."""
        with self._lock:
            if token in self._tokens:
                raise DataBusy("another submission with your token is being received; wait until it has arrived")
            if len(self._tokens) >= MOST_AT_ONCE:
                raise DataBusy("too many models are being received at the same time; try again in a moment")
            self._tokens.add(token)
        try:
            yield
        finally:
            with self._lock:
                self._tokens.remove(token)


def submission_routes(lazy_store: LazyStore, clock: Clock, files: SubmittedFiles, place: str) -> Blueprint:
    """Return the routes; `place` is where the archives and evaluations are."""
    blueprint, receiving = Blueprint("submissions", __name__), Receiving()

    def context() -> ServiceContext:
        return ServiceContext(lazy_store.open(), clock)

    def token(task: str) -> ListedToken:
        return find_token(context(), task, data_token())

    def submit(task: str) -> Response:
        found = token(task)
        order = _order()
        with receiving.slot(found.row.id):
            # Not that of other requests: the owner's limit is checked while the body arrives.
            request.max_content_length = MOST_BYTES
            made = submissions.submit(context(), files, found, order, _read, request.content_length)
        response = jsonify(made.as_data())
        response.status_code = 201 if made.is_new else 200
        response.headers["Location"] = f"/data/{task}/submissions/{made.row.key}"
        return response

    def listing(task: str) -> Response:
        found = submissions.list_submissions(context(), task, token(task))
        return jsonify({"task": task, "submissions": [one.as_data() for one in found]})

    def one(task: str, key: str) -> Response:
        return jsonify(submissions.show_submission(context(), task, key, token(task)).as_data())

    def remove(task: str, key: str) -> Response:
        mine = token(task)
        actor, found = submissions.researcher(mine), submissions.show_submission(context(), task, key, mine)
        if found.row.state in (SubmissionState.QUEUED, SubmissionState.RUNNING):
            done = submissions.cancel_submission(context(), actor, task, key, mine)
            return jsonify(done.as_data())
        submissions.remove_submission(context(), actor, files, place, task, key, mine)
        return Response(status=204)

    blueprint.add_url_rule("/data/<task>/submissions", "submit", submit, methods=["POST"])
    blueprint.add_url_rule("/data/<task>/submissions", "listing", listing)
    blueprint.add_url_rule("/data/<task>/submissions/<key>", "one", one)
    blueprint.add_url_rule("/data/<task>/submissions/<key>", "remove", remove, methods=["DELETE"])
    _errors(blueprint)

    @blueprint.after_request
    def guarded(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "private, no-store"
        return response

    return blueprint


def _order() -> submissions.SubmissionOrder:
    """Return what the address and the content type say; raise SubmissionInvalid or EndpointNotAllowed."""
    if request.mimetype == "application/json" or any(name in request.args for name in ENDPOINTS):
        raise submissions.refuse_endpoint()
    form = FORMS.get(request.mimetype)
    if form is None:
        text = "send a zip of the model's folder, or predictions as CSV or Parquet, with its content type"
        raise SubmissionInvalid(f"{text} ({', '.join(FORMS)})", hint=MODEL_HINT)
    visibility = request.args.get("visibility", VISIBILITIES[0])
    if visibility not in VISIBILITIES:
        raise SubmissionInvalid(f"visibility must be one of {', '.join(VISIBILITIES)}", hint=MODEL_HINT)
    pairs = [part.partition("=") for part in request.args.get("labels", "").split(",") if part.strip()]
    labels = {theirs.strip(): ours.strip() for theirs, _, ours in pairs}
    data = tuple(part.strip() for part in request.args.get("on", "").split(",") if part.strip())
    return submissions.SubmissionOrder(form, request.args.get("name", ""), visibility == "named", labels, data)


def _read(size: int) -> bytes:
    try:
        return request.stream.read(size)
    except OSError as error:
        raise SubmissionInvalid("the body did not arrive completely; send it again") from error


def _errors(blueprint: Blueprint) -> None:
    blueprint.register_error_handler(DataRefused, refused_response)

    @blueprint.errorhandler(ModelSubmissionError)
    def not_taken(error: ModelSubmissionError) -> Response:
        return _response(STATUSES.get(type(error), 400), error)

    @blueprint.errorhandler(ModelError)
    def unusable(error: ModelError) -> Response:
        return _response(422, error)

    @blueprint.errorhandler(DataBusy)
    def busy(error: DataBusy) -> Response:
        return _response(503, error)

    @blueprint.errorhandler(HTTPException)
    def odd(error: HTTPException) -> Response:
        return error_response(ApiError.of_http(error))


def _response(status: int, error: CodedError) -> Response:
    return error_response(ApiError.of(status, error), for_people=error.message)
