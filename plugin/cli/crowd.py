"""`outfox crowd`: post work on a marketplace, collect it and pay for it."""

import click

from plugin.cli.lazy import LazyGroup

COMMANDS = {
    "approve": "plugin.cli.crowd_review:approve",
    "balance": "plugin.cli.crowd_money:balance",
    "block": "plugin.cli.crowd_workers:block",
    "bonus": "plugin.cli.crowd_money:bonus",
    "expire": "plugin.cli.crowd_posting:expire",
    "follow": "plugin.cli.crowd_review:follow",
    "pay": "plugin.cli.crowd_money:pay",
    "post": "plugin.cli.crowd_posting:post",
    "reconcile": "plugin.cli.crowd_reconcile:reconcile",
    "reject": "plugin.cli.crowd_review:reject",
    "reports": "plugin.cli.crowd_review:reports",
    "statement": "plugin.cli.crowd_reconcile:statement",
    "status": "plugin.cli.crowd_status:status",
    "workers": "plugin.cli.crowd_workers:workers",
}


@click.group(cls=LazyGroup, commands_at=COMMANDS)
def crowd() -> None:
    """Post work on a marketplace, collect it and pay for it.

    Every cent goes through the ledger: it is reserved before a HIT is posted, and each payment is made once, even after
    a crash. See docs/crowd.md.
    """
