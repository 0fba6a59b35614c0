"""Use cases about gold: upload the owner's private items, and see what is in use and what archives leave out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outfox.json_lines import json_lines
from round_manager.archive.round_rows import ArchiveRules, RoundRows
from round_manager.archive.withheld import WithheldRows, withheld_counts, withheld_examples
from round_manager.models import spec_of
from round_manager.services.context import Actor, ServiceContext
from round_manager.tasks import gold
from round_manager.tasks.gold import GoldCounts, GoldUploaded
from round_manager.tasks.rounds import find_round
from round_manager.tasks.tasks import find_task
from round_manager.work.gold_uploads import published_rows
from round_manager.work.leases import lock_task
from templates import PackError, SeedRow, TaskSpec
from templates.rows import GoldRow

# Reads the rows of a file for a spec; raises PackError with all of its mistakes.
GoldReader = Callable[[TaskSpec], Sequence[GoldRow]]


@dataclass(frozen=True)
class GoldSummary:
    """The gold of a task, and by round the examples that its archive leaves out."""

    counts: GoldCounts
    withheld: tuple[WithheldRows, ...]


def upload_gold(
    context: ServiceContext,
    actor: Actor,
    task: str,
    read: GoldReader,
    *,
    file: str,
    seed: Sequence[SeedRow],
    replace: bool = False,
    reason: str = "",
    dry_run: bool = False,
) -> GoldUploaded:
    """Add private gold items in one transaction: all of them, or none and an error; safe to repeat.

    Rows that workers can look up are refused: in the pack's `seed`, in a context or in any round. With `replace`, all
    other items of the owner are retired. With `dry_run`, the changes are rolled back.
    """
    store = context.store
    with store.read() as session:
        owner = find_task(session, task)
        rows = read(spec_of(owner))
        problems = published_rows(session, owner, file, rows, seed)
    if problems:
        raise PackError(problems)
    with store.dry_run() if dry_run else store.write() as session:
        owner = find_task(session, task)
        lock_task(session, owner.id)
        chosen = [one.row for one in rows]
        return gold.upload_gold(
            session, owner, chosen, replace=replace, actor=actor.name, reason=reason, now=context.now()
        )


def show_gold(context: ServiceContext, task: str) -> GoldSummary:
    """Return the gold of a task."""
    with context.store.read() as session:
        owner = find_task(session, task)
        return GoldSummary(gold.gold_counts(session, owner.id), tuple(withheld_counts(session, owner)))


def retired_rows(context: ServiceContext, task: str, number: int) -> list[bytes]:
    """Return the withheld examples of a frozen round that are no longer gold, as lines of its table `examples`.

    They were left out of the round's archive, which never changes.
    """
    with context.store.read() as session:
        owner = find_task(session, task)
        round = find_round(session, owner, number)
        chosen = withheld_examples(session, round, retired=True)
        rows = RoundRows(session, owner, round, rules=ArchiveRules(0, None, only=chosen))
        lines = b"".join(json_lines(rows.tables.examples(some)[0]) for some in rows.examples())
    return lines.splitlines()
