"""The marketplace as one WSGI application: the requester API, the worker site and the health check."""

from collections.abc import Callable, Iterable
from datetime import datetime
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.middleware.proxy_fix import ProxyFix

from mturk.marketplace.api.app import RequesterApi
from mturk.marketplace.destinations import QueueNetworks
from mturk.marketplace.market import Market
from mturk.marketplace.site.app import worker_site
from mturk.marketplace.urls import public_address


def marketplace_app(
    market: Market,
    *,
    public_url: str,
    proxies: int = 0,
    queues: QueueNetworks | None = None,
    signing_time: Callable[[], datetime] | None = None,
) -> WSGIApplication:
    """Return the application; `proxies` is the number of trusted reverse proxies in front of it.

    `queues` says where events may be sent; without it, to public addresses only.
    """
    address = public_address(public_url)
    api = RequesterApi(market, address, queues=queues, signing_time=signing_time)
    site = worker_site(market, address)
    if proxies:
        # Without this, every visitor would have the proxy's address.
        site.wsgi_app = ProxyFix(site.wsgi_app, x_for=proxies)  # type: ignore[method-assign]
    site.add_url_rule("/health", "health", lambda: market.health.health().as_response())

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return api(environ, start_response) if api.handles(environ) else site(environ, start_response)

    return app
