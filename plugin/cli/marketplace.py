"""`outfox marketplace`: serve a marketplace of your own, and manage its accounts."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType

from common.text import dollars as in_dollars
from plugin.cli.marketplace_workers import PORT, invite, payout, workers
from plugin.cli.output import data_command, show, table
from plugin.cli.parameters import DOLLARS, HOST, port_option
from plugin.wiring import Application

if TYPE_CHECKING:
    from mturk.marketplace.services.accounts import MarketplaceStatus
    from plugin.marketplace import MarketplaceConfig

THREADS = 16


@click.group(invoke_without_command=True, commands=[invite, workers, payout])
@HOST
@port_option(PORT)
@click.option("--workers", "processes", type=click.IntRange(1, 64), default=1, help="Processes.")
@click.option(
    "--database",
    metavar="URL",
    help="Its database: a file or a SQLAlchemy URL. Default: the setting `marketplace_database`.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="Its URL in browsers. Default: the address it listens on; for links, the URL it was last served at.",
)
@click.option("--proxies", type=click.IntRange(0, 9), default=0, help="Number of reverse proxies in front of it.")
@click.option("--grace", type=click.IntRange(8, 600), default=30, help="Seconds to finish requests on shutdown.")
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
    """Run a marketplace of your own. Without a command, serve it until Ctrl-C; the commands manage it.

    Requesters use it through any MTurk client whose endpoint is its URL, workers through its site.
    """
    app: Application = context.obj
    from plugin.marketplace import marketplace_config, serve_marketplace

    config = context.obj = marketplace_config(app.settings, app.clock, database, public_url)
    if context.invoked_subcommand is None:
        from ml_backend.serving.processes import Address, Workers

        serve_marketplace(config, Address(host, port), Workers("outfox-market", processes, THREADS, grace), proxies)


@marketplace.command()
@click.argument("name")
@data_command
def account(config: "MarketplaceConfig", name: str) -> None:
    """Create an account for a requester, or another access key for one; the secret is shown only once."""
    from mturk.marketplace.services import accounts

    with config.open() as market:
        opened = accounts.open_account(market, name)
    data = {
        "account": opened.name,
        "requester_id": opened.requester_id,
        "new": opened.is_new,
        "access_key_id": opened.key.id,
        "secret_access_key": opened.key.secret,
    }
    lines = [
        f"{'new account' if opened.is_new else 'another key for'} {opened.name}",
        "",
        f"  AWS_ACCESS_KEY_ID={opened.key.id}",
        f"  AWS_SECRET_ACCESS_KEY={opened.key.secret}",
        "",
        "Store the secret now: it is not shown again.",
    ]
    show(data, "\n".join(lines))


@marketplace.command("web-app")
@click.argument("account")
@click.argument("url", required=False)
@click.option("--remove", is_flag=True, help="Ask no longer.")
@data_command
def web_app(config: "MarketplaceConfig", account: str, url: str | None, remove: bool) -> None:
    """Store the URL of a requester's web app (`outfox serve`), which is asked what their HITs hold.

    Workers then see only HITs with work for them, the possible bonus, and what became of each of their examples.
    """
    from mturk.marketplace.services import accounts

    if bool(url) == remove:
        raise click.UsageError("pass a URL, or --remove")
    with config.open() as market:
        name = accounts.set_web_app(market, account, url or "")
    text = f"the web app of {name} at {url} is asked what their HITs hold" if url else f"{name} is not asked any longer"
    show({"account": name, "web_app": url or None}, text)


@marketplace.command()
@click.argument("account")
@click.argument("dollars", type=DOLLARS)
@data_command
def deposit(config: "MarketplaceConfig", account: str, dollars: int) -> None:
    """Add money to what a requester can spend."""
    from mturk.marketplace.services import accounts

    with config.open() as market:
        result = accounts.deposit(market, account, dollars)
    data = {"account": result.account, "deposited_cents": result.cents, "available_cents": result.available_cents}
    show(data, f"{result.account} can spend {in_dollars(result.available_cents)}")


@marketplace.command()
@click.argument("account")
@click.option("--revoke", metavar="ID", help="Revoke the key with this ID.")
@data_command
def key(config: "MarketplaceConfig", account: str, revoke: str | None) -> None:
    """List the access keys of an account, or revoke one; `account` creates another."""
    from mturk.marketplace.api.authentication import KEY_CACHE_SECONDS
    from mturk.marketplace.services import accounts

    with config.open() as market:
        keys = accounts.revoke_key(market, account, revoke) if revoke else accounts.list_keys(market, account)
    data = {
        "account": account,
        "revoked": revoke,
        "keys": [{"access_key_id": one.id, "created_at": one.created_at} for one in keys],
    }
    rows = [[one.id, f"{one.created_at:%Y-%m-%d %H:%M}"] for one in keys]
    text = f"{revoke} is revoked; running servers refuse it after {KEY_CACHE_SECONDS:.0f} seconds at the latest"
    show(data, text if revoke else table(("access key", "created"), rows))


@marketplace.command()
@data_command
def status(config: "MarketplaceConfig") -> None:
    """Show accounts, open HITs, workers, and where all the money is."""
    from mturk.marketplace.services import accounts

    with config.open() as market:
        found = accounts.marketplace_status(market)
    signed_in = sum(one.signed_in for one in found.workers)
    data = {
        "database": config.safe_database,
        "address": config.public_url or found.address,
        "accounts": [asdict(one) for one in found.accounts],
        "workers": {"all": len(found.workers), "signed_in": signed_in},
        "money": {**asdict(found.money), "add_up": found.money.is_balanced},
    }
    show(data, Group(*_status_texts(found, signed_in)))


def _status_texts(found: "MarketplaceStatus", signed_in: int) -> Iterator[RenderableType]:
    columns = ("account", "can spend", "held for HITs", "open HITs", "to decide", "access keys")
    rows = [
        [
            one.name,
            *map(in_dollars, (one.available_cents, one.held_cents)),
            one.open_hits,
            one.to_decide,
            "\n".join(one.keys),
        ]
        for one in found.accounts
    ]
    money = found.money
    yield table(columns, rows)
    yield f"\nworkers: {len(found.workers)}, signed in: {signed_in}"
    yield (
        f"{in_dollars(money.deposited_cents)} deposited = {in_dollars(money.available_cents)} to spend"
        f" + {in_dollars(money.held_cents)} held + {in_dollars(money.workers_cents)} owed to workers"
        f" + {in_dollars(money.paid_out_cents)} paid out + {in_dollars(money.fees_cents)} fees"
    )
    if not money.is_balanced:
        yield "THESE AMOUNTS DO NOT ADD UP: keep a copy of the database and report this as a bug"
