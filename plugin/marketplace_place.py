"""Which marketplace an owner's command is about."""

import re
from dataclasses import dataclass
from pathlib import Path

from mturk.marketplace.app import public_address
from mturk.marketplace.market import Market, open_market
from mturk.marketplace.site_tables import make_site_tables
from plugin.settings import Settings

FILE = "marketplace.db"


@dataclass(frozen=True)
class MarketplacePlace:
    """A marketplace's database, and where browsers reach it if that was told."""

    settings: Settings
    database: str
    public_url: str

    def open(self) -> Market:
        """Its market, made where there is none."""
        if self.database == _at_home(self.settings):
            self.settings.make_home()
        market = open_market(self.database)
        make_site_tables(market)
        return market

    @property
    def shown(self) -> str:
        """The database's URL without its password."""
        return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", self.database)


def find_place(settings: Settings, database: str | None, public_url: str | None) -> MarketplacePlace:
    """The marketplace that the options or else the settings name; a database without :// is a file."""
    url = database or settings.marketplace_database or _at_home(settings)
    if "://" not in url:
        url = f"sqlite:///{Path(url).expanduser().resolve()}"
    return MarketplacePlace(settings, url, public_address(public_url) if public_url else "")


def _at_home(settings: Settings) -> str:
    return f"sqlite:///{settings.home_path / FILE}"
