"""MTurk's externalSubmit: a requester's page hands in a worker's answers, from inside its frame and with no cookie.

The address that it is posted to holds the acceptance's pass, so that a late form of an earlier holder never becomes the
work of the present one; ids in the form are only compared.
"""

from collections.abc import Mapping, Sequence

from flask import Response, abort, g, make_response, render_template, request
from sqlalchemy.orm import Session

from mturk.marketplace import passes, site_told, working
from mturk.marketplace.errors import NotTheHolder, TimeIsOver
from mturk.marketplace.market import Market
from mturk.marketplace.site_frame import NOT_ACCEPTED
from mturk.marketplace.site_told import Stopped, Told

MOST_BYTES = 500_000
# What the frame was told and many pages send back; these are no answers.
ENVELOPE = ("assignmentId", "hitId", "workerId", "turkSubmitTo")
# As MTurk does with several boxes of one name.
BETWEEN_VALUES = "|"


def hand_in(market: Market, secret: str = "") -> Response:
    """Takes the answers in, once, and says thank you inside the frame; the page around it then moves on."""
    g.framed = True
    if request.method == "HEAD":
        # Flask takes it for a GET; but whoever sends it only wants to look.
        abort(405)
    fields = {**request.args.to_dict(flat=False), **request.form.to_dict(flat=False)}
    assignment_id = _one(fields, "assignmentId")
    g.assignment_id = assignment_id
    if not assignment_id:
        raise Stopped(site_told.NO_ASSIGNMENT)
    if assignment_id == NOT_ACCEPTED:
        raise Stopped(site_told.PREVIEW)
    if not secret:
        raise Stopped(site_told.NO_PASS)
    if any(file.filename or file.stream.read(1) for file in request.files.values()):
        raise Stopped(site_told.FILES)
    answers = {name: BETWEEN_VALUES.join(values) for name, values in fields.items() if name not in ENVELOPE}
    if sum(len(name.encode()) + len(value.encode()) for name, value in answers.items()) > MOST_BYTES:
        raise Stopped(site_told.TOO_LARGE)
    with market.write() as session:
        _check_pass(session, secret, assignment_id)
        working.submit(session, assignment_id, answers, market.now(), worker_id=_one(fields, "workerId") or None)
    return outcome(site_told.THANKS)


def outcome(told: Told) -> Response:
    """What is shown in the requester's frame."""
    refused = told is not site_told.THANKS
    page = render_template("outcome.html", told=told, refused=refused, assignment_id=g.get("assignment_id", ""))
    return make_response(page, told.status)


def _check_pass(session: Session, secret: str, assignment_id: str) -> None:
    opened = passes.opens(session, secret)
    if opened is None:
        raise TimeIsOver("InvalidAssignmentState", "the acceptance that this belongs to is over")
    if opened != assignment_id:
        raise NotTheHolder("PermissionDenied", "this was accepted as another assignment")


def _one(fields: Mapping[str, Sequence[str]], name: str) -> str:
    return next(iter(fields.get(name, ())), "").strip()
