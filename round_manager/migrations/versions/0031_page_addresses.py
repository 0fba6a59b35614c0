"""Keyed hashes of the addresses that worker pages are used from."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import TEXT, UTC, index

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "page_address",
        sa.Column("session_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("address", TEXT, nullable=False),
        sa.Column("stored_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "address", name="pk_page_address"),
        sa.ForeignKeyConstraint(
            ["session_id"], ["work_session.id"], name="fk_page_address_session_id_work_session", ondelete="RESTRICT"
        ),
        sa.CheckConstraint(
            "length(address) = 64 AND trim(address, '0123456789abcdef') = ''", name="ck_page_address_address"
        ),
    )
    index("ix_page_address_stored", "page_address", ["stored_at"])


def downgrade() -> None:
    """Remove it."""
    op.drop_table("page_address")
