"""Whether an example's text is new, and the index of known texts that decides it.

Rounds that are open keep their terms, which say nothing about duplicates. Tasks and drafts get the default terms, and
the examples and contexts that exist become known, so that later rounds are compared with them. The seed is not in the
database: it becomes known when its task is created again.
"""

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from ml_backend.hashing import json_sha256
from round_manager.database.triggers import Guard, create_statements, drop_statements
from round_manager.migrations.kinds import ID, JSON, TEXT, index
from round_manager.novelty.known_texts import NewText, context_texts
from round_manager.novelty.measure import measured_examples
from templates import TaskSpec

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

DEFAULT = {"near": 0.7}
BATCH = 2_000
DECIDED = Guard(
    "guard_example_duplicate",
    "example",
    "UPDATE OF duplicate, duplicate_of",
    "whether an example of a closed round is new is decided",
    "NOT (SELECT status IN ('open', 'validating') FROM round WHERE id = NEW.round_id FOR KEY SHARE)",
)
KNOWN = sa.table("known_text", *map(sa.column, ("id", "task_id", "name", "example_id", "context", "text")))
KEYS = sa.table("text_key", *map(sa.column, ("task_id", "key", "text_id")))
CONTEXTS = "SELECT id, key, fields FROM context WHERE task_id = :task"
EXAMPLES = (
    "SELECT id, public_id, fields, content_sha256 FROM example"
    " WHERE task_id = :task AND status NOT IN ('unconfirmed', 'withdrawn')"
)


def upgrade() -> None:
    """Make columns, tables and guard, and make known what exists."""
    rules = {
        "duplicate": "VARCHAR(20) CONSTRAINT ck_example_duplicate CHECK (duplicate IN ('exact', 'near'))",
        "duplicate_of": "TEXT CONSTRAINT ck_example_duplicate_of"
        " CHECK ((duplicate IS NOT NULL) = (duplicate_of IS NOT NULL))",
    }
    for name, rule in rules.items():
        op.execute(f"ALTER TABLE example ADD COLUMN {name} {rule}")
    index("ix_example_unconfirmed", "example", ["author_id", "round_id"], where="status = 'unconfirmed'")
    index("ix_example_duplicate", "example", ["duplicate_of"], where="duplicate_of IS NOT NULL")
    op.create_table(
        "known_text",
        sa.Column("id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("example_id", ID, nullable=True),
        sa.Column("context", sa.BigInteger(), nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_known_text"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_known_text_task_id_task", ondelete="RESTRICT"),
        sa.ForeignKeyConstraint(
            ["example_id"], ["example.id"], name="fk_known_text_example_id_example", ondelete="RESTRICT"
        ),
    )
    index("ix_known_text_name", "known_text", ["task_id", "name"], where="example_id IS NULL")
    index("uq_known_text_example", "known_text", ["example_id"], where="example_id IS NOT NULL", unique=True)
    op.create_table(
        "text_key",
        sa.Column("task_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("text_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "key", "text_id", name="pk_text_key"),
        sqlite_with_rowid=False,
    )
    for statement in create_statements(DECIDED, op.get_bind().dialect.name):
        op.execute(statement)
    for task_id, spec in _add_terms().items():
        _add_known(task_id, spec)


def _add_terms() -> dict[int, TaskSpec]:
    """Add the default terms to tasks and drafts; return the tasks' specs that can be read."""
    found = {}
    for table, number, spec in _changeable():
        _set_spec(table, number, {"duplicates": DEFAULT, **spec})
        if table == "task":
            try:
                found[number] = TaskSpec.model_validate(spec)
            except ValueError:
                # A pack of another time; creating its task again gives it terms that can be read.
                continue
    return found


def _changeable() -> list[tuple[str, int, dict[str, Any]]]:
    """Return the terms that may change: those of tasks and of drafts."""
    which = {"task": "SELECT id, spec FROM task", "round": "SELECT id, spec FROM round WHERE status = 'draft'"}
    return [
        (table, number, _json(spec))
        for table, wanted in which.items()
        for number, spec in op.get_bind().execute(sa.text(wanted)).all()
    ]


def _set_spec(table: str, number: int, spec: dict[str, Any]) -> None:
    rows = sa.table(table, sa.column("id"), sa.column("spec", JSON), sa.column("spec_sha256"))
    change = sa.update(rows).where(rows.c.id == number)
    op.get_bind().execute(change.values(spec=spec, spec_sha256=json_sha256(spec)))


def _add_known(task_id: int, spec: TaskSpec) -> None:
    for rows in _batches(CONTEXTS, task_id):
        _add(task_id, context_texts(spec, [(key, _json(fields)) for _, key, fields in rows]))
    # Of equal texts the first: later ones would only fill the index.
    seen: set[int] = set()
    for rows in _batches(EXAMPLES, task_id):
        first = {int(row[3][:16], 16): row for row in reversed(rows)}
        new = sorted((row for content, row in first.items() if content not in seen), key=lambda row: int(row[0]))
        seen.update(first)
        texts = measured_examples(spec, [_json(row[2]) for row in new])
        names = [str(row[1]).replace("-", "") for row in new]
        _add(task_id, [NewText(name, one, row[0]) for row, name, one in zip(new, names, texts, strict=True)])


def _add(task_id: int, texts: list[NewText]) -> None:
    connection = op.get_bind()
    last = connection.scalar(sa.select(sa.func.max(KNOWN.c.id))) or 0
    rows, keys = [], []
    for number, one in enumerate(texts, last + 1):
        measured = one.measured
        rows.append((number, task_id, one.name, one.example_id, measured.context, measured.text))
        keys += [(task_id, key, number) for key in set(measured.keys[: one.keys])]
    for table, values in ((KNOWN, rows), (KEYS, keys)):
        if values:
            names = [column.name for column in table.c]
            connection.execute(sa.insert(table), [dict(zip(names, row, strict=True)) for row in values])
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT setval('known_text_id_seq', (SELECT max(id) + 1 FROM known_text), false)"))


def _batches(wanted: str, task_id: int) -> Iterator[list[Any]]:
    """Yield the rows of a task in the order of their ids, which are the first column."""
    statement, last = sa.text(f"{wanted} AND id > :last ORDER BY id LIMIT {BATCH}"), 0
    while rows := list(op.get_bind().execute(statement, {"task": task_id, "last": last})):
        yield rows
        last = rows[-1][0]


def _json(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return found


def downgrade() -> None:
    """Remove all of it. Rounds that were opened with these terms keep them."""
    for table, number, spec in _changeable():
        _set_spec(table, number, {name: value for name, value in spec.items() if name != "duplicates"})
    for statement in drop_statements(DECIDED, op.get_bind().dialect.name):
        op.execute(statement)
    op.drop_table("text_key")
    op.drop_table("known_text")
    for name in ("ix_example_duplicate", "ix_example_unconfirmed"):
        op.drop_index(name, "example")
    for column in ("duplicate_of", "duplicate"):
        op.drop_column("example", column)
