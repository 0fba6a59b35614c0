"""Health check of a process for containers: exit code 0 if it is healthy, otherwise 1 and one line that says why.

    python -m plugin.health http://127.0.0.1:8000/health    a server, by its health route
    python -m plugin.health manager                         the manager, by the time of its last complete pass

It runs often: for a server, only the standard library is loaded.
"""

import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

MANAGER = "manager"
TIMEOUT = 4.0
OK = 200
# A pass over many tasks with a slow marketplace takes minutes; trainings run in other processes.
LONGEST_PASS = timedelta(minutes=15)


def find_problem(what: str) -> str:
    """Return what is wrong with the server at the address, or with the manager; an empty string if nothing is."""
    return _manager_problem() if what == MANAGER else _server_problem(what)


def main(arguments: Sequence[str]) -> int:
    """Check one process; print what is wrong."""
    problem = find_problem(arguments[0]) if len(arguments) == 1 else "pass one address, or `manager`"
    if problem:
        sys.stderr.write(f"{problem}\n")
    return 1 if problem else 0


def _server_problem(address: str) -> str:
    try:
        parts = urlsplit(address)
        if parts.scheme != "http" or not parts.hostname:
            return f"{address} is not a valid address; use http://host:port/health"
        connection = HTTPConnection(parts.hostname, parts.port or 80, timeout=TIMEOUT)
        try:
            connection.request("GET", parts.path or "/")
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, ValueError, HTTPException) as error:
        return f"{address} does not answer: {error}"
    return "" if status == OK else f"{address} answers with HTTP {status}"


def _manager_problem() -> str:
    from plugin.errors import PluginError
    from plugin.settings import load_settings
    from plugin.wiring import Application
    from round_manager.errors import RoundManagerError
    from round_manager.services.context import ServiceContext
    from round_manager.services.manager_runs import last_pass

    try:
        app = Application(load_settings(os.environ))
        # With the limits of a server: a health check must not take long.
        with app.lazy_store.open() as store:
            last = last_pass(ServiceContext(store, app.clock))
    except (PluginError, RoundManagerError) as error:
        return str(error)
    if last is None:
        return "the manager has not completed a pass yet"
    silent = app.clock.now() - last.ran_at
    return f"the manager has not completed a pass since {last.ran_at:%F %T}" if silent > LONGEST_PASS else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
