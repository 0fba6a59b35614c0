"""Commands, pages and manager steps call use cases; they open no transaction."""

import ast
from collections.abc import Iterator
from pathlib import Path

import plugin

FOLDER = Path(plugin.__file__).parent
# It measures what the simulated crowd did, and reads for that only.
OWN_READS = {"simulation/results.py", "demo/simulation.py"}


def transactions(source: str) -> Iterator[str]:
    """Yield every `with` item that opens a transaction of the store."""
    for node in ast.walk(ast.parse(source)):
        for item in node.items if isinstance(node, ast.With) else []:
            call = item.context_expr
            name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
            if name in ("write", "dry_run") or (name == "read" and item.optional_vars):
                yield ast.unparse(call)


def test_the_search_finds_a_transaction() -> None:
    assert list(transactions("with services.store.write() as session:\n    pass")) == ["services.store.write()"]


def test_only_services_open_transactions() -> None:
    found = {
        file.relative_to(FOLDER).as_posix(): calls
        for file in FOLDER.rglob("*.py")
        if (calls := list(transactions(file.read_text(encoding="utf-8"))))
    }
    assert set(found) <= OWN_READS, found
