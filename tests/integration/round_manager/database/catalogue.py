"""Everything that a database says about its own tables, as comparable lines."""

from sqlalchemy import Connection, inspect, text

POSTGRESQL = """
SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT concat_ws(' ', 'column', table_name, column_name, data_type, character_maximum_length, is_nullable,
                           column_default, ordinal_position)
  FROM information_schema.columns WHERE table_schema = 'public'
"""


def catalogue(connection: Connection) -> set[str]:
    """One line for each column, constraint, index, trigger and function."""
    if connection.dialect.name == "postgresql":
        lines = {str(line) for line in connection.scalars(text(POSTGRESQL))}
    else:
        lines = _sqlite(connection)
    return {line for line in lines if "alembic_version" not in line}


def _sqlite(connection: Connection) -> set[str]:
    made = text("SELECT type || ' ' || sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL")
    lines = {str(line) for line in connection.scalars(made)}
    inspector = inspect(connection)
    for table in inspector.get_table_names():
        parts: list[object] = [
            *(f"column {place} {column}" for place, column in enumerate(inspector.get_columns(table))),
            *(f"check {check}" for check in inspector.get_check_constraints(table)),
            *(f"unique {unique}" for unique in inspector.get_unique_constraints(table)),
            *(f"foreign key {key}" for key in inspector.get_foreign_keys(table)),
            f"primary key {inspector.get_pk_constraint(table)}",
        ]
        lines.update(f"{table} {part}" for part in parts)
    return lines
