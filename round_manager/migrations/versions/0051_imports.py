"""Imported rounds, which are closed at once, and test suites; their rows are in their archives."""

import sqlalchemy as sa
from alembic import op

from round_manager.database.triggers import Guard, create_statements, drop_statements
from round_manager.migrations.kinds import ID, JSON, TEXT, UTC

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None

FORWARD = Guard(
    "guard_round_forward",
    "round",
    "UPDATE OF status",
    "a round goes from draft to open to validating to closed, step by step; an imported one is closed at once",
    "NEW.status <> OLD.status AND NOT (OLD.status = 'draft' AND NEW.status = 'open' AND NEW.imported IS NULL"
    " OR OLD.status = 'open' AND NEW.status = 'validating'"
    " OR OLD.status = 'validating' AND NEW.status = 'closed'"
    " OR OLD.status = 'draft' AND NEW.status = 'closed' AND NEW.imported IS NOT NULL)",
)
FORWARD_BEFORE = Guard(
    "guard_round_forward",
    "round",
    "UPDATE OF status",
    "a round goes from draft to open to validating to closed, one step at a time",
    "NEW.status <> OLD.status AND NOT (OLD.status = 'draft' AND NEW.status = 'open'"
    " OR OLD.status = 'open' AND NEW.status = 'validating'"
    " OR OLD.status = 'validating' AND NEW.status = 'closed')",
)
TERMS = Guard(
    "guard_round_terms",
    "round",
    "UPDATE OF id, task_id, number, spec, spec_sha256, created_at, imported",
    "the terms of a round are fixed once it is open; change them in the next round",
    "OLD.status <> 'draft'",
)
TERMS_BEFORE = Guard(
    "guard_round_terms",
    "round",
    "UPDATE OF id, task_id, number, spec, spec_sha256, created_at",
    "the terms of a round are fixed once it is open; change them in the next round",
    "OLD.status <> 'draft'",
)
SUITES = (
    Guard(
        "guard_suite_fixed",
        "suite",
        "UPDATE OF id, task_id, name, hidden, origin, examples, archive_sha256, imported_at",
        "a test suite never changes; import it under another name",
    ),
    Guard("guard_suite_kept", "suite", "DELETE", "a test suite is kept: evaluations name it"),
)


def upgrade() -> None:
    """Make the columns, the table and their guards."""
    kind = op.get_bind().dialect.name
    op.execute(f"ALTER TABLE round ADD COLUMN imported {'JSON' if kind == 'sqlite' else 'JSONB'}")
    rule = (
        "CONSTRAINT ck_round_texts_known CHECK"
        " ((imported IS NOT NULL) = (texts_known IS NOT NULL) AND texts_known >= 0)"
    )
    op.execute(f"ALTER TABLE round ADD COLUMN texts_known BIGINT {rule}")
    op.create_table(
        "suite",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("origin", JSON, nullable=False),
        sa.Column("examples", sa.BigInteger(), nullable=False),
        sa.Column("archive_uri", TEXT, nullable=False),
        sa.Column("archive_sha256", TEXT, nullable=False),
        sa.Column("imported_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_suite"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_suite_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("task_id", "name", name="uq_suite_task_id_name"),
        sa.CheckConstraint(
            "length(name) BETWEEN 1 AND 40 AND trim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_-') = ''",
            name="ck_suite_name",
        ),
        sa.CheckConstraint(
            "length(archive_sha256) = 64 AND trim(archive_sha256, '0123456789abcdef') = ''",
            name="ck_suite_archive_sha256",
        ),
        sa.CheckConstraint("examples >= 1", name="ck_suite_examples"),
        sa.CheckConstraint("hidden IN (true, false)", name="ck_suite_hidden"),
    )
    _exchange(kind, (FORWARD_BEFORE, TERMS_BEFORE), (FORWARD, TERMS, *SUITES))


def downgrade() -> None:
    """Remove them; imported rounds stay as closed rounds without examples."""
    kind = op.get_bind().dialect.name
    _exchange(kind, (FORWARD, TERMS, *SUITES), (FORWARD_BEFORE, TERMS_BEFORE))
    op.drop_table("suite")
    op.drop_column("round", "texts_known")
    op.drop_column("round", "imported")


def _exchange(kind: str, old: tuple[Guard, ...], new: tuple[Guard, ...]) -> None:
    for guard in old:
        for statement in drop_statements(guard, kind):
            op.execute(statement)
    for guard in new:
        for statement in create_statements(guard, kind):
            op.execute(statement)
