"""Checks that a database can be used: by a write that changes nothing, on a separate connection."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL, Engine, Executable

from common.database import read_only
from common.database_engine import DatabaseLimits
from common.errors import CodedError
from common.health import check_disk

# A health check takes a second at most; and it must not queue behind the requests of a busy process.
LIMITS = DatabaseLimits(connections=1, connect=2.0, lock=0.3, statement=1.0)
Found = TypeVar("Found")


class DatabaseProbe:
    """Checks one database; `open_engine` opens it with limits, and raises `busy` for a lock of another process."""

    def __init__(self, url: URL, open_engine: Callable[[str, DatabaseLimits], Engine], busy: type[CodedError]) -> None:
        self._url = url
        self._open_engine = open_engine
        self._busy = busy
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    def run(self, look: Callable[[Engine], Found], touch: Executable) -> Found:
        """Return what `look` finds, after a committed `touch`; raise an error if one of them fails.

        A statement that writes a row as it was shows a full disk, and a read-only file or server.
        """
        is_sqlite = self._url.get_backend_name() == "sqlite"
        file = Path(str(self._url.database))
        if is_sqlite and not file.is_file():
            self.close()
        engine = self._open()
        found = look(read_only(engine))
        if is_sqlite:
            check_disk(file.parent, file)
        # A database that another process has locked works: it can be written in a moment.
        with suppress(self._busy), engine.begin() as connection:
            connection.execute(touch)
        return found

    def close(self) -> None:
        """Close its connection."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def _open(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self._open_engine(self._url.render_as_string(hide_password=False), LIMITS)
            return self._engine
