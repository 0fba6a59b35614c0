"""The self-hosted marketplace: which database it uses, and the processes that serve it and deliver its events."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from common.clock import Clock
from common.health import KEEP_SECONDS
from ml_backend.serving.processes import Address, Workers, serve_processes
from mturk.marketplace.app import marketplace_app
from mturk.marketplace.destinations import QueueNetworks
from mturk.marketplace.event_delivery import POLL_SECONDS, EventForwarder, SqsSender
from mturk.marketplace.market import Market, open_market
from mturk.marketplace.services.workers import remember_address
from mturk.marketplace.urls import parse_host, public_address
from plugin.settings import Settings

DATABASE_FILE = "marketplace.db"
LOOPBACK_WARNING = (
    "for development only: at a loopback address, the pages of HITs on this machine receive workers' cookies; "
    "in production, pass --public-url with a host name that no HIT's page uses"
)
ALL_INTERFACES = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


@dataclass(frozen=True)
class MarketplaceConfig:
    """The database of a marketplace, and its public URL if one was given."""

    settings: Settings
    clock: Clock
    database: str
    public_url: str
    queues: QueueNetworks

    def open(self) -> Market:
        """Open the market; create its database if it does not exist."""
        if self.database == _default_database(self.settings):
            self.settings.make_home()
        return open_market(self.database, self.clock, self.settings.job_limits)

    @property
    def safe_database(self) -> str:
        """The database URL without its password."""
        return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", self.database)


def marketplace_config(
    settings: Settings, clock: Clock, database: str | None = None, public_url: str | None = None
) -> MarketplaceConfig:
    """Return the configuration from options, or else from the settings; a database without :// is a file."""
    url = database or settings.marketplace_database or _default_database(settings)
    if "://" not in url:
        url = f"sqlite:///{Path(url).expanduser().resolve()}"
    queues = QueueNetworks(settings.marketplace_queue_networks)
    return MarketplaceConfig(settings, clock, url, public_address(public_url) if public_url else "", queues)


class MarketplaceProcess:
    """A process that serves the marketplace, with its own database connections."""

    def __init__(self, config: MarketplaceConfig, public_url: str, proxies: int) -> None:
        limits = config.settings.request_limits
        self._market = open_market(config.database, config.clock, limits, keep_health=KEEP_SECONDS)
        self.app = marketplace_app(self._market, public_url=public_url, proxies=proxies, queues=config.queues)

    def close(self, _timeout: float) -> None:
        self._market.close()


def serve_marketplace(config: MarketplaceConfig, address: Address, workers: Workers, proxies: int) -> None:
    """Serve until Ctrl-C; store the public URL for links that are created later."""
    listening = address.listen()
    host = "127.0.0.1" if address.host in ALL_INTERFACES else address.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    public_url = config.public_url or url
    # Opened here first, so that a database error ends the command instead of failing every request.
    with config.open() as market:
        remember_address(market, public_url)
    click.echo(f"serving at {url} (press Ctrl-C to stop)")
    if public_url != url:
        click.echo(f"workers and requesters reach it at {public_url}")
    elif address.host in ALL_INTERFACES:
        click.echo("links lead to this machine only; pass --public-url for other machines", err=True)
    if parse_host(public_url).is_loopback:
        click.echo(LOOPBACK_WARNING, err=True)

    def start(_shared: Path) -> MarketplaceProcess:
        return MarketplaceProcess(config, public_url, proxies)

    serve_processes(start, listening, workers, _event_forwarder(config))


def _event_forwarder(config: MarketplaceConfig) -> Callable[[Callable[[float], bool]], None]:
    """Return the function that delivers events in a separate process, until it is asked to stop."""

    def run(should_stop: Callable[[float], bool]) -> None:
        with config.open() as market, EventForwarder(market, SqsSender(config.queues)):
            while not should_stop(POLL_SECONDS):
                pass

    return run


def _default_database(settings: Settings) -> str:
    return f"sqlite:///{settings.home_path / DATABASE_FILE}"
