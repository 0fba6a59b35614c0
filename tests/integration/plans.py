"""SQLite's query plans: whether a query scans a whole round."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from round_manager.database.store import Store

# Scans of tables that grow with a round: of the whole table, or by an index with only the round known;
# an index over unfinished rows may be read completely.
GROWING = "example|vote|attempt|lease|work_item|work_session|hit|assignment|ledger_entry"
UNFINISHED = "ix_(work_session_to_confirm|example_pending|hit_unfinished|ledger_entry_sent)"
WALKS = re.compile(
    rf"SCAN ({GROWING})(?! USING (COVERING )?INDEX {UNFINISHED})\b"
    rf"|INDEX (?!{UNFINISHED})ix_(example|attempt)_\w+ \(round_id=\?( AND status=\?)?\)"
)
QUESTIONS = ("SELECT", "UPDATE", "DELETE")


@contextmanager
def asked() -> Iterator[dict[str, Any]]:
    """Record every statement in the block, with the values of its last execution."""
    statements: dict[str, Any] = {}

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, _context: Any, many: bool) -> None:
        if statement.startswith(QUESTIONS) and not many:
            statements[statement] = values

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def walks(store: Store, statements: dict[str, Any]) -> dict[str, str]:
    """Return the statements whose time grows with the round, with their plans."""
    with closing(sqlite3.connect(str(store.engine.url.database))) as connection:
        plans = {
            statement: "\n".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values))
            for statement, values in statements.items()
        }
    return {statement: plan for statement, plan in plans.items() if WALKS.search(plan)}
