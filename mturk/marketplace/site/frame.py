"""A requester's page in the marketplace's frame, and the answers that it posts to externalSubmit.

The submit URL contains the secret of one acceptance, so that a late form of an earlier holder is never taken as the
work of the current one. The ids in the form are only compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from flask import Response, abort, g, make_response, render_template, request

from common.origins import origin_of
from crowd.proof import sign_acceptance
from mturk.marketplace.market import Market
from mturk.marketplace.services.work import Acceptance, Submission, find_submission, submit_task
from mturk.marketplace.site import texts
from mturk.marketplace.site.texts import StatusPage, StatusPageError
from mturk.profile import HELD_PARAMETER, MTURK, PROOF_PARAMETER

NOT_ACCEPTED = MTURK.page.preview_assignment
ACCEPTED_PATH = "/s/"
# Everything a labelling page needs, except control of the page around it. It keeps its own origin for its cookies and
# requests. That origin is never ours: HITs whose page is on the marketplace's own host are refused.
SANDBOX = (
    "allow-scripts allow-forms allow-same-origin allow-modals allow-downloads "
    "allow-popups allow-popups-to-escape-sandbox"
)
MAX_ANSWER_BYTES = 500_000
# Parameters of the frame that many pages send back; they are not answers.
FRAME_PARAMETERS = ("assignmentId", "hitId", "workerId", "turkSubmitTo", HELD_PARAMETER, PROOF_PARAMETER)
# Like MTurk, for several fields of one name.
VALUE_SEPARATOR = "|"


@dataclass(frozen=True)
class Frame:
    """The attributes of an iframe; with `height` 0 it is as high as the window allows."""

    address: str
    title: str
    height: int = 0
    sandbox: str = SANDBOX

    @property
    def origin(self) -> str:
        """The origin of the page, for a Content-Security-Policy."""
        return origin_of(self.address)


def preview_address(page_url: str, hit_id: str) -> str:
    """Return the URL of the page for a worker who has not accepted the HIT."""
    return _with_parameters(page_url, {"assignmentId": NOT_ACCEPTED, "hitId": hit_id})


def work_address(
    page_url: str, hit_id: str, assignment_id: str, worker_id: str, submit_url: str, *, held: Sequence[str] = ()
) -> str:
    """Return the URL of the page for the worker who holds the assignment, and other HITs of the same requester."""
    parameters = {"assignmentId": assignment_id, "hitId": hit_id, "workerId": worker_id, "turkSubmitTo": submit_url}
    return _with_parameters(page_url, {**parameters, HELD_PARAMETER: ",".join(held)})


def proven_address(address: str, acceptance: Acceptance, now: datetime) -> str:
    """Return the URL with the proof that the worker named in it holds the assignment."""
    # Pages read the first of several values.
    parameters = dict(reversed(parse_qsl(urlsplit(address).query, keep_blank_values=True)))
    proof = sign_acceptance(parameters, acceptance.secrets, issued_at=now, expires_at=acceptance.deadline)
    return _with_parameters(address, {PROOF_PARAMETER: proof})


def submit_to(public_url: str, secret: str) -> str:
    """Return the value of turkSubmitTo; what is posted below it is the work of this acceptance."""
    return f"{public_url}{ACCEPTED_PATH}{secret}"


def receive_submission(market: Market, secret: str = "") -> Response:
    """Store the posted answers and return the page to show in the frame; the page around it then continues."""
    g.framed = True
    if request.method == "HEAD":
        # Flask routes HEAD like GET, but a HEAD request must not submit anything.
        abort(405)
    fields = {**request.args.to_dict(flat=False), **request.form.to_dict(flat=False)}
    assignment_id = _first(fields, "assignmentId")
    g.assignment_id = assignment_id
    if not assignment_id:
        raise StatusPageError(texts.NO_ASSIGNMENT)
    if assignment_id == NOT_ACCEPTED:
        raise StatusPageError(texts.PREVIEW)
    if not secret:
        raise StatusPageError(texts.NO_PASS)
    if any(file.filename or file.stream.read(1) for file in request.files.values()):
        raise StatusPageError(texts.FILES)
    answers = {name: VALUE_SEPARATOR.join(values) for name, values in fields.items() if name not in FRAME_PARAMETERS}
    if sum(len(name.encode()) + len(value.encode()) for name, value in answers.items()) > MAX_ANSWER_BYTES:
        raise StatusPageError(texts.TOO_LARGE)
    worker_id = _first(fields, "workerId") or None
    submit_task(market, secret, assignment_id, answers, worker_id)
    return outcome_page(texts.THANKS, find_submission(market, assignment_id))


def outcome_page(page: StatusPage, submission: Submission | None = None) -> Response:
    """Return the response that is shown in the requester's frame."""
    shown = {"refused": page is not texts.THANKS, "assignment_id": g.get("assignment_id", "")}
    body = render_template("outcome.html", page=page, submission=submission, **shown)
    return make_response(body, page.status)


def _with_parameters(url: str, parameters: dict[str, str]) -> str:
    # Appended as text: parsing and rebuilding the query could change what the requester wrote in it.
    parts = urlsplit(url)
    query = "&".join(part for part in (parts.query, urlencode(parameters)) if part)
    return urlunsplit(parts._replace(query=query, path=parts.path or "/"))


def _first(fields: Mapping[str, Sequence[str]], name: str) -> str:
    return next(iter(fields.get(name, ())), "").strip()
