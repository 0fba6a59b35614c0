"""What workers' pages hold: the items of a session, known answers, and results of quizzes."""

import sqlalchemy as sa
from alembic import op

from round_manager.migrations.kinds import ID, JSON, TEXT, UTC, index

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "gold_item",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("fields", JSON, nullable=False),
        sa.Column("label", TEXT, nullable=True),
        sa.Column("answer", JSON, nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("retired_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_gold_item"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_gold_item_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("task_id", "key", name="uq_gold_item_task_id_key"),
        sa.CheckConstraint("trim(key) <> ''", name="ck_gold_item_key"),
        sa.CheckConstraint(
            "CASE WHEN label IS NULL THEN 0 ELSE 1 END + CASE WHEN answer IS NULL THEN 0 ELSE 1 END = 1",
            name="ck_gold_item_target",
        ),
    )
    _work_item()
    _quiz_result()


def downgrade() -> None:
    """Remove them."""
    for table in ("quiz_result", "work_item", "gold_item"):
        op.drop_table(table)


def _work_item() -> None:
    op.create_table(
        "work_item",
        sa.Column("id", ID, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.BigInteger(), nullable=False),
        sa.Column("item", sa.BigInteger(), nullable=False),
        sa.Column("context_id", ID, nullable=True),
        sa.Column("label", TEXT, nullable=True),
        sa.Column("example_id", sa.BigInteger(), nullable=True),
        sa.Column("author_id", sa.BigInteger(), nullable=True),
        sa.Column("gold_id", ID, nullable=True),
        sa.Column("expected_label", TEXT, nullable=True),
        sa.Column("expected_answer", JSON, nullable=True),
        sa.Column("draft", JSON, nullable=False),
        sa.Column("judgement", JSON, nullable=True),
        sa.Column("judged_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_work_item"),
        sa.ForeignKeyConstraint(
            ["session_id", "worker_id"],
            ["work_session.id", "work_session.worker_id"],
            name="fk_work_item_session_id_worker_id_work_session",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["example_id", "author_id"],
            ["example.id", "example.author_id"],
            name="fk_work_item_example_id_author_id_example",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(
            ["context_id"], ["context.id"], name="fk_work_item_context_id_context", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(
            ["gold_id"], ["gold_item.id"], name="fk_work_item_gold_id_gold_item", ondelete="RESTRICT"
        ),
        sa.UniqueConstraint("session_id", "item", name="uq_work_item_session_id_item"),
        sa.CheckConstraint("item >= 0", name="ck_work_item_item"),
        sa.CheckConstraint(
            "CASE WHEN context_id IS NULL THEN 0 ELSE 1 END + CASE WHEN example_id IS NULL THEN 0 ELSE 1 END"
            " + CASE WHEN gold_id IS NULL THEN 0 ELSE 1 END = 1",
            name="ck_work_item_subject",
        ),
        sa.CheckConstraint("(example_id IS NOT NULL) = (author_id IS NOT NULL)", name="ck_work_item_author"),
        sa.CheckConstraint("worker_id <> author_id", name="ck_work_item_not_the_author"),
        sa.CheckConstraint("expected_label IS NULL OR expected_answer IS NULL", name="ck_work_item_expected"),
        sa.CheckConstraint(
            "gold_id IS NULL OR expected_label IS NOT NULL OR expected_answer IS NOT NULL", name="ck_work_item_known"
        ),
        sa.CheckConstraint("(judgement IS NOT NULL) = (judged_at IS NOT NULL)", name="ck_work_item_judged"),
    )
    index("ix_work_item_example", "work_item", ["worker_id", "example_id"], where="example_id IS NOT NULL")
    index("ix_work_item_gold", "work_item", ["worker_id", "gold_id"], where="gold_id IS NOT NULL")


def _quiz_result() -> None:
    op.create_table(
        "quiz_result",
        sa.Column("id", ID, nullable=False),
        sa.Column("session_id", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("answers", JSON, nullable=False),
        sa.Column("right_answers", sa.BigInteger(), nullable=False),
        sa.Column("questions", sa.BigInteger(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("taken_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_quiz_result"),
        sa.ForeignKeyConstraint(
            ["session_id", "worker_id"],
            ["work_session.id", "work_session.worker_id"],
            name="fk_quiz_result_session_id_worker_id_work_session",
            ondelete="RESTRICT",
        ),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_quiz_result_task_id_task", ondelete="RESTRICT"),
        sa.UniqueConstraint("session_id", "number", name="uq_quiz_result_session_id_number"),
        sa.CheckConstraint("number >= 1", name="ck_quiz_result_number"),
        sa.CheckConstraint("questions >= 1", name="ck_quiz_result_questions"),
        sa.CheckConstraint("right_answers >= 0 AND right_answers <= questions", name="ck_quiz_result_right_answers"),
        sa.CheckConstraint("passed IN (true, false)", name="ck_quiz_result_passed"),
    )
    index("ix_quiz_result_worker", "quiz_result", ["worker_id", "task_id"])
