"""`outfox marketplace`: a crowd of your own, served, and looked after by its owner."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from common.money import dollars as in_dollars
from common.money import parse_dollars
from plugin.cli.marketplace_keys import key as key_command
from plugin.cli.marketplace_workers import PORT, invite, payout, workers
from plugin.cli.output import console, json_option, show, table, wants_json
from plugin.errors import PluginError
from plugin.wiring import Application

if TYPE_CHECKING:
    from plugin.marketplace_place import MarketplacePlace

THREADS = 16


class Dollars(click.ParamType[int]):
    """An amount of money, read exactly; the value is in cents."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Cents; a fraction of a cent, a sign or an exponent is refused."""
        if isinstance(value, int):
            return value
        try:
            return parse_dollars(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group(invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0 finds a free one."
)
@click.option("--workers", "processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@click.option(
    "--database",
    metavar="URL",
    help="Its database, a file or a SQLAlchemy URL. Default: the setting `marketplace_database`.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="Where browsers reach it. Default: the address that it listens on; for links, where it was last served.",
)
@click.option(
    "--proxies", type=click.IntRange(0, 9), default=0, show_default=True, help="Reverse proxies that stand before it."
)
@click.option(
    "--grace", type=click.IntRange(8, 600), default=30, show_default=True, help="Seconds to finish when told to stop."
)
@click.pass_context
def marketplace(
    context: click.Context,
    host: str,
    port: int,
    processes: int,
    database: str | None,
    public_url: str | None,
    proxies: int,
    grace: int,
) -> None:
    """Run a crowd of your own: alone, it serves the marketplace until Ctrl-C; its commands are for the owner.

    Requesters use it through any MTurk client whose endpoint is this address, workers through its site.
    """
    app: Application = context.obj
    from plugin.marketplace_place import find_place

    place = context.obj = find_place(app.settings, database, public_url)
    if context.invoked_subcommand is None:
        from ml_backend.serving.processes import Address, Workers
        from plugin.marketplace_process import serve_marketplace

        serve_marketplace(place, Address(host, port), Workers("outfox-market", processes, THREADS, grace), proxies)


@marketplace.command()
@click.argument("name")
@json_option
@click.pass_obj
def account(place: "MarketplacePlace", name: str) -> None:
    """Make an account for a requester, or another access key for one; the secret is shown only now."""
    from mturk.marketplace import people

    with place.open() as market, market.write() as session:
        requester = people.find_requester(session, name.strip())
        is_new = requester is None
        requester = requester or people.add_requester(session, name, market.now())
        key = people.add_key(session, requester, market.now())
        data = {"account": requester.name, "requester_id": requester.id, "new": is_new}
    data |= {"access_key_id": key.id, "secret_access_key": key.secret}
    begun = "new account" if is_new else "another key for"
    lines = [
        f"{begun} {requester.name}",
        "",
        f"  AWS_ACCESS_KEY_ID={key.id}",
        f"  AWS_SECRET_ACCESS_KEY={key.secret}",
        "",
    ]
    show(data, "\n".join([*lines, "The secret is shown only now."]))


@marketplace.command()
@click.argument("account")
@click.argument("dollars", type=Dollars())
@json_option
@click.pass_obj
def deposit(place: "MarketplacePlace", account: str, dollars: int) -> None:
    """Add money to what a requester can spend."""
    from mturk.marketplace import people

    with place.open() as market, market.write() as session:
        requester = people.find_requester(session, account)
        if requester is None:
            raise PluginError(f"there is no account {account}; make it with `outfox marketplace account {account}`")
        available = people.deposit(session, requester, dollars, market.now())
    data = {"account": account, "deposited_cents": dollars, "available_cents": available}
    show(data, f"{account} can spend {in_dollars(available)}")


@marketplace.command()
@json_option
@click.pass_obj
def status(place: "MarketplacePlace") -> None:
    """Show accounts, open HITs, workers, and where all the money is."""
    from mturk.marketplace import site_owner

    with place.open() as market, market.read() as session:
        accounts = [asdict(one) for one in site_owner.accounts(session)]
        money = site_owner.sums(session)
        people = site_owner.workers(session)
        address = place.public_url or site_owner.known_address(session)
    joined = sum(one.signed_in for one in people)
    data = {
        "database": place.shown,
        "address": address,
        "accounts": accounts,
        "workers": {"all": len(people), "signed_in": joined},
        "money": {**asdict(money), "add_up": money.add_up},
    }
    if wants_json():
        show(data, "")
        return
    columns = ("account", "can spend", "held for HITs", "open HITs", "to decide", "access keys")
    rows = [
        [
            one["name"],
            in_dollars(one["available_cents"]),
            in_dollars(one["held_cents"]),
            one["open_hits"],
            one["to_decide"],
            "\n".join(one["keys"]),
        ]
        for one in accounts
    ]
    screen = console()
    screen.print(table(columns, rows))
    screen.print(f"\nworkers: {len(people)}, signed in: {joined}")
    screen.print(
        f"{in_dollars(money.deposited_cents)} deposited = {in_dollars(money.available_cents)} to spend"
        f" + {in_dollars(money.held_cents)} held + {in_dollars(money.workers_cents)} owed to workers"
        f" + {in_dollars(money.paid_out_cents)} paid out + {in_dollars(money.fees_cents)} fees"
        + ("" if money.add_up else "\nTHIS DOES NOT ADD UP: keep a copy of the database and report it")
    )


for _command in (invite, key_command, workers, payout):
    marketplace.add_command(_command)
