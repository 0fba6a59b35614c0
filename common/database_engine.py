"""Engines with limits: how many connections a process opens, and how long it waits for the database.

A server must answer within seconds while its database is overloaded, stopped or unreachable. PostgreSQL's own timeouts
do not help then: a stopped server cannot enforce them, and its kernel keeps the connection alive. So every wait for an
answer has a limit in the client too.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from common.arrival import arrived_at
from common.errors import CodedError

# What a connection may take to show that it still works, before it is replaced.
PING_SECONDS = 1.0
# The server ends a statement first; its connection can then be used again.
GRACE_SECONDS = 1.0
# A connection attempt that fails after this time is a slow one: others must not wait as long.
SLOW_SECONDS = 0.5
# SQLite cannot wait without a limit.
SQLITE_LOCK_SECONDS = 30.0
# Notice a server that was switched off within half a minute, also on idle connections.
KEEPALIVES = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


@dataclass(frozen=True)
class DatabaseLimits:
    """The connections of a process, and how long it waits, in seconds; None means without a limit.

    The defaults are for commands and the manager, whose transactions may be long.
    """

    connections: int = 20
    # For a new connection. PostgreSQL's driver waits at least 2 seconds.
    connect: float = 5.0
    # For a lock, or for a free connection.
    lock: float | None = 30.0
    # For one statement. SQLite's are not limited: they need no other process.
    statement: float | None = 600.0


def limited_engine(url: URL, limits: DatabaseLimits, busy: type[CodedError], **options: Any) -> Engine:
    """Return an engine with these limits; `busy` is raised if no connection becomes free in time."""
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite:
        arguments: dict[str, Any] = {"timeout": SQLITE_LOCK_SECONDS if limits.lock is None else limits.lock}
    else:
        arguments = _postgresql_arguments(url, limits)
    engine = create_engine(
        url,
        # Parameters hold what people typed: they must not reach a log through an error message.
        hide_parameters=True,
        connect_args=arguments,
        poolclass=_pool_class(busy),
        pool_size=limits.connections,
        max_overflow=0,
        pool_timeout=limits.lock,
        pool_use_lifo=True,
        pool_pre_ping=not is_sqlite,
        **options,
    )
    if not is_sqlite:
        _limit_waiting(engine, limits)
    return engine


def _pool_class(busy: type[CodedError]) -> type[QueuePool]:
    class LimitedPool(QueuePool):
        def connect(self) -> PoolProxiedConnection:
            try:
                return super().connect()
            except PoolTimeout as error:
                raise busy("all database connections of this process are in use") from error

    # SQLAlchemy names the pool's logger after its module: like all of its loggers, it is set to warnings.
    LimitedPool.__module__ = QueuePool.__module__
    return LimitedPool


def _postgresql_arguments(url: URL, limits: DatabaseLimits) -> dict[str, Any]:
    """Return the arguments of a connection; what the URL says itself wins."""
    own = {
        "connect_timeout": max(2, ceil(limits.connect)),
        # A network that swallows what is sent breaks the connection.
        "tcp_user_timeout": ceil(1_000 * ((limits.statement or 60.0) + GRACE_SECONDS)),
        **KEEPALIVES,
    }
    settings = {"lock_timeout": limits.lock, "statement_timeout": limits.statement}
    flags = [f"-c {name}={ceil(1_000 * seconds)}" for name, seconds in settings.items() if seconds is not None]
    given = url.query.get("options", "")
    options = " ".join([*flags, given if isinstance(given, str) else " ".join(given)]).strip()
    return {**{name: value for name, value in own.items() if name not in url.query}, "options": options}


def _limit_waiting(engine: Engine, limits: DatabaseLimits) -> None:
    """Limit in this process how long a connection waits for the server: briefly while it is checked, then longer."""
    connector = _Connector(limits)
    patience = None if limits.statement is None else limits.statement + GRACE_SECONDS

    def connect(_dialect: Any, _record: Any, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        return connector.connect(arguments, named)

    def check_out(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.patience = patience

    def check_in(connection: Any, _record: Any) -> None:
        if connection is not None:
            connection.patience = PING_SECONDS

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "checkout", check_out)
    event.listen(engine, "checkin", check_in)


class _Connector:
    """Opens connections. After a slow failure one thread tries at a time, and the others fail at once.

    Otherwise every thread of a server would wait for a database that is away, and none would be left to say so. A
    request that arrived before the failure has waited as long as the attempt took, and fails at once, too: requests
    that are answered one by one would otherwise try one after the other.
    """

    def __init__(self, limits: DatabaseLimits) -> None:
        self._patience = limits.connect
        self._trying = threading.Lock()
        # When the last attempt ended, by the monotonic clock, if it failed slowly.
        self._failed_at: float | None = None

    def connect(self, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        """Return a new connection; raise the driver's error if that fails."""
        failed_at = self._failed_at
        if failed_at is None:
            return self._try(arguments, named)
        if arrived_at() <= failed_at or not self._trying.acquire(blocking=False):
            raise _driver().OperationalError("the server did not answer another attempt")
        try:
            return self._try(arguments, named)
        finally:
            self._trying.release()

    def _try(self, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        began = time.monotonic()
        try:
            connection = _connection_class().connect(*arguments, **named)
        except _driver().Error:
            ended = time.monotonic()
            self._failed_at = ended if ended - began >= SLOW_SECONDS else None
            raise
        self._failed_at = None
        connection.patience = self._patience
        return connection


def _driver() -> Any:
    import psycopg

    return psycopg


@cache
def _connection_class() -> Any:
    """Return the driver's connection with limited patience; the driver is optional, so it is imported late."""
    import psycopg

    class PatientConnection(psycopg.Connection[Any]):
        """A connection that breaks if the server does not answer within `patience` seconds."""

        patience: float | None = None

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            limit = self.patience if timeout is None else timeout
            began = time.monotonic()
            try:
                return super().wait(gen, interval, limit)
            except psycopg.OperationalError:
                if limit is not None and time.monotonic() - began >= limit:
                    # What arrives later would be taken for the answer to something else.
                    self.pgconn.finish()
                raise

    return PatientConnection
