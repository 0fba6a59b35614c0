"""The front page, at the web app's bare address. Strangers see it too, so it shows nothing of any task."""

from typing import Any

from flask import Blueprint, Response, jsonify, render_template

from plugin.labelstudio.editor import PAGES, own_address
from plugin.lazy_store import LazyStore
from plugin.web.error_responses import wants_html
from round_manager.errors import RoundManagerError

WHAT = "the web app of Outfox: workers' pages, Label Studio's hints, and the data of closed rounds"
PLACES = {"health": "/health", "metrics": "/metrics", "data": "/data/TASK"}
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def front_page(lazy_store: LazyStore) -> Blueprint:
    """Return the route `/`: a page for browsers, JSON for programs."""
    blueprint = Blueprint("front", __name__, template_folder=str(PAGES))

    def front() -> Any:
        if not wants_html():
            return jsonify({"what": WHAT, **PLACES})
        return render_template("front.html", file=own_address, is_up=_is_up(lazy_store))

    blueprint.add_url_rule("/", "front", front)

    @blueprint.after_request
    def guarded(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        response.headers["Vary"] = "Accept"
        return response

    return blueprint


def _is_up(lazy_store: LazyStore) -> bool:
    try:
        lazy_store.open().check().require_current()
    except RoundManagerError:
        return False
    return True
