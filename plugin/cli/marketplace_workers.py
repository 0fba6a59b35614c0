"""`outfox marketplace invite|workers|payout`: the people of a marketplace, and what they get."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.money import dollars
from common.text import count
from plugin.cli.crowd_context import YES, ask
from plugin.cli.output import json_option, show, table, wants_json
from plugin.errors import PluginError

if TYPE_CHECKING:
    from mturk.marketplace.market import Market
    from mturk.marketplace.payouts import Batch
    from mturk.marketplace.site_owner import Invited
    from plugin.marketplace_place import MarketplacePlace

PORT = 7500
MOST_INVITED = 10_000


@click.command()
@click.argument("name", nargs=-1)
@click.option("--names", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="A name on each line.")
@click.option("--count", type=click.IntRange(1, MOST_INVITED), help="So many workers: NAME 1, NAME 2, …")
@click.option("--country", default="", metavar="CODE", help="Where they are, such as US; HITs can ask for it.")
@click.option("--adult", is_flag=True, help="They agree to see work with adult content.")
@click.option("--again", metavar="WORKER", help="Another link for the worker of this ID, who is there already.")
@json_option
@click.pass_obj
def invite(
    place: "MarketplacePlace",
    name: tuple[str, ...],
    names: Path | None,
    count: int | None,
    country: str,
    adult: bool,
    again: str | None,
) -> None:
    """Make workers, and a link for each that signs them in once, within 14 days."""
    from mturk.marketplace.site_owner import invite_again, invite_all, known_address

    wanted = () if again else _names(name, names, count)
    with place.open() as market, market.write() as session:
        address = place.public_url or known_address(session) or f"http://127.0.0.1:{PORT}"
        if again:
            made = [invite_again(session, again, address, market.now())]
        else:
            made = invite_all(session, wanted, address, market.now(), country=country, adult=adult)
    _show_invited(made)


@click.command()
@json_option
@click.pass_obj
def workers(place: "MarketplacePlace") -> None:
    """List the workers: what was approved and rejected, and what they have to get."""
    from mturk.marketplace import site_owner

    with place.open() as market, market.read() as session:
        data = [asdict(one) for one in site_owner.workers(session)]
    rows = []
    for one in data:
        about = [one["worker_id"], one["name"], one["country"], _yes(one["adult"]), _yes(one["signed_in"])]
        rows.append([*about, one["approved"], one["rejected"], dollars(one["balance_cents"])])
    show(data, table(("worker", "name", "country", "adult", "signed in", "approved", "rejected", "to get"), rows))


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the CSV there.")
@click.option("--batch", metavar="ID", help="Print a payout of before again; nothing is paid out.")
@click.option("--dry-run", is_flag=True, help="Show what would be paid out; nothing is changed.")
@YES
@json_option
@click.pass_obj
def payout(place: "MarketplacePlace", out: Path | None, batch: str | None, dry_run: bool, yes: bool) -> None:
    """Pay out what workers have earned: a CSV with what each gets, and never the same cent in two of them.

    The transfers themselves are yours to make; the marketplace takes them as made.
    """
    from mturk.marketplace import payouts

    # Before anything is paid out: a batch that cannot be written down would have to be asked for again.
    file = _new_file(out) if out and not dry_run else None
    try:
        with place.open() as market:
            if batch or dry_run:
                with market.read() as session:
                    made = payouts.paid_out(session, batch) if batch else payouts.due(session, market.now())
            else:
                _ask(market, yes=yes)
                with market.write() as session:
                    made = payouts.pay_out(session, market.now())
    except BaseException:
        if file:
            file.unlink()
        raise
    if file and not made.shares:
        file.unlink()
    elif file:
        _write(file, payouts.as_csv(made), made.id)
    _show_batch(made, file, dry_run=dry_run)


def _ask(market: "Market", *, yes: bool) -> None:
    """Shows what is at stake and goes on only with a yes; where nothing is, nobody is asked."""
    from mturk.marketplace import payouts

    with market.read() as session:
        due = payouts.due(session, market.now())
    if due.shares:
        whose = count(len(due.shares), "worker's balance", "workers' balances")
        ask(f"take {dollars(due.cents)} from {whose}, as paid by you?", yes=yes)


def _names(given: Sequence[str], file: Path | None, count: int | None) -> list[str]:
    names = list(given)
    if file is not None:
        try:
            names += [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise PluginError(f"cannot read {file}; write one name on each line of it") from error
    if count is not None:
        if len(names) != 1:
            raise PluginError("--count goes with one NAME, which is then numbered")
        names = [f"{names[0]} {number}" for number in range(1, count + 1)]
    if not names:
        raise PluginError("name who is invited, or give a file with --names")
    if len(names) > MOST_INVITED:
        raise PluginError(f"{len(names):,} names are too many at once; invite at most {MOST_INVITED:,}")
    return names


def _show_invited(made: "Sequence[Invited]") -> None:
    if wants_json():
        show([asdict(one) for one in made], "")
        return
    # Not in a table: a link that is broken over two lines is lost.
    for one in made:
        click.echo(f"{one.worker_id}  {one.name}  {one.link}")
    click.echo(f"each link works once, until {made[0].expires_at:%Y-%m-%d %H:%M} UTC", err=True)


def _show_batch(made: "Batch", file: Path | None, *, dry_run: bool) -> None:
    from mturk.marketplace.payouts import as_csv

    if wants_json():
        show({**asdict(made), "cents": made.cents, "dry_run": dry_run}, "")
        return
    if not made.shares:
        click.echo("nothing to pay out", err=True)
        return
    if file is None:
        click.echo(as_csv(made), nl=False)
    what = "would be paid" if dry_run else f"in payout {made.id}"
    where = f", written to {file}" if file else ""
    click.echo(f"{dollars(made.cents)} for {count(len(made.shares), 'worker')} {what}{where}", err=True)


def _write(file: Path, text: str, batch: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        cure = f"print it again with --batch {batch}"
        raise PluginError(f"payout {batch} was made, but {file} cannot be written: {error.strerror}; {cure}") from error


def _new_file(path: Path) -> Path:
    try:
        path.touch(mode=0o600, exist_ok=False)
    except FileExistsError as error:
        raise PluginError(f"{path} is there already; choose another file with --out") from error
    except OSError as error:
        raise PluginError(f"cannot write {path}: {error.strerror}; choose another file with --out") from error
    return path


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
