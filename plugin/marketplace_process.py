"""The processes of `outfox marketplace`: those that serve, and the one that delivers events to queues."""

from collections.abc import Callable
from pathlib import Path

import click

from ml_backend.serving.processes import Address, Workers, serve_processes
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.courier import LOOK_SECONDS, Courier
from mturk.marketplace.hosts import place_of
from mturk.marketplace.market import open_market
from mturk.marketplace.site_owner import remember_address
from plugin.marketplace_place import MarketplacePlace

LOOPBACK = (
    "for development: at a loopback address, the pages of HITs on this machine get workers' cookies; "
    "in production, give --public-url with a host name that no HIT's page has"
)
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


class MarketplaceProcess:
    """A process that serves the marketplace, with connections of its own."""

    def __init__(self, database: str, public_url: str, proxies: int) -> None:
        self._market = open_market(database)
        self.app = marketplace_app(self._market, public_url=public_url, proxies=proxies)

    def close(self, _timeout: float) -> None:
        self._market.close()


def serve_marketplace(place: MarketplacePlace, address: Address, workers: Workers, proxies: int) -> None:
    """Serves until Ctrl-C; says where, and has links lead there from now on."""
    listening = address.listen()
    host = "127.0.0.1" if address.host in EVERYWHERE else address.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    public_url = place.public_url or url
    # A database that cannot be used is told here, and not to every visitor.
    with place.open() as market:
        remember_address(market, public_url)
    click.echo(f"serving at {url} (Ctrl-C ends it)")
    if public_url != url:
        click.echo(f"workers and requesters reach it at {public_url}")
    elif address.host in EVERYWHERE:
        click.echo("links lead to this machine only; give --public-url for others", err=True)
    if place_of(public_url).is_loopback:
        click.echo(LOOPBACK, err=True)

    def begin(_shared: Path) -> MarketplaceProcess:
        return MarketplaceProcess(place.database, public_url, proxies)

    serve_processes(begin, listening, workers, _courier(place.database))


def _courier(database: str) -> Callable[[Callable[[float], bool]], None]:
    """What delivers events until it is told to end, in a process of its own."""

    def run(is_time_to_end: Callable[[float], bool]) -> None:
        with open_market(database) as market, Courier(market):
            while not is_time_to_end(LOOK_SECONDS):
                pass

    return run
