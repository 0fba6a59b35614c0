"""The demo's own marketplace: an account with money for the requester, and sign-in links for workers."""

from common.clock import Clock
from mturk.marketplace.services import accounts, workers
from plugin.demo.place import DemoPlace
from plugin.marketplace import marketplace_config

ACCOUNT = "Outfox demo"
VISITOR = "Demo visitor"


class DemoMarket:
    """The marketplace behind a demo; no real money is involved."""

    def __init__(self, place: DemoPlace, clock: Clock) -> None:
        self._url = place.settings.crowd_url
        self._config = marketplace_config(place.settings, clock, public_url=self._url)

    def open_account(self, place: DemoPlace, cents: int) -> DemoPlace:
        """Return the place with an access key of the requester's account; create the account if needed."""
        key_id, secret = place.settings.crowd_key_id, place.settings.crowd_key_secret
        with self._config.open() as market:
            if accounts.is_valid_key(market, ACCOUNT, key_id, secret):
                return place
            opened = accounts.open_account(market, ACCOUNT, deposit_cents=cents)
        return place.with_key(opened.key.id, opened.key.secret)

    def invite(self, name: str) -> str:
        """Return a sign-in link for the worker of this name; create the worker if needed."""
        with self._config.open() as market:
            known = [one.worker_id for one in workers.list_workers(market) if one.name == name]
            if known:
                return workers.invite_again(market, known[0], self._url).link
            return workers.invite_workers(market, [name], self._url)[0].link
