"""The database itself refuses every invalid row, whichever program writes it."""

from collections import Counter

import pytest
from sqlalchemy import CheckConstraint, UniqueConstraint, text
from sqlalchemy import Table as SqlTable
from sqlalchemy.dialects.postgresql.base import PGDialect

from round_manager.errors import DuplicateError, RefusedError
from round_manager.models import Table
from tests.integration.round_manager.database.invalid_rows import INVALID_ROWS, InvalidRow
from tests.integration.round_manager.database.sample_rows import SampleRows

TABLES = list(Table.metadata.sorted_tables)
# A guard answers before these can; test_wrong_changes.py has its cases.
BEHIND_A_GUARD = {
    "ck_round_status",
    "ck_ledger_entry_state",
    "ck_round_model_rank",
    "uq_round_model_round_id_rank",
    "uq_round_live",
}
NUMBERED = [pytest.param(case, id=f"{case.rule}-{number}") for number, case in enumerate(INVALID_ROWS)]


def _rules(table: SqlTable) -> dict[str, list[str]]:
    """Every check and unique rule of a table with its columns; those on the row's number are only for foreign keys."""
    preparer = PGDialect().identifier_preparer  # type: ignore[no-untyped-call]
    rules = {str(index.name): list(index.columns.keys()) for index in table.indexes if index.unique}
    for constraint in table.constraints:
        name = str(preparer.format_constraint(constraint))
        if isinstance(constraint, CheckConstraint):
            rules[name] = []
        elif isinstance(constraint, UniqueConstraint) and "id" not in constraint.columns:
            rules[name] = list(constraint.columns.keys())
    return rules


def _statement(table: SqlTable, case: InvalidRow) -> str:
    if case.update:
        changes = ", ".join(f"{column} = {value}" for column, value in case.changes.items())
        return f"UPDATE {table.name} SET {changes} WHERE {case.where}"
    columns = [column.name for column in table.columns if column.name != "id" or "id" in case.changes]
    values = ", ".join(case.changes.get(column, column) for column in columns)
    source = f"(SELECT * FROM {table.name} WHERE {case.where} ORDER BY 1 LIMIT 1) AS source"
    return f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT {values} FROM {source}"


@pytest.mark.parametrize("case", NUMBERED)
def test_a_wrong_row_is_refused_by_its_rule(full_sample: SampleRows, case: InvalidRow) -> None:
    on_sqlite = full_sample.store.engine.dialect.name == "sqlite"
    if case.sqlite_only and not on_sqlite:
        pytest.skip("PostgreSQL has a column type that holds nothing else")
    table = next(table for table in TABLES if case.rule in _rules(table))
    with pytest.raises(RefusedError) as caught, full_sample.write() as session:
        session.execute(text(_statement(table, case)))
    error = caught.value
    assert isinstance(error, DuplicateError) == case.rule.startswith("uq_")
    if on_sqlite and case.rule.startswith("uq_"):
        columns = ", ".join(f"{table.name}.{column}" for column in _rules(table)[case.rule])
        assert str(error).endswith(f"UNIQUE constraint failed: {columns}")
    else:
        assert error.rule == case.rule


def test_every_rule_has_a_row_that_it_refuses() -> None:
    shown = Counter(case.rule for case in INVALID_ROWS)
    assert {rule for table in TABLES for rule in _rules(table)} - set(shown) == BEHIND_A_GUARD


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))
def test_a_row_that_others_point_to_cannot_be_removed(full_sample: SampleRows, table: SqlTable) -> None:
    pointed_to = {
        key.referred_table.name
        for other in TABLES
        for key in other.foreign_key_constraints
        if other is not table and key.ondelete == "RESTRICT"
    }
    if table.name in pointed_to:
        with pytest.raises(RefusedError), full_sample.write() as session:
            session.execute(text(f"DELETE FROM {table.name}"))
