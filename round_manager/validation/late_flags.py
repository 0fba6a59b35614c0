"""Late flags: what somebody says should not be used though it is decided or known; they stand until the owner speaks.

Nothing is undone by them. They come as votes on what was decided meanwhile, or on pages that show a verified example,
or an item of the owner's own, as gold.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from round_manager.models import AuditEntry, Example, ExampleStatus, GoldItem, Hit, Round, Vote, WorkItem
from round_manager.work.gold import each_gold_flag

DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)
# What an owner did who found nothing wrong; the entry names the flags that they saw.
KEPT, SEEN = "kept", "flags"


@dataclass(frozen=True)
class Said:
    """One vote on a flagged example, nobody's name with it."""

    label: str | None
    answer: str | None
    flag: str | None
    comment: str | None


@dataclass(frozen=True)
class Flag:
    """A flag on an example; `key` tells it from every other, and one on gold is no vote."""

    key: str
    example_id: int
    on_gold: bool
    said: Said


@dataclass(frozen=True)
class FlaggedGold:
    """A row of the pack's seed that is shown as gold, and what people say is wrong with it."""

    row: str
    fields: dict[str, Any]
    target: str
    flags: tuple[Said, ...]


def late_flags(session: Session, round: Round) -> dict[int, list[Flag]]:
    """The flags that no owner has seen yet, by example: on decided ones of the round, and on gold of its pages."""
    found = [
        *_voted(session, Example.round_id == round.id, Example.status.in_(DECIDED)),
        *_on_gold(session, Hit.round_id == round.id, WorkItem.example_id.is_not(None)),
    ]
    ids = {flag.example_id for flag in found}
    decided = set(session.scalars(select(Example.id).where(Example.id.in_(ids), Example.status.in_(DECIDED))))
    return _unseen(session, (flag for flag in found if flag.example_id in decided))


def late_flags_on(session: Session, example: Example) -> list[Flag]:
    """The flags on one example that no owner has seen yet, whatever pages they come from."""
    return _unseen(session, flags_on(session, example)).get(example.id, [])


def flags_on(session: Session, example: Example) -> list[Flag]:
    """Every flag on an example."""
    return [
        *_voted(session, Example.id == example.id),
        *_on_gold(session, WorkItem.example_id == example.id, WorkItem.example_id.is_not(None)),
    ]


def count_late(session: Session, round: Round) -> int:
    """How many decided examples have a flag that no owner has seen."""
    return len(late_flags(session, round))


def flagged_gold(session: Session, round: Round) -> list[FlaggedGold]:
    """The owner's own gold that was flagged on the round's pages, while it is handed out."""
    flags: dict[int, list[Said]] = defaultdict(list)
    for flag in each_gold_flag(session, Hit.round_id == round.id, WorkItem.gold_id.is_not(None)):
        flags[flag.gold_id or 0].append(Said(None, None, flag.reason, flag.comment))
    living = select(GoldItem).where(GoldItem.id.in_(flags), GoldItem.retired_at.is_(None)).order_by(GoldItem.id)
    return [
        # The key is the row's id and a fingerprint of the rest.
        FlaggedGold(item.key.rpartition("@")[0], item.fields, target_of(item.label, item.answer), tuple(flags[item.id]))
        for item in session.scalars(living)
    ]


def target_of(label: str | None, answer: Mapping[str, Any] | None) -> str:
    """What somebody says that a text is: its label, or the answer in it."""
    return label if label is not None else str((answer or {}).get("text"))


def _voted(session: Session, *where: ColumnElement[bool]) -> list[Flag]:
    wanted = select(Vote.id, Vote.example_id, Vote.flag, Vote.comment).join(Example, Example.id == Vote.example_id)
    return [
        Flag(f"vote {vote_id}", example_id, False, Said(None, None, flag, comment))
        for vote_id, example_id, flag, comment in session.execute(
            wanted.where(Vote.flag.is_not(None), *where).order_by(Vote.id)
        )
    ]


def _on_gold(session: Session, *where: ColumnElement[bool]) -> list[Flag]:
    return [
        Flag(f"item {flag.item_id}", flag.example_id or 0, True, Said(None, None, flag.reason, flag.comment))
        for flag in each_gold_flag(session, *where)
    ]


def _unseen(session: Session, flags: Iterable[Flag]) -> dict[int, list[Flag]]:
    found: dict[int, list[Flag]] = defaultdict(list)
    for flag in flags:
        found[flag.example_id].append(flag)
    for example_id, seen in _seen(session, found).items():
        found[example_id] = [flag for flag in found[example_id] if flag.key not in seen]
    return {example_id: left for example_id, left in found.items() if left}


def _seen(session: Session, example_ids: Collection[int]) -> dict[int, set[str]]:
    entry = AuditEntry
    kept = select(entry.subject_id, entry.after).where(
        entry.subject == Example.__tablename__, entry.subject_id.in_(example_ids), entry.action == KEPT
    )
    seen: dict[int, set[str]] = defaultdict(set)
    for example_id, after in session.execute(kept):
        seen[example_id].update((after or {}).get(SEEN, ()))
    return seen
