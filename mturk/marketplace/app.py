"""The whole marketplace as one web application: the requester API, the worker's site, and its health."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.middleware.proxy_fix import ProxyFix

from mturk.marketplace.api import RequesterApi
from mturk.marketplace.errors import MarketDatabaseError, bad_parameter
from mturk.marketplace.market import Market
from mturk.marketplace.site import worker_site
from mturk.marketplace.site_tables import make_site_tables
from mturk.marketplace.slow_senders import SlowSenders
from mturk.marketplace.tables import Release


def marketplace_app(
    market: Market, *, public_url: str, proxies: int = 0, signing_time: Callable[[], datetime] | None = None
) -> WSGIApplication:
    """Answers requesters' programs and workers' browsers at one address; `proxies` of the owner's stand before it."""
    make_site_tables(market)
    address = public_address(public_url)
    api = RequesterApi(market, address, signing_time=signing_time)
    site = worker_site(market, address)
    if proxies:
        # Or every visitor would seem to come from the proxy.
        site.wsgi_app = ProxyFix(site.wsgi_app, x_for=proxies)  # type: ignore[method-assign]
    site.add_url_rule("/health", "health", lambda: _health(market))

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return api(environ, start_response) if api.wants(environ) else site(environ, start_response)

    return SlowSenders().watch(app)


def public_address(url: str) -> str:
    """The address under which browsers reach the marketplace, without a slash at its end."""
    try:
        parts = urlsplit(url.strip())
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
        _ = parts.port
    except ValueError:
        fits = False
    if not fits or parts.path.strip("/") or parts.query or parts.fragment:
        raise bad_parameter(f"{url!r} is no public address; write https://host or http://host:port, with no path")
    return f"{parts.scheme}://{parts.netloc}"


def _health(market: Market) -> Any:
    try:
        with market.glance() as session:
            version = session.scalar(select(Release.version))
    except (SQLAlchemyError, MarketDatabaseError):
        return {"status": "DOWN", "error": "the database does not answer"}, 503
    return {"status": "UP", "version": version}
