"""Triggers for both databases from one definition: guards reject a change, effects follow from one.

Migrations use this module, so its output must not change: add a new function instead.
"""

from dataclasses import dataclass

from sqlalchemy import DDL, MetaData, event


@dataclass(frozen=True)
class Guard:
    """A trigger that rejects an INSERT, UPDATE (OF columns) or DELETE when its condition holds."""

    name: str
    table: str
    change: str
    message: str
    when: str = "true"


@dataclass(frozen=True)
class Effect:
    """A trigger that runs a statement after a change when its condition holds.

    PostgreSQL keeps every version of a row until the transaction ends, so updating a total once per row gets slower
    with each row. If given, `at_once` runs there instead, once per statement, with the changed rows in the tables
    `added` and (after an UPDATE) `removed`.
    """

    name: str
    table: str
    change: str
    then: str
    when: str = "true"
    at_once: str = ""


Trigger = Guard | Effect


def create_statements(trigger: Trigger, dialect: str) -> list[str]:
    """Return the SQL that creates a trigger."""
    return _sqlite(trigger) if dialect == "sqlite" else _postgresql(trigger)


def drop_statements(trigger: Trigger, dialect: str) -> list[str]:
    """Return the SQL that drops a trigger."""
    if dialect == "sqlite":
        return [f"DROP TRIGGER {trigger.name}"]
    return [f"DROP TRIGGER {trigger.name} ON {trigger.table}", f"DROP FUNCTION {trigger.name}()"]


def attach(metadata: MetaData, triggers: list[Trigger]) -> None:
    """Create the triggers together with the tables."""
    for trigger in triggers:
        for dialect in ("sqlite", "postgresql"):
            for statement in create_statements(trigger, dialect):
                ddl = DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
                event.listen(metadata, "after_create", ddl.execute_if(dialect=dialect))


def _sqlite(trigger: Trigger) -> list[str]:
    # SQLite has one writer at a time and no row locks; its IS NOT is the standard's IS DISTINCT FROM.
    when = trigger.when.replace(" FOR KEY SHARE", "").replace(" FOR UPDATE", "").replace("IS DISTINCT FROM", "IS NOT")
    if isinstance(trigger, Guard):
        moment, body = "BEFORE", f"SELECT RAISE(ABORT, '{trigger.name}: {trigger.message}')"
    else:
        moment, body = "AFTER", trigger.then
    head = f"CREATE TRIGGER {trigger.name} {moment} {trigger.change} ON {trigger.table} FOR EACH ROW"
    return [f"{head}\nWHEN {when}\nBEGIN {body}; END"]


def _postgresql(trigger: Trigger) -> list[str]:
    moment, change, rows = "AFTER", trigger.change, "FOR EACH ROW"
    if isinstance(trigger, Guard):
        moment = "BEFORE"
        refusal = f"USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = '{trigger.name}'"
        body = f"IF {trigger.when} THEN RAISE EXCEPTION '{trigger.message}' {refusal}; END IF"
    elif trigger.at_once:
        change = trigger.change.split(" OF ")[0]
        removed = " OLD TABLE AS removed" if change == "UPDATE" else ""
        rows, body = f"REFERENCING NEW TABLE AS added{removed} FOR EACH STATEMENT", trigger.at_once
    else:
        body = f"IF {trigger.when} THEN {trigger.then}; END IF"
    block = f"BEGIN\n    {body};\n    RETURN COALESCE(NEW, OLD);\nEND"
    return [
        f"CREATE FUNCTION {trigger.name}() RETURNS trigger LANGUAGE plpgsql AS $$\n{block} $$",
        f"CREATE TRIGGER {trigger.name} {moment} {change} ON {trigger.table} {rows} EXECUTE FUNCTION {trigger.name}()",
    ]
