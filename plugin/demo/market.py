"""What the owner of the demo's own marketplace does: an account with money for the requester, and links for workers."""

from mturk.marketplace import people, site_owner
from mturk.marketplace.market import Market
from plugin.demo.place import DemoPlace
from plugin.marketplace_place import find_place

ACCOUNT = "Outfox demo"
VISITOR = "Demo visitor"


class DemoMarket:
    """The marketplace behind a demo; nothing in it is real money."""

    def __init__(self, place: DemoPlace) -> None:
        self._place = find_place(place.settings, None, place.settings.crowd_url)
        self._url = place.settings.crowd_url

    def open_account(self, place: DemoPlace, cents: int) -> DemoPlace:
        """The place with an access key for the requester's account, which is made and filled where it is not there."""
        with self._place.open() as market, market.write() as session:
            requester = people.find_requester(session, ACCOUNT)
            if requester is None:
                requester = people.add_requester(session, ACCOUNT, market.now())
                people.deposit(session, requester, cents, market.now())
            known = {one.id: one.secret for one in people.keys(session, requester)}
            if known.get(place.settings.crowd_key_id) == place.settings.crowd_key_secret:
                return place
            key = people.add_key(session, requester, market.now())
        return place.with_key(key.id, key.secret)

    def invite(self, name: str) -> str:
        """A link that signs in the worker of this name, who is made where nobody has it."""
        with self._place.open() as market:
            return self._invite(market, name)

    def _invite(self, market: Market, name: str) -> str:
        with market.write() as session:
            known = [one.worker_id for one in site_owner.workers(session) if one.name == name]
            if known:
                return site_owner.invite_again(session, known[0], self._url, market.now()).link
            (made,) = site_owner.invite_all(session, [name], self._url, market.now(), country="", adult=False)
            return made.link
