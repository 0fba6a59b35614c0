"""The ledger: one row per possible payment, in whole cents.

    reserved ──► owed ──► sent ──► confirmed
        │                   └────► refused
        └──► released

Posting a HIT reserves one entry for each reward and bonus that it can lead to, fees included. An amount never changes;
an entry only moves forward, and each step records its time, so a statement for any moment is a sum over entries.
Triggers maintain the current totals (reserved_cents, owed_cents, sent_cents including confirmed ones) in each task and
round, and a check keeps them within the budget. Released and refused amounts are available again, so at any time:

    reserved + owed + sent + free (what was released, or never reserved) = budget
"""

import enum
from datetime import datetime

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from round_manager.database.columns import Cents, LimitedText
from round_manager.models import table


class EntryKind(enum.StrEnum):
    """What a payment is for."""

    REWARD = "reward"
    BONUS = "bonus"
    TOP_UP = "top_up"
    EXTRA = "extra"  # a bonus that the owner decided on


class EntryState(enum.StrEnum):
    """The state of a payment."""

    RESERVED = "reserved"
    OWED = "owed"
    SENT = "sent"  # committed before the call, which may or may not have arrived
    CONFIRMED = "confirmed"
    REFUSED = "refused"
    RELEASED = "released"


class LedgerEntry(table.Numbered):
    """A possible, owed or completed payment; its key is the idempotency token of the call."""

    __tablename__ = "ledger_entry"
    __table_args__ = (
        table.references(round_id="round.id", task_id="round.task_id"),
        table.references(hit_id="hit.id", task_id="hit.task_id"),
        # Rewards go to the assignment's worker, bonuses to the example's author.
        table.references(assignment_id="assignment.id", worker_id="assignment.worker_id"),
        table.references(example_id="example.id", worker_id="example.author_id"),
        UniqueConstraint("key"),
        table.index(
            "uq_ledger_entry_assignment", "assignment_id", "kind", unique=True,
            where="kind IN ('reward', 'top_up') AND assignment_id IS NOT NULL AND state <> 'refused'",
        ),
        table.index(
            "uq_ledger_entry_example", "example_id", unique=True,
            where="example_id IS NOT NULL AND state <> 'refused'",
        ),
        table.index("ix_ledger_entry_round", "round_id", "state", "cents", "fee_cents"),
        table.index("ix_ledger_entry_task", "task_id", "state", "cents", "fee_cents"),
        table.index("ix_ledger_entry_owed", "next_try_at", "id", where="state = 'owed'"),
        table.index("ix_ledger_entry_sent", "next_try_at", "id", where="state = 'sent'"),
        table.index("ix_ledger_entry_hit", "hit_id", "state"),
        table.index("ix_ledger_entry_worker", "worker_id", "state", where="worker_id IS NOT NULL"),
        table.one_of("kind", EntryKind),
        table.one_of("state", EntryState),
        table.check("key", "length(key) BETWEEN 1 AND 64"),
        *table.whole_cents("cents", "fee_cents"),
        *table.at_least(0, "tries"),
        table.together("owed", "state NOT IN ('reserved', 'released')", "owed_at"),
        table.together("sent", "state IN ('sent', 'confirmed', 'refused')", "sent_at"),
        table.together("settled", "state IN ('confirmed', 'refused', 'released')", "settled_at"),
        table.check("payee", "owed_at IS NULL OR (worker_id IS NOT NULL AND assignment_id IS NOT NULL)"),
        table.check("bonus", "kind = 'bonus' OR example_id IS NULL"),
        table.check("bonus_for", "kind <> 'bonus' OR owed_at IS NULL OR example_id IS NOT NULL"),
        table.check("held", "held_at IS NULL OR state = 'sent'"),
        table.together("held_reason", "held_at IS NOT NULL", "held_reason"),
    )  # fmt: skip

    key: Mapped[str] = mapped_column(LimitedText(64))
    task_id: Mapped[int] = mapped_column(ForeignKey("task.id", ondelete="RESTRICT"))
    # Empty for the quiz, which belongs to no round.
    round_id: Mapped[int | None] = mapped_column(default=None)
    kind: Mapped[EntryKind]
    # The worker's amount, and the marketplace's fee on top.
    cents: Mapped[int] = mapped_column(Cents)
    fee_cents: Mapped[int] = mapped_column(Cents)
    state: Mapped[EntryState] = mapped_column(default=EntryState.RESERVED)

    hit_id: Mapped[int] = mapped_column()
    assignment_id: Mapped[int | None] = mapped_column(default=None)
    worker_id: Mapped[int | None] = mapped_column(default=None)
    example_id: Mapped[int | None] = mapped_column(default=None)

    reserved_at: Mapped[datetime]
    owed_at: Mapped[datetime | None] = mapped_column(default=None)
    sent_at: Mapped[datetime | None] = mapped_column(default=None)
    settled_at: Mapped[datetime | None] = mapped_column(default=None)

    tries: Mapped[int] = mapped_column(default=0)
    next_try_at: Mapped[datetime | None] = mapped_column(default=None)
    last_error: Mapped[str | None] = mapped_column(default=None)
    # Still in doubt after a lookup: the owner decides.
    held_at: Mapped[datetime | None] = mapped_column(default=None)
    held_reason: Mapped[str | None] = mapped_column(default=None)
    # The reason for a bonus, shown to the worker.
    reason: Mapped[str | None] = mapped_column(default=None)
