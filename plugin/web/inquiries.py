"""The inquiries of our marketplace over HTTP: POST /crowd/inquiries, signed with the requester's access key."""

from functools import partial
from typing import Any

from flask import Blueprint, Response, request

from common.clock import Clock
from common.errors import CodedError
from crowd.inquiries import MOST_BYTES, PATH, SIGNATURE, Inquiry, InquiryUnreadable, verify_inquiry
from crowd.proof import ProofExpired, ProofInvalid
from plugin.web import middleware
from round_manager.database.store import LazyStore
from round_manager.services.context import ServiceContext
from round_manager.services.inquiries import answer_inquiry


def inquiry_routes(store: LazyStore, clock: Clock, marketplace: str, secret: str) -> Blueprint:
    """Return the route; without a secret, which both sides share, every inquiry is refused."""
    blueprint = Blueprint("inquiries", __name__)

    def inquire() -> Any:
        request.max_content_length = MOST_BYTES
        body = request.get_data(cache=False)
        if not secret:
            raise ProofInvalid("this web app has no access key of the marketplace")
        verify_inquiry(request.headers.get(SIGNATURE, ""), body, secret, now=clock.now())
        asked = Inquiry.from_json(body)
        return answer_inquiry(ServiceContext(store.open(), clock), marketplace, asked).as_data()

    blueprint.add_url_rule(PATH, "inquire", inquire, methods=["POST"])
    for kind, status in ((InquiryUnreadable, 400), (ProofInvalid, 403), (ProofExpired, 403)):
        blueprint.register_error_handler(kind, partial(_refused, status))
    return blueprint


def _refused(status: int, error: CodedError) -> Response:
    return middleware.error_response(middleware.ApiError.of(status, error))
