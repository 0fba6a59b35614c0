"""`outfox marketplace invite|workers|payout`: invite workers, list them, and pay out what they earned."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.text import count, dollars
from plugin.cli.crowd_context import confirm
from plugin.cli.output import data_command, show, table, wants_json
from plugin.cli.parameters import DRY_RUN, YES
from plugin.errors import PluginError

if TYPE_CHECKING:
    from mturk.marketplace.market import Market
    from mturk.marketplace.services.earnings import PayoutBatch
    from mturk.marketplace.services.workers import InvitedWorker
    from plugin.marketplace import MarketplaceConfig

PORT = 7500
MAX_INVITED = 10_000


@click.command()
@click.argument("name", nargs=-1)
@click.option("--names", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="A name on each line.")
@click.option("--count", type=click.IntRange(1, MAX_INVITED), help="Number of workers: NAME 1, NAME 2, …")
@click.option(
    "--country", default="", show_default=False, metavar="CODE", help="Their country, such as US; HITs can require one."
)
@click.option("--adult", is_flag=True, help="They agreed to see adult content.")
@click.option("--again", metavar="WORKER", help="Another link for the existing worker with this ID.")
@data_command
def invite(
    config: "MarketplaceConfig",
    name: tuple[str, ...],
    names: Path | None,
    count: int | None,
    country: str,
    adult: bool,
    again: str | None,
) -> None:
    """Create workers, and a sign-in link for each that works once, within 14 days."""
    from mturk.marketplace.services.workers import invite_again, invite_workers, public_address_of

    new_names = () if again else _names(name, names, count)
    with config.open() as market:
        address = config.public_url or public_address_of(market) or f"http://127.0.0.1:{PORT}"
        if again:
            invited = [invite_again(market, again, address)]
        else:
            invited = invite_workers(market, new_names, address, country=country, adult=adult)
    _show_invited(invited)


@click.command()
@click.option(
    "--csv", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write ids and names to this file, for `outfox crowd workers names`.",
)  # fmt: skip
@data_command
def workers(config: "MarketplaceConfig", file: Path | None) -> None:
    """List the workers: approved and rejected assignments, and what they are owed."""
    from mturk.marketplace.services.workers import list_workers

    with config.open() as market:
        found = list_workers(market)
    if file is not None:
        out = io.StringIO()
        rows_of_file = csv.writer(out, lineterminator="\n")
        rows_of_file.writerows([("worker_id", "name"), *((one.worker_id, one.name) for one in found)])
        new = _new_file(file)
        new.write_text(out.getvalue(), encoding="utf-8")
        show({"workers": len(found), "file": str(file)}, f"wrote the names of {count(len(found), 'worker')} to {file}")
        return
    rows = [
        [one.worker_id, one.name, one.country, *("yes" if flag else "no" for flag in (one.adult, one.signed_in)),
         one.approved, one.rejected, dollars(one.balance_cents)]
        for one in found
    ]  # fmt: skip
    columns = ("worker", "name", "country", "adult", "signed in", "approved", "rejected", "owed")
    show([asdict(one) for one in found], table(columns, rows))


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the CSV to this file."
)
@click.option("--batch", metavar="ID", help="Print an earlier payout again; nothing is paid out.")
@DRY_RUN
@YES
@data_command
def payout(config: "MarketplaceConfig", out: Path | None, batch: str | None, dry_run: bool, yes: bool) -> None:
    """Pay out what workers earned: writes a CSV with each worker's amount. No cent is paid out twice.

    You make the transfers yourself; the marketplace records them as made.
    """
    from mturk.marketplace.services import earnings

    # Created before anything is paid out, so that a file that cannot be written stops the payout.
    file = _new_file(out) if out and not dry_run else None
    try:
        with config.open() as market:
            if batch:
                paid = earnings.find_payout(market, batch)
            elif dry_run:
                paid = earnings.preview_payout(market)
            else:
                _confirm(market, yes=yes)
                paid = earnings.make_payout(market)
    except BaseException:
        if file:
            file.unlink()
        raise
    if file and not paid.shares:
        file.unlink()
    elif file:
        _write(file, earnings.payout_csv(paid), paid.id)
    _show_batch(paid, file, dry_run=dry_run)


def _confirm(market: "Market", *, yes: bool) -> None:
    """Show the amount and ask for confirmation, unless there is nothing to pay out."""
    from mturk.marketplace.services.earnings import preview_payout

    due = preview_payout(market)
    if due.shares:
        balances = count(len(due.shares), "worker's balance", "workers' balances")
        confirm(f"take {dollars(due.cents)} from {balances}, as paid by you?", yes=yes)


def _names(given: Sequence[str], file: Path | None, count: int | None) -> list[str]:
    names = list(given)
    if file is not None:
        try:
            names += [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise PluginError(f"cannot read {file}; it has to be a text file with one name per line") from error
    if count is not None:
        if len(names) != 1:
            raise PluginError("--count needs exactly one NAME, which is then numbered")
        names = [f"{names[0]} {number}" for number in range(1, count + 1)]
    if not names:
        raise PluginError("pass at least one NAME, or a file with --names")
    if len(names) > MAX_INVITED:
        raise PluginError(f"{len(names):,} names are too many; invite at most {MAX_INVITED:,} at once")
    return names


def _show_invited(invited: "Sequence[InvitedWorker]") -> None:
    if wants_json():
        show([asdict(one) for one in invited], "")
        return
    # Not in a table, which would break long links over two lines.
    for one in invited:
        click.echo(f"{one.worker_id}  {one.name}  {one.link}")
    click.echo(f"each link works once, until {invited[0].expires_at:%Y-%m-%d %H:%M} UTC", err=True)


def _show_batch(paid: "PayoutBatch", file: Path | None, *, dry_run: bool) -> None:
    from mturk.marketplace.services.earnings import payout_csv

    if wants_json():
        show({**asdict(paid), "cents": paid.cents, "dry_run": dry_run}, "")
        return
    if not paid.shares:
        click.echo("nothing to pay out", err=True)
        return
    if file is None:
        click.echo(payout_csv(paid), nl=False)
    result = "would be paid out" if dry_run else f"in payout {paid.id}"
    where = f", written to {file}" if file else ""
    click.echo(f"{dollars(paid.cents)} for {count(len(paid.shares), 'worker')} {result}{where}", err=True)


def _write(file: Path, text: str, batch: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        hint = f"print it again with --batch {batch}"
        raise PluginError(f"payout {batch} was made, but {file} cannot be written: {error.strerror}; {hint}") from error


def _new_file(path: Path) -> Path:
    try:
        path.touch(mode=0o600, exist_ok=False)
    except FileExistsError as error:
        raise PluginError(f"{path} already exists; choose another file with --out") from error
    except OSError as error:
        raise PluginError(f"cannot write {path}: {error.strerror}; choose another file with --out") from error
    return path
