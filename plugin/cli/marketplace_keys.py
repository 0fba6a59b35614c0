"""`outfox marketplace key`: the access keys of a requester, listed and revoked."""

from typing import TYPE_CHECKING

import click

from plugin.cli.output import json_option, show, table
from plugin.errors import PluginError

if TYPE_CHECKING:
    from plugin.marketplace_place import MarketplacePlace


@click.command()
@click.argument("account")
@click.option("--revoke", metavar="ID", help="Have the key of this ID sign nothing any more.")
@json_option
@click.pass_obj
def key(place: "MarketplacePlace", account: str, revoke: str | None) -> None:
    """List the access keys of an account, or revoke one; `account` makes another."""
    from mturk.marketplace import people
    from mturk.marketplace.keyring import FRESH_SECONDS

    with place.open() as market, market.write() as session:
        requester = people.find_requester(session, account)
        if requester is None:
            raise PluginError(f"there is no account {account}; `outfox marketplace status` lists them")
        if revoke:
            people.revoke_key(session, requester, revoke)
        left = people.keys(session, requester)
    data = {
        "account": account,
        "revoked": revoke,
        "keys": [{"access_key_id": one.id, "created_at": one.created_at} for one in left],
    }
    if revoke:
        show(data, f"{revoke} is revoked: within {FRESH_SECONDS:.0f} seconds it signs nothing any more")
    else:
        show(data, table(("access key", "made"), [[one.id, f"{one.created_at:%Y-%m-%d %H:%M}"] for one in left]))
