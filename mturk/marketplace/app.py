"""The marketplace as one WSGI application: the requester API, the worker site and the health check."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.middleware.proxy_fix import ProxyFix

from mturk.marketplace.api.app import RequesterApi
from mturk.marketplace.body_timeouts import BodyTimeouts
from mturk.marketplace.errors import MarketDatabaseError
from mturk.marketplace.market import Market
from mturk.marketplace.site.app import worker_site
from mturk.marketplace.tables.people import Release
from mturk.marketplace.urls import public_address


def marketplace_app(
    market: Market, *, public_url: str, proxies: int = 0, signing_time: Callable[[], datetime] | None = None
) -> WSGIApplication:
    """Return the application; `proxies` is the number of trusted reverse proxies in front of it."""
    address = public_address(public_url)
    api = RequesterApi(market, address, signing_time=signing_time)
    site = worker_site(market, address)
    if proxies:
        # Without this, every visitor would have the proxy's address.
        site.wsgi_app = ProxyFix(site.wsgi_app, x_for=proxies)  # type: ignore[method-assign]
    site.add_url_rule("/health", "health", lambda: _health(market))

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return api(environ, start_response) if api.handles(environ) else site(environ, start_response)

    return BodyTimeouts().wrap(app)


def _health(market: Market) -> Any:
    try:
        with market.glance() as session:
            version = session.scalar(select(Release.version))
    except (SQLAlchemyError, MarketDatabaseError):
        return {"status": "DOWN", "error": "the database does not answer"}, 503
    return {"status": "UP", "version": version}
