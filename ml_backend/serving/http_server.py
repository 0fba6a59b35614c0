"""The HTTP server of one process: uvicorn holds the connections, threads answer requests that have arrived completely.

docs/server.md says why it is made of these parts.
"""

import asyncio
import re
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from wsgiref.types import WSGIApplication

import uvicorn
import uvloop

from ml_backend.serving.connections import DEFAULT_LIMITS, Connection, ConnectionLimits, check_connections
from ml_backend.serving.request_threads import RequestThreads
from ml_backend.serving.wsgi_bridge import WsgiBridge

BACKLOG = 1_024
# The health of a server, and of a task of the ML backend.
HEALTH = re.compile(r"(?:/tasks/[^/]+(?:/rounds/[^/]+)?)?/health/?")
HEALTH_THREADS = 2
# More than the application takes at a time, so that it can refuse the others.
STREAM_THREADS = 8
KEEP_ALIVE_SECONDS = 30
CHECK_SECONDS = 1.0
# Files for databases, logs and models.
RESERVED_FILES = 256


class HttpServer(uvicorn.Server):
    """Serves a WSGI application, `at_once` requests at a time, and questions for its health beside them.

    Requests whose path matches the pattern `one_by_one` are answered one after the other, also beside the others.
    Bodies of those that match `streamed` are read while they arrive, on threads of their own. Set
    `should_exit` to stop it. When it stops, it finishes the current requests within `grace` seconds.
    """

    def __init__(
        self,
        app: WSGIApplication,
        at_once: int,
        *,
        grace: int,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        one_by_one: str = "",
        streamed: str = "",
    ) -> None:
        lanes = {HEALTH: RequestThreads(HEALTH_THREADS)}
        if one_by_one:
            lanes[re.compile(one_by_one)] = RequestThreads(1)
        uploads = re.compile(streamed) if streamed else None
        if uploads is not None:
            lanes[uploads] = RequestThreads(STREAM_THREADS)
        self._threads = [RequestThreads(at_once), *lanes.values()]
        self._bridge = WsgiBridge(app, self._threads[0], lanes, uploads)
        limits = replace(limits, connections=_allow_files(limits.connections))
        super().__init__(
            uvicorn.Config(
                self._bridge,
                http=partial(Connection, limits=limits),  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                # Applications that have proxies in front of them know how many they trust.
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=grace,
            )
        )

    def serve_on(self, sockets: Sequence[socket.socket], on_tick: Callable[[], None]) -> None:
        """Serve until `should_exit` is set; `on_tick` is called about every second."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve_and_tick(list(sockets), on_tick))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone: gunicorn handles them."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End asynchronous streams too: most have no end of their own."""
        self._bridge.end_streams()
        await super().shutdown(sockets)

    async def _serve_and_tick(self, sockets: list[socket.socket], on_tick: Callable[[], None]) -> None:
        ticking = asyncio.create_task(self._tick(on_tick))
        try:
            await self.serve(sockets)
        finally:
            ticking.cancel()
            for one in self._threads:
                one.close()

    async def _tick(self, on_tick: Callable[[], None]) -> None:
        """Run while the server is stopping, too."""
        while True:
            on_tick()
            check_connections(self.server_state.connections)
            await asyncio.sleep(CHECK_SECONDS)


def _allow_files(connections: int) -> int:
    """Allow this process as many open files as it needs; return how many connections it can hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = connections + RESERVED_FILES
    if soft == resource.RLIM_INFINITY or soft >= files:
        return connections
    allowed = files if hard == resource.RLIM_INFINITY else min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, allowed - RESERVED_FILES)
